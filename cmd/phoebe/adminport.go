package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/phoebe-sched/phoebe/frontend/ui"
	"github.com/phoebe-sched/phoebe/probe/door"
)

const (
	maxAdminConns  = 256              // connections of the admin port
	maxAdminBody   = 64 << 10         // bytes of a request's body; an empty body is enough
	adminReadTime  = 5 * time.Second  // for the header of a request, and for its body
	adminWriteTime = 30 * time.Second // for a write of an answer: a few KB
)

// newAdminDoor makes the door of the admin port. Only callers with a token or an operator's certificate are ever
// known. The remaining callers may be monitors, and stay as long as there is room. Their requests are bounded by
// adminReadTime and adminWriteTime.
func newAdminDoor() *door.Door { return door.New(door.Rule{MaxConns: maxAdminConns, StrangerTime: -1}) }

// adminConnContext makes connKey and door.GuestOf work for requests to the admin port.
func adminConnContext(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(door.ConnContext(ctx, c), connKey{}, c.(*door.Conn).Conn)
}

// boundRequests reads the body of a request before h handles the request, and bounds the time for the body and for
// each write of the answer. A profile or a stream may take any time as a whole.
func boundRequests(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		timed := &timedWriter{w, http.NewResponseController(w)}
		timed.limitWriteTime()
		if r.ContentLength != 0 {
			_ = timed.control.SetReadDeadline(time.Now().Add(adminReadTime)) // an error: the connection has ended
			body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxAdminBody))
			if err != nil {
				status := http.StatusRequestEntityTooLarge
				if errors.Is(err, os.ErrDeadlineExceeded) {
					status = http.StatusRequestTimeout
				}
				w.Header().Set("Connection", "close")
				http.Error(w, err.Error()+": put all parameters into the address", status)
				return
			}
			_ = timed.control.SetReadDeadline(time.Time{})
			r.Body = io.NopCloser(bytes.NewReader(body))
		}
		h.ServeHTTP(timed, r)
	})
}

// timedWriter bounds the time of each write.
type timedWriter struct {
	http.ResponseWriter
	control *http.ResponseController
}

func (w *timedWriter) limitWriteTime() {
	_ = w.control.SetWriteDeadline(time.Now().Add(adminWriteTime)) // an error: the connection has ended
}

func (w *timedWriter) Write(b []byte) (int, error) {
	w.limitWriteTime()
	return w.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (w *timedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// noteToken tells the door whether a request shows the token, and ends a connection at the third wrong token.
func noteToken(h http.Handler, token ui.Token) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		guest := door.GuestOf(r.Context())
		switch {
		case token.Shown(r):
			guest.MarkKnown()
		case token != "" && r.Header.Get("Authorization") != "" && guest.NoteWrongSecret():
			w.Header().Set("Connection", "close")
		}
		h.ServeHTTP(w, r)
	})
}

// adminNames are the names that requests to the admin port may give as host.
type adminNames struct {
	names []string // in lower case
	// Monitors may use any name. An attacker's page could read the metrics, and no more.
	freeForMonitors bool
}

// admit reports whether the host of a request is safe: no name that an attacker could resolve to this machine.
func (n *adminNames) admit(r *http.Request) bool {
	path := r.URL.Path
	if n == nil || n.freeForMonitors && (path == "/metrics" || path == "/livez" || path == "/readyz") {
		return true
	}
	host := r.Host
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	if _, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		return true
	}
	return slices.Contains(n.names, strings.ToLower(host))
}

// newAdminNames returns the names that --admin and --admin-hosts give, with the machine's own. Names are checked
// on loopback, and if there are no certificates. nil: every name is fine.
func newAdminNames(listens net.Addr, host string, more []string, hasKeys bool) *adminNames {
	loopback := listens.(*net.TCPAddr).IP.IsLoopback()
	if hasKeys && !loopback {
		return nil
	}
	n := &adminNames{names: []string{"", "localhost", strings.ToLower(host)}, freeForMonitors: !loopback}
	if own, err := os.Hostname(); err == nil && !loopback {
		n.names = append(n.names, strings.ToLower(own))
	}
	for _, name := range more {
		n.names = append(n.names, strings.ToLower(name))
	}
	return n
}
