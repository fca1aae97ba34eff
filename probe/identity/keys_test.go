package identity

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/phoebe-sched/phoebe/probe/whole"
)

func newAuthority(t *testing.T) *Authority {
	t.Helper()
	a, err := NewAuthority("test", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// issue writes keys, and opens them.
func issue(t *testing.T, a *Authority, roles string, lasts time.Duration, trusts ...*Authority) *Keys {
	t.Helper()
	k, err := Open(issueFolder(t, a, roles, lasts, trusts...))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func issueFolder(t *testing.T, a *Authority, roles string, lasts time.Duration, trusts ...*Authority) string {
	t.Helper()
	id, err := Parse(roles)
	if err != nil {
		t.Fatal(err)
	}
	if len(trusts) == 0 {
		trusts = []*Authority{a}
	}
	dir := t.TempDir()
	if err := a.Issue(dir, id, lasts, trusts...); err != nil {
		t.Fatal(err)
	}
	return dir
}

// openSelfSigned opens keys whose certificate signs itself.
func openSelfSigned(t *testing.T, trusts *Authority) *Keys {
	t.Helper()
	dir := issueFolder(t, trusts, "worker", time.Hour)
	cert, key, err := signCert(&x509.Certificate{
		NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(time.Hour),
		URIs:     Identity{Roles: Worker}.roleURIs(),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{CertFile: certPEM(cert),
		KeyFile: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})} {
		if err := whole.WriteBytes(filepath.Join(dir, name), 0o600, text); err != nil {
			t.Fatal(err)
		}
	}
	k, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// serve echoes the words of each peer with one of the roles, and adds the peer's identity.
func serve(t *testing.T, k *Keys, needs Role) (addr string) {
	t.Helper()
	plain, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := k.Listen(plain, needs)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				b := make([]byte, 100)
				for {
					n, err := c.Read(b)
					if err != nil {
						return
					}
					c.Write(append(b[:n:n], " "+k.Peer(c).String()...))
				}
			}()
		}
	}()
	return l.Addr().String()
}

// sayHello says hello, and returns the answer, or the reason for no answer.
func sayHello(t *testing.T, k *Keys, addr string, needs Role) (string, net.Conn) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	c, err := k.Connect(ctx, new(net.Dialer).DialContext, addr, needs)
	if err != nil {
		return "error: " + err.Error(), nil
	}
	t.Cleanup(func() { c.Close() })
	return exchange(c), c
}

func exchange(c net.Conn) string {
	c.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := c.Write([]byte("hello")); err != nil {
		return "error: " + err.Error()
	}
	b := make([]byte, 100)
	n, err := c.Read(b)
	if err != nil {
		return "error: " + err.Error()
	}
	return string(b[:n])
}

func expectText(t *testing.T, name, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %q, want %q", name, got, want)
	}
}

func TestRoles(t *testing.T) {
	ca := newAuthority(t)
	addr := serve(t, issue(t, ca, "worker", time.Hour), Frontend|Operator)
	for _, c := range []struct {
		roles, answer string
		needs         Role
	}{
		{"frontend", "hello frontend", Worker},
		{"frontend+worker", "hello frontend+worker", Worker},
		{"operator", "hello operator", Worker},
		{"worker", "error", Worker},
		{"client/a b", "error", Worker},
		// Both ends check roles.
		{"frontend", "its certificate is for worker, and a certificate for frontend is needed here", Frontend},
	} {
		got, _ := sayHello(t, issue(t, ca, c.roles, time.Hour), addr, c.needs)
		if !strings.Contains(got, c.answer) {
			t.Errorf("%s: %q, want %q", c.roles, got, c.answer)
		}
	}
}

func TestTenants(t *testing.T) {
	ca := newAuthority(t)
	addr := serve(t, issue(t, ca, "frontend", time.Hour), Client)
	for _, tenant := range []string{"acme", "a/b", "with space", "50% ü"} {
		dir := t.TempDir()
		if err := ca.Issue(dir, Identity{Client, tenant}, time.Hour, ca); err != nil {
			t.Fatal(err)
		}
		k, err := Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := sayHello(t, k, addr, Frontend); got != "hello client/"+tenant {
			t.Errorf("%q: %q", tenant, got)
		}
	}
}

// A + joins roles. In the name of a tenant it could pass for a further role.
func TestPlusInTenant(t *testing.T) {
	ca := newAuthority(t)
	addr := serve(t, issue(t, ca, "frontend", time.Hour), Client)
	dir := t.TempDir()
	if err := ca.Issue(dir, Identity{Client, "acme+operator"}, time.Hour, ca); err != nil {
		t.Fatal(err)
	}
	k, err := Open(dir)
	if err == nil {
		got, _ := sayHello(t, k, addr, Frontend)
		err = errors.New(got)
	}
	if want := `a + joins roles`; !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %q", err, want)
	}
}

func TestParse(t *testing.T) {
	for _, text := range []string{"", "client", "client/", "worker/a", "boss", "worker+worker", "frontend+"} {
		if id, err := Parse(text); err == nil {
			t.Errorf("%q is %v", text, id)
		}
	}
}

// A stranger, or a peer whose certificate has ended, gets no byte.
func TestStrangers(t *testing.T) {
	ca, other := newAuthority(t), newAuthority(t)
	addr := serve(t, issue(t, ca, "frontend", time.Hour), Anyone)
	for what, keys := range map[string]*Keys{
		"of another CA": issue(t, other, "worker", time.Hour, ca),
		"self-signed":   openSelfSigned(t, ca),
		"expired":       issue(t, ca, "worker", -30*time.Second),
	} {
		if got, _ := sayHello(t, keys, addr, Anyone); !strings.HasPrefix(got, "error") {
			t.Errorf("%s: %q", what, got)
		}
	}
	// The stranger refuses the server's certificate, too.
	got, _ := sayHello(t, issue(t, ca, "worker", time.Hour, other), addr, Anyone)
	if !strings.HasPrefix(got, "error: TLS with "+addr+": x509: certificate signed by unknown authority") {
		t.Errorf("a server of another CA: %q", got)
	}

	for what, conf := range map[string]*tls.Config{
		"no certificate": {InsecureSkipVerify: true},
		"TLS 1.2": {InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12,
			Certificates: []tls.Certificate{issue(t, ca, "worker", time.Hour).current.ownCert}},
	} {
		c, err := tls.Dial("tcp", addr, conf)
		if err != nil {
			continue
		}
		if got := exchange(c); !strings.HasPrefix(got, "error") {
			t.Errorf("%s: %q", what, got)
		}
		c.Close()
	}
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.Write([]byte("GET / HTTP/1.1\r\n\r\n"))
	if b, _ := io.ReadAll(c); len(b) > 7 || strings.Contains(string(b), "GET") {
		t.Errorf("in plain: %q", b) // only an alert is expected
	}
}

// New keys come into use, and old keys go out of use. No connection breaks before it has to.
func TestRotation(t *testing.T) {
	old, young := newAuthority(t), newAuthority(t)
	server, client := issueFolder(t, old, "frontend", time.Hour), issueFolder(t, old, "worker", time.Hour)
	ks, err := Open(server)
	if err != nil {
		t.Fatal(err)
	}
	kc, err := Open(client)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	look := func() {
		t.Helper()
		for _, k := range []*Keys{ks, kc} {
			if _, err := k.reloadKeys(now); err != nil {
				t.Fatal(err)
			}
		}
	}
	put := func(dir, roles string, by *Authority, trusts ...*Authority) {
		t.Helper()
		id, _ := Parse(roles)
		if err := by.Issue(dir, id, time.Hour, trusts...); err != nil {
			t.Fatal(err)
		}
	}
	addr := serve(t, ks, Worker)
	got, first := sayHello(t, kc, addr, Frontend)
	expectText(t, "before", got, "hello worker")

	put(server, "frontend", old, old, young)
	put(client, "worker", old, old, young)
	look()
	expectText(t, "both CAs", exchange(first), "hello worker")
	if kc.Current(first) {
		t.Error("the first connection is still of the keys that are there now")
	}
	put(server, "frontend", young, old, young)
	look()
	expectText(t, "the server's is new", exchange(first), "hello worker")
	got, second := sayHello(t, kc, addr, Frontend)
	expectText(t, "and on a new connection", got, "hello worker")
	put(client, "worker", young, old, young)
	look()
	got, third := sayHello(t, kc, addr, Frontend)
	expectText(t, "both are new", got, "hello worker")

	stolen := issue(t, old, "worker", time.Hour, old, young)
	got, thief := sayHello(t, stolen, addr, Frontend)
	expectText(t, "an old one while it counts", got, "hello worker")
	put(server, "frontend", young, young)
	put(client, "worker", young, young)
	look()
	for what, c := range map[string]net.Conn{"first": first, "second": second, "old": thief} {
		if got := exchange(c); !strings.HasPrefix(got, "error") {
			t.Errorf("the %s connection goes on: %q", what, got)
		}
	}
	expectText(t, "the third connection", exchange(third), "hello worker")
	if got, _ := sayHello(t, stolen, addr, Frontend); !strings.HasPrefix(got, "error") {
		t.Errorf("an old certificate: %q", got)
	}

	// Unusable files change nothing.
	if err := os.WriteFile(filepath.Join(server, CertFile), []byte("-----BEGIN"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ks.reloadKeys(now); err == nil {
		t.Error("no error for half a file")
	}
	got, _ = sayHello(t, kc, addr, Frontend)
	expectText(t, "after half a file", got, "hello worker")
	// When a certificate ends, its connections end.
	now = now.Add(2 * time.Hour)
	ks.reloadKeys(now)
	if got := exchange(third); !strings.HasPrefix(got, "error") {
		t.Errorf("a connection of a certificate that has ended goes on: %q", got)
	}
}

// Nil Keys speak plain TCP.
func TestPlain(t *testing.T) {
	var k *Keys
	addr := serve(t, k, Worker)
	got, c := sayHello(t, k, addr, Frontend)
	expectText(t, "in plain", got, "hello ")
	if !k.Current(c) || k.Check(Operator) != nil || !k.Until().IsZero() {
		t.Error("a nil one asks for something")
	}
}

func TestOpen(t *testing.T) {
	for name, content := range map[string]string{CAFile: "nothing", KeyFile: "",
		CertFile: "-----BEGIN CERTIFICATE-----"} {
		dir := issueFolder(t, newAuthority(t), "worker", time.Hour)
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), dir) {
			t.Errorf("%s is wrong: %v", name, err)
		}
	}
	if _, err := Open(t.TempDir()); err == nil || !strings.Contains(err.Error(), "phoebe tls makes some") {
		t.Errorf("an empty folder: %v", err)
	}
}
