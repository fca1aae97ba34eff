package main

import (
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
)

// Without certificates an admin port beyond loopback answers to no name of an attacker. Monitors may use any name.
func TestAdminNames(t *testing.T) {
	own, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	beyond := &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1)}
	loopback := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}
	ok := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	for _, c := range []struct {
		listens  *net.TCPAddr
		hasKeys  bool
		hosts    string
		path     string
		accepted bool
	}{
		{beyond, false, "evil.example evil.example:80 localhost.evil.example", "/maintenance", false},
		{beyond, false, "evil.example", "/debug/pprof/profile", false},
		{beyond, false, "evil.example", "/ui/", false},
		{beyond, false, "evil.example frontend-1:7413", "/metrics", true},
		{beyond, false, "192.0.2.1 [2001:db8::1]:7413 localhost:7413 " + own, "/ui/", true},
		{beyond, false, "desk.example Proxy.example:80", "/ui/", true},
		{beyond, true, "any.example", "/ui/", true},
		{loopback, true, "any.example", "/metrics", false},
		{loopback, false, "any.example " + own + ".evil.example", "/metrics", false},
		{loopback, false, "127.0.0.1:7413 localhost desk.example proxy.example:80", "/ui/", true},
	} {
		h := refuseForeign(ok, newAdminNames(c.listens, "desk.example", []string{"proxy.example"}, c.hasKeys))
		for host := range strings.FieldsSeq(c.hosts) {
			r := httptest.NewRequest(http.MethodGet, "http://x"+c.path, nil)
			r.Host = host
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if accepted := w.Code == http.StatusOK; accepted != c.accepted {
				t.Errorf("%v, with keys %v: %s at %s: %d", c.listens.IP, c.hasKeys, c.path, host, w.Code)
			}
		}
	}
}
