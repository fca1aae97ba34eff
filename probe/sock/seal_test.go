package sock_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"testing"
	"time"

	"github.com/phoebe-sched/phoebe/probe/identity"
	"github.com/phoebe-sched/phoebe/probe/sock"
)

// newKeys makes the keys of a worker, in files of dir.
func newKeys(t *testing.T) (keys *identity.Keys, dir string) {
	t.Helper()
	ca, err := identity.NewAuthority("test", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	if err := ca.Issue(dir, identity.Identity{Roles: identity.Worker}, time.Hour, ca); err != nil {
		t.Fatal(err)
	}
	if keys, err = identity.Open(dir); err != nil {
		t.Fatal(err)
	}
	return keys, dir
}

// sealed makes both ends of a TLS connection. b has done its handshake.
func sealed(t *testing.T) (a, b *sock.Conn) {
	t.Helper()
	keys, _ := newKeys(t)
	plain, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := keys.Listen(plain, identity.Worker)
	defer l.Close()
	done := make(chan error, 1)
	go func() {
		there, err := l.Accept()
		if err == nil {
			b = there.(*sock.Conn)
			err = b.Handshake(context.Background())
		}
		done <- err
	}()
	here, err := keys.Connect(t.Context(), new(net.Dialer).DialContext, plain.Addr().String(), identity.Worker)
	if err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	a = here.(*sock.Conn)
	t.Cleanup(func() { a.Close(); b.Close() })
	return a, b
}

// Bytes taken by TryWrite arrive in order, and before later writes, although the peer reads late.
func TestSealedWrites(t *testing.T) {
	a, b := sealed(t)
	all := make([]byte, 16<<20)
	for i := range all {
		all[i] = byte(i * i >> 8)
	}
	begun := 0
	for n := -1; n != 0; begun += n {
		n = a.TryWrite(all[begun : begun+10_000])
	}
	if begun < 100_000 || begun > 12<<20 {
		t.Fatalf("%d bytes were taken at once", begun)
	}
	done := make(chan error, 1)
	go func() {
		n, err := a.Write(all[begun:])
		if begun+n != len(all) {
			t.Errorf("%d bytes were written of %d", begun+n, len(all))
		}
		a.Close()
		done <- err
	}()
	got, err := io.ReadAll(b)
	if err != nil || !bytes.Equal(got, all) {
		t.Errorf("what came is not what was written: %d bytes, %v", len(got), err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	if n := a.TryWrite(all[:1]); n != 0 {
		t.Errorf("a closed connection took %d bytes", n)
	}
	if _, err := a.Write(all[:1]); err == nil {
		t.Error("a closed connection was written to")
	}
}

// If the peer does not read, a writer ends at its deadline, and at the end of the connection.
func TestSealedStall(t *testing.T) {
	for what, end := range map[string]func(*sock.Conn){
		"deadline": func(a *sock.Conn) { a.SetWriteDeadline(time.Now().Add(10 * time.Millisecond)) },
		"closed":   func(a *sock.Conn) { time.AfterFunc(10*time.Millisecond, func() { a.Close() }) },
	} {
		a, _ := sealed(t)
		end(a)
		if n, err := a.Write(make([]byte, 64<<20)); err == nil {
			t.Errorf("%s: %d bytes were written", what, n)
		}
	}
}
