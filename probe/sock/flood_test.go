package sock_test

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"crypto/tls"
	"encoding/binary"
	"encoding/hex"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/phoebe-sched/phoebe/probe/identity"
)

// recordWriter writes records of TLS 1.3 as a client that has finished its handshake with TLS_AES_128_GCM_SHA256.
type recordWriter struct {
	secret []byte
	aead   cipher.AEAD
	iv     []byte
	seq    uint64
}

// expand is HKDF-Expand-Label of RFC 8446, section 7.1, without a context.
func expand(t *testing.T, secret []byte, label string, n int) []byte {
	t.Helper()
	info := binary.BigEndian.AppendUint16(nil, uint16(n))
	info = append(append(info, byte(len("tls13 "+label))), "tls13 "+label...)
	key, err := hkdf.Expand(sha256.New, secret, string(append(info, 0)), n)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func (w *recordWriter) useSecret(t *testing.T, secret []byte) {
	t.Helper()
	block, err := aes.NewCipher(expand(t, secret, "key", 16))
	if err != nil {
		t.Fatal(err)
	}
	if w.aead, err = cipher.NewGCM(block); err != nil {
		t.Fatal(err)
	}
	w.secret, w.iv, w.seq = secret, expand(t, secret, "iv", 12), 0
}

func (w *recordWriter) appendRecord(b []byte, kind byte, content ...byte) []byte {
	inner := append(content, kind)
	head := binary.BigEndian.AppendUint16([]byte{23, 3, 3}, uint16(len(inner)+w.aead.Overhead()))
	nonce := bytes.Clone(w.iv)
	for i := range 8 {
		nonce[4+i] ^= byte(w.seq >> (56 - 8*i))
	}
	w.seq++
	return w.aead.Seal(append(b, head...), nonce, inner, head)
}

// pipeListener accepts an end of a pipe. A pipe has no buffers in the kernel: a write waits for the reader.
type pipeListener struct {
	net.Listener
	end net.Conn
}

func (l pipeListener) Accept() (net.Conn, error) { return l.end, nil }

// A peer that asks for update after update of the keys, and reads no answer, loses the connection: the answers would
// take memory without end.
func TestKeyUpdatesWithoutEnd(t *testing.T) {
	keys, dir := newKeys(t)
	own, err := tls.LoadX509KeyPair(dir+"/"+identity.CertFile, dir+"/"+identity.KeyFile)
	if err != nil {
		t.Fatal(err)
	}
	raw, end := net.Pipe()
	defer raw.Close()
	l := keys.Listen(pipeListener{end: end}, identity.Worker)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		io.Copy(io.Discard, c)
	}()
	var secrets strings.Builder
	client := tls.Client(raw, &tls.Config{Certificates: []tls.Certificate{own}, InsecureSkipVerify: true,
		KeyLogWriter: &secrets})
	if err := client.HandshakeContext(context.Background()); err != nil {
		t.Fatal(err)
	}
	if suite := client.ConnectionState().CipherSuite; suite != tls.TLS_AES_128_GCM_SHA256 {
		t.Skipf("the test knows only AES-128, and this machine prefers %s", tls.CipherSuiteName(suite))
	}
	var w recordWriter
	for line := range strings.Lines(secrets.String()) {
		if fields := strings.Fields(line); fields[0] == "CLIENT_TRAFFIC_SECRET_0" {
			secret, err := hex.DecodeString(fields[2])
			if err != nil {
				t.Fatal(err)
			}
			w.useSecret(t, secret)
		}
	}
	const updates = 1 << 14 // 0.4 MB of answers, three times as many as may wait
	for sent := 0; sent < updates; {
		var b []byte
		for range 1024 {
			for range 15 { // crypto/tls takes 16 in a row
				b = w.appendRecord(b, 22, 24, 0, 0, 1, 1)
				w.useSecret(t, expand(t, w.secret, "traffic upd", 32))
				sent++
			}
			b = w.appendRecord(b, 23, 'x')
		}
		if _, err := raw.Write(b); err != nil {
			<-ended
			return
		}
	}
	t.Errorf("%d updates were answered", updates)
}
