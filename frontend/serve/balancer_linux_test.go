package serve

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/pires/go-proxyproto"

	"github.com/phoebe-sched/phoebe/idl/gen/phoebe/v1"
	"github.com/phoebe-sched/phoebe/probe/audit"
	"github.com/phoebe-sched/phoebe/probe/identity"
)

// startBalanced starts a frontend with an audit log. The frontend trusts the balancer at 127.0.0.2.
func startBalanced(t *testing.T, keys *identity.Keys) (c *testCluster, log func() []audit.Entry) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "audit")
	a, err := audit.Open(file, new(metrics.Counter))
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(
		Config{Listen: "127.0.0.1:0", ProxyFrom: []netip.Prefix{netip.MustParsePrefix("127.0.0.2/32")}, Audit: a,
			Keys: keys})
	if err == nil {
		err = s.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	c = &testCluster{Server: s}
	return c, func() (all []audit.Entry) {
		t.Helper()
		a.Close()
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
			var e audit.Entry
			if err := json.Unmarshal([]byte(line), &e); err != nil {
				t.Fatal(err)
			}
			all = append(all, e)
		}
		return all
	}
}

// connectRelayed connects from the balancer's address.
func connectRelayed(t *testing.T, c *testCluster) *rawConn {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP("127.0.0.2")}}
	conn, err := d.Dial("tcp", c.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(time.Minute))
	return &rawConn{t, conn}
}

// proxyHeader makes a header of the PROXY protocol that names the client from. more pads the header, in bytes.
func proxyHeader(t *testing.T, version byte, from string, more int) []byte {
	t.Helper()
	h := proxyproto.HeaderProxyFromAddrs(version, net.TCPAddrFromAddrPort(netip.MustParseAddrPort(from)),
		&net.TCPAddr{IP: net.ParseIP("127.0.0.1"), Port: 7410})
	if more > 0 {
		if err := h.SetTLVs([]proxyproto.TLV{{Type: proxyproto.PP2_TYPE_NOOP, Value: make([]byte, more)}}); err != nil {
			t.Fatal(err)
		}
	}
	b, err := h.Format()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// A call counts as coming from the client named by the balancer. Headers from anywhere else, and balancers without
// a header, are refused.
func TestBalancer(t *testing.T) {
	c, log := startBalanced(t, nil)
	call := frameOf("Run", &v1.PhoebeRunArgs{Request: &v1.RunRequest{Job: newJob("echo", "x")}})
	own := proxyproto.Header{Version: 2, Command: proxyproto.LOCAL, TransportProtocol: proxyproto.UNSPEC}
	local, err := own.Format()
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]int{}
	for from, head := range map[string][]byte{
		"203.0.113.7:4711":   proxyHeader(t, 2, "203.0.113.7:4711", 0),
		"[2001:db8::7]:4711": proxyHeader(t, 2, "[2001:db8::7]:4711", 0),
		"198.51.100.9:40000": proxyHeader(t, 2, "198.51.100.9:40000", 2000),
		"":                   local, // the balancer itself
	} {
		r := connectRelayed(t, c)
		for _, b := range slices.Concat(head, call) { // in pieces of a byte
			r.writeBytes([]byte{b})
		}
		r.wantRefused(v1.RefusedReason_NO_WORKER, "") // the call was read; there are no workers
		r.writeBytes(call)
		r.wantRefused(v1.RefusedReason_NO_WORKER, "")
		want[cmp.Or(from, r.LocalAddr().String())] = 2
	}
	got := map[string]int{}
	for _, e := range log() {
		got[e.From]++
	}
	if !maps.Equal(got, want) {
		t.Errorf("calls by where they came from: %v, want %v", got, want)
	}
}

func TestBalancerRefused(t *testing.T) {
	c, log := startBalanced(t, nil)
	call := frameOf("Run", &v1.PhoebeRunArgs{Request: &v1.RunRequest{Job: newJob("echo", "x")}})
	header2 := proxyHeader(t, 2, "203.0.113.7:4711", 0)
	long := slices.Clone(header2)
	binary.BigEndian.PutUint16(long[14:], 65535)
	short := slices.Clone(header2)
	binary.BigEndian.PutUint16(short[14:], 3)
	command := slices.Clone(header2)
	command[12] = 0x2f
	for name, b := range map[string][]byte{
		"no header":             call,
		"the protocol's first":  append(proxyHeader(t, 1, "203.0.113.7:4711", 0), call...),
		"a header that is long": append(long, call...),
		"one that is short":     append(short, call...),
		"an unknown command":    append(command, call...),
		"two of them":           slices.Concat(header2, header2, call),
	} {
		t.Run(name, func(t *testing.T) {
			r := connectRelayed(t, c)
			r.writeBytes(b)
			r.wantGone()
		})
	}
	t.Run("by somebody else", func(t *testing.T) {
		r := connectRaw(t, c)
		r.writeBytes(slices.Concat(header2, call))
		r.wantGone()
	})
	t.Run("half of it", func(t *testing.T) {
		r := connectRelayed(t, c)
		r.writeBytes(header2[:5])
		r.Close()
	})
	connectRelayed(t, c).Close() // a health check
	pollUntil(t, "all of them to be counted",
		func() bool { return c.metrics.connsUnintroduced.Get() == 6 && c.metrics.connsGarbage.Get() == 2 })
	for _, e := range log() {
		if strings.HasPrefix(e.From, "203.") {
			t.Errorf("a header counted that should not: %+v", e)
		}
	}
}

// With TLS the header comes before the handshake, in plain. A client refused by certificate is logged under the
// address in the header.
func TestBalancerByTLS(t *testing.T) {
	dir := t.TempDir()
	ca, err := identity.NewAuthority("test", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	keys := func(role string) *identity.Keys {
		id, err := identity.Parse(role)
		if err == nil {
			err = ca.Issue(filepath.Join(dir, role), id, time.Hour, ca)
		}
		if err != nil {
			t.Fatal(err)
		}
		k, err := identity.Open(filepath.Join(dir, role))
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	refused := make(chan string, 10)
	own := keys("frontend")
	own.Refused = func(from string, _ error) { refused <- from }
	c, log := startBalanced(t, own)
	for _, role := range []string{"operator", "worker"} {
		k, from := keys(role), fmt.Sprintf("203.0.113.%d:4711", len(role))
		conn, err := k.Connect(context.Background(), func(ctx context.Context, network, addr string) (net.Conn, error) {
			d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP("127.0.0.2")}}
			conn, err := d.DialContext(ctx, network, addr)
			if err == nil {
				_, err = conn.Write(proxyHeader(t, 2, from, 0))
			}
			return conn, err
		}, c.Addr(), identity.Frontend)
		if err != nil {
			t.Fatal(err)
		}
		r := &rawConn{t, conn}
		defer r.Close()
		if role == "worker" {
			if got := <-refused; got != from {
				t.Errorf("a worker was refused from %s, want %s", got, from)
			}
			continue
		}
		r.writeBytes(frameOf("Run", &v1.PhoebeRunArgs{Request: &v1.RunRequest{Job: newJob("echo", "x")}}))
		r.wantRefused(v1.RefusedReason_NO_WORKER, "")
	}
	if all := log(); len(all) != 1 || all[0].From != "203.0.113.8:4711" || all[0].Who != "operator" {
		t.Errorf("%+v", all)
	}
}
