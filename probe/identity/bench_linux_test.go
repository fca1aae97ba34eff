package identity

import (
	"net"
	"syscall"
	"testing"
	"time"
)

// BenchmarkConnect measures the cost of a connection, for both ends together.
func BenchmarkConnect(b *testing.B) {
	ca, err := NewAuthority("test", time.Hour)
	if err != nil {
		b.Fatal(err)
	}
	dir := b.TempDir()
	if err := ca.Issue(dir, Identity{Roles: Worker}, time.Hour, ca); err != nil {
		b.Fatal(err)
	}
	k, err := Open(dir)
	if err != nil {
		b.Fatal(err)
	}
	plain, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	l := k.Listen(plain, Worker)
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				c.Read(make([]byte, 1))
				c.Close()
			}()
		}
	}()
	var before, after syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &before)
	for b.Loop() {
		c, err := k.Connect(b.Context(), new(net.Dialer).DialContext, plain.Addr().String(), Worker)
		if err != nil {
			b.Fatal(err)
		}
		c.Close()
	}
	syscall.Getrusage(syscall.RUSAGE_SELF, &after)
	cpu := after.Utime.Nano() + after.Stime.Nano() - before.Utime.Nano() - before.Stime.Nano()
	b.ReportMetric(float64(cpu)/float64(b.N)/1000, "us-CPU/op")
}
