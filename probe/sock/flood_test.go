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
	"time"

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

// smallBuffers gives connections buffers of a few KB in the kernel.
type smallBuffers struct{ net.Listener }

func (l smallBuffers) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err == nil {
		err = c.(*net.TCPConn).SetWriteBuffer(4 << 10)
	}
	return c, err
}

// A peer that asks for update after update of the keys, and reads no answer, loses the connection: the answers would
// take memory without end.
func TestKeyUpdatesWithoutEnd(t *testing.T) {
	keys, dir := newKeys(t)
	own, err := tls.LoadX509KeyPair(dir+"/"+identity.CertFile, dir+"/"+identity.KeyFile)
	if err != nil {
		t.Fatal(err)
	}
	plain, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := keys.Listen(smallBuffers{plain}, identity.Worker)
	defer l.Close()
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
	raw, err := net.Dial("tcp", plain.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	raw.(*net.TCPConn).SetReadBuffer(4 << 10)
	raw.SetDeadline(time.Now().Add(time.Minute))
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
	const updates = 1 << 16 // 1.7 MB of answers
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
