package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"strings"
	"syscall"
	"testing"

	"github.com/phoebe-sched/phoebe/frontend/client"
	"github.com/phoebe-sched/phoebe/frontend/client/local"
)

// A program finds out at its start that an address is wrong.
func ExampleClient_Ping() {
	c, err := client.New([]string{"127.0.0.1:1"}) // nobody listens there
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	if err := c.Ping(context.Background()); err != nil {
		namesAddr := strings.Contains(err.Error(), "127.0.0.1:1")
		fmt.Println("refused:", errors.Is(err, syscall.ECONNREFUSED), "at", namesAddr)
	}
	// Output: refused: true at true
}

// listenAs answers each connection with a text, and closes the connection.
func listenAs(t *testing.T, text string) (addr string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			io.WriteString(conn, text)
			conn.Close()
		}
	}()
	return l.Addr().String()
}

func TestPing(t *testing.T) {
	cluster := startCluster(t, local.Config{Secret: "s3cret"})
	good, foreign := cluster.Frontends()[0], listenAs(t, "HTTP/1.1 400 Bad Request\r\n\r\n")
	secret := client.WithSecret("s3cret")
	for _, addrs := range [][]string{{good}, {foreign, good}} {
		c := connectClient(t, addrs, secret)
		for range 2 { // each address once the first
			if err := c.Ping(t.Context()); err != nil {
				t.Errorf("%v: %v", addrs, err)
			}
		}
	}
	err := connectClient(t, []string{foreign, "127.0.0.1:1"}, secret).Ping(t.Context())
	if err == nil || !strings.Contains(err.Error(), foreign) || !strings.Contains(err.Error(), "127.0.0.1:1: ") {
		t.Error(err)
	}
	err = connectClient(t, []string{good}, client.WithSecret("wrong")).Ping(t.Context())
	if refused, ok := errors.AsType[*client.RefusedError](err); !ok || refused.Reason != client.Unauthorized {
		t.Error(err)
	}
	c := connectClient(t, []string{good}, secret)
	c.Close()
	if err := c.Ping(t.Context()); !errors.Is(err, client.ErrClosed) {
		t.Error(err)
	}
}
