// Package zone is a name server on loopback, for tests.
package zone

import (
	"context"
	"net"
	"sync"
	"testing"

	"github.com/miekg/dns"
)

// Zone answers with its records. Without records, a Zone fails every query. A Zone is safe for concurrent use.
type Zone struct {
	Resolver *net.Resolver // asks only this name server

	mu      sync.Mutex
	records []string
}

// New starts a name server that ends with the test.
func New(t testing.TB) *Zone {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	z := &Zone{}
	z.Resolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
	ended := make(chan struct{})
	s := &dns.Server{PacketConn: conn, Handler: z}
	go func() {
		defer close(ended)
		_ = s.ActivateAndServe() // ends when conn is closed
	}()
	t.Cleanup(func() {
		conn.Close()
		<-ended
	})
	return z
}

// Set replaces the records, each in the form of a zone file.
func (z *Zone) Set(records ...string) {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.records = records
}

// ServeDNS implements dns.Handler.
func (z *Zone) ServeDNS(w dns.ResponseWriter, r *dns.Msg) {
	z.mu.Lock()
	defer z.mu.Unlock()
	m := new(dns.Msg)
	m.SetReply(r)
	if z.records == nil {
		m.Rcode = dns.RcodeServerFailure
	}
	for _, text := range z.records {
		if rr, err := dns.NewRR(text); err == nil && rr.Header().Name == r.Question[0].Name &&
			rr.Header().Rrtype == r.Question[0].Qtype {
			m.Answer = append(m.Answer, rr)
		}
	}
	_ = w.WriteMsg(m) // the client asks again
}
