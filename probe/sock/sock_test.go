package sock

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"
)

// pair makes both ends of a connection over loopback.
func pair(t *testing.T) (a *Conn, b *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	raw, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	there, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { raw.Close(); there.Close() })
	return New(raw), there.(*net.TCPConn)
}

func TestReads(t *testing.T) {
	a, b := pair(t)
	got := make(chan string, 1)
	go func() { // the reader waits first
		all, err := io.ReadAll(a)
		got <- string(all) + errText(err)
	}()
	for _, s := range []string{"one ", "two ", "three"} {
		b.Write([]byte(s))
	}
	b.CloseWrite()
	if s := <-got; s != "one two three" {
		t.Errorf("read %q", s)
	}
	if n, err := a.Read(nil); n != 0 || err != nil {
		t.Errorf("a read of nothing: %d, %v", n, err)
	}
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestReadErrors(t *testing.T) {
	t.Run("deadline", func(t *testing.T) {
		a, _ := pair(t)
		a.SetReadDeadline(time.Now().Add(time.Millisecond))
		if _, err := a.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Error(err)
		}
	})
	t.Run("closed here", func(t *testing.T) {
		a, _ := pair(t)
		failed := make(chan error)
		go func() {
			_, err := a.Read(make([]byte, 1))
			failed <- err
		}()
		a.Close()
		if err := <-failed; !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	})
	t.Run("reset", func(t *testing.T) {
		a, b := pair(t)
		b.SetLinger(0)
		b.Close()
		if _, err := a.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
			t.Error(err)
		}
	})
}

// A peer that does not read takes bytes until its buffers are full. Then Write waits, and TryWrite does not.
func TestWrites(t *testing.T) {
	a, b := pair(t)
	all := make([]byte, 16<<20)
	for i := range all {
		all[i] = byte(i * i >> 8)
	}
	begun := a.TryWrite(all)
	if begun == 0 || begun == len(all) {
		t.Fatalf("%d bytes were taken at once", begun)
	}
	for more := a.TryWrite(all[begun:]); more > 0; more = a.TryWrite(all[begun:]) {
		begun += more
	}
	done := make(chan string, 1)
	go func() {
		n, err := a.Write(all[begun:])
		if begun+n != len(all) {
			t.Errorf("%d bytes were written of %d", begun+n, len(all))
		}
		a.Close()
		done <- errText(err)
	}()
	got, err := io.ReadAll(b)
	if err != nil || !bytes.Equal(got, all) {
		t.Errorf("what came is not what was written: %d bytes, %v", len(got), err)
	}
	if err := <-done; err != "" {
		t.Error(err)
	}
	if n := a.TryWrite(all); n != 0 {
		t.Errorf("a closed connection took %d bytes", n)
	}
	if n, err := a.Write(all[:1]); n != 0 || !errors.Is(err, net.ErrClosed) {
		t.Errorf("a write to a closed connection: %d, %v", n, err)
	}
}

// Every other kind of connection works as before.
func TestOthers(t *testing.T) {
	x, y := net.Pipe()
	defer y.Close()
	a := New(x)
	if n := a.TryWrite([]byte("now")); n != 0 {
		t.Errorf("%d bytes were taken at once", n)
	}
	go func() {
		a.Write([]byte("later"))
		a.Close()
	}()
	if got, err := io.ReadAll(y); string(got) != "later" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

// Reads and writes allocate nothing.
func TestAllocates(t *testing.T) {
	a, b := pair(t)
	c := New(b)
	buf := make([]byte, 16)
	if n := testing.AllocsPerRun(100, func() {
		c.Write(buf[:8])
		a.Read(buf)
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
