package main

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"
)

// tlsHint returns advice for a command without keys whose frontends expect TLS, or "". A server that expects TLS ends a
// plain connection without an answer. So tlsHint tries a TLS handshake with each address of --connect.
func tlsHint(command *kong.Node) string {
	hasKeys := slices.ContainsFunc(command.Flags, func(f *kong.Flag) bool {
		return f.Name == "tls-dir" && !f.Target.IsZero()
	})
	at := slices.IndexFunc(command.Flags, func(f *kong.Flag) bool { return f.Name == "connect" })
	if hasKeys || at < 0 {
		return ""
	}
	addrs, _ := command.Flags[at].Target.Interface().([]string)
	for _, addr := range addrs {
		if !strings.HasPrefix(addr, "dns:") && !strings.HasPrefix(addr, "srv:") && speaksTLS(addr) {
			return addr + " speaks TLS: give --tls-dir with this client's keys."
		}
	}
	return ""
}

// speaksTLS reports whether a server answers a TLS handshake within a second. The server's certificate does not
// matter, because nothing is sent.
func speaksTLS(addr string) bool {
	d := tls.Dialer{NetDialer: &net.Dialer{Timeout: time.Second}, Config: &tls.Config{
		InsecureSkipVerify: true, //nolint:gosec // the connection carries no data
		MinVersion:         tls.VersionTLS13,
	}}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err == nil {
		conn.Close()
		return true
	}
	return errors.As(err, new(tls.AlertError)) // the server refuses a client without keys
}
