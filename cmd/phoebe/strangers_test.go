package main_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"
)

// Requests whose bodies never come end in time, and keep no monitor out.
func TestSlowRequestsToAdmin(t *testing.T) {
	t.Parallel()
	at := adminAddr(t, startPhoebe(t, "--log-level", "info", "worker", "--listen", "127.0.0.1:0",
		"--admin", "127.0.0.1:0"))
	var slow []net.Conn
	for i := range 300 {
		c, err := net.Dial("tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		slow = append(slow, c)
		if i%3 > 0 { // the third of them is silent
			fmt.Fprintf(c, "POST /maintenance HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\ni")
		}
	}
	monitor := &http.Client{Transport: &http.Transport{}}
	defer monitor.CloseIdleConnections()
	res, err := monitor.Get("http://" + at + "/livez")
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	end := time.Now().Add(time.Minute)
	for i, c := range slow {
		c.SetReadDeadline(end)
		if _, err := io.Copy(io.Discard, c); os.IsTimeout(err) {
			t.Fatalf("slow request %d is still open after a minute", i)
		}
	}
}

// A connection to the admin port ends at its third wrong token.
func TestGuessesOfAdminToken(t *testing.T) {
	t.Parallel()
	file := t.TempDir() + "/token"
	if err := os.WriteFile(file, []byte("sesame"), 0o600); err != nil {
		t.Fatal(err)
	}
	at := adminAddr(t, startPhoebe(t, "--log-level", "info", "worker", "--listen", "127.0.0.1:0",
		"--admin", "127.0.0.1:0", "--admin-token-file", file))
	c, err := net.Dial("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(time.Minute))
	for range 5 {
		fmt.Fprintf(c, "GET /debug/pprof/cmdline HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer simsim\r\n\r\n")
	}
	text, err := io.ReadAll(c)
	if n := strings.Count(string(text), "401 Unauthorized"); n != 3 || os.IsTimeout(err) {
		t.Errorf("%d guesses on a connection, %v", n, err)
	}
}
