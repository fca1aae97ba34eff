package identity

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"github.com/phoebe-sched/phoebe/probe/poll"
	"github.com/phoebe-sched/phoebe/probe/sock"
)

// Files of a folder with keys, named as in a Kubernetes secret of type kubernetes.io/tls.
const (
	CAFile   = "ca.crt"  // certificates of the signing CAs; several during a replacement
	CertFile = "tls.crt" // the own certificate, and the certificates between it and the CA
	KeyFile  = "tls.key" // of the own certificate
)

var fileNames = [...]string{CAFile, CertFile, KeyFile}

// Keys are the certificates of a process. A process with Keys speaks TLS 1.3, with peers that have a fitting role
// and a certificate signed by its CA. A nil Keys speaks with everyone, without TLS.
type Keys struct {
	// Refused is called with the address of each peer that was refused as a client, and the reason. Set Refused
	// before the first connection. Nil: no call.
	Refused func(from string, why error)

	dir            string
	handshakeSlots chan struct{} // handshakes under way, with peers that we connect to

	mu      sync.Mutex
	current *bundle
	conns   map[*sock.Conn]*peer
}

// handshakesPerCPU bounds the handshakes that a CPU begins at a time. All handshakes of a fleet at once would take
// longer than peers wait, and would have to start again.
const handshakesPerCPU = 8

// handshakeTimeout bounds an outgoing handshake.
const handshakeTimeout = 5 * time.Second

// bundle is the content of the folder at one time.
type bundle struct {
	files   [len(fileNames)][]byte
	ownCert tls.Certificate
	roots   *x509.CertPool

	signers []*x509.Certificate // in roots
	until   time.Time           // end of the own certificate
}

// peer is the other end of a connection.
type peer struct {
	needs       Role
	usage       x509.ExtKeyUsage
	conn        net.Conn // to the peer
	shownBundle *bundle  // our bundle as shown to the peer

	// Set by the handshake.
	id    Identity
	chain []*x509.Certificate
	until time.Time // the earliest end of its certificates
}

// Open reads the keys in dir.
func Open(dir string) (*Keys, error) {
	k := &Keys{dir: dir, conns: map[*sock.Conn]*peer{},
		handshakeSlots: make(chan struct{}, handshakesPerCPU*runtime.GOMAXPROCS(0))}
	var err error
	if k.current, err = readBundle(dir); err != nil {
		return nil, err
	}
	return k, nil
}

func readBundle(dir string) (*bundle, error) {
	b := &bundle{roots: x509.NewCertPool()}
	for i, name := range fileNames {
		var err error
		if b.files[i], err = os.ReadFile(filepath.Join(dir, name)); err != nil {
			return nil, fmt.Errorf("%w: a folder with keys has %s, %s and %s; phoebe tls makes some to try", err,
				CAFile, CertFile, KeyFile)
		}
	}
	var err error
	if b.ownCert, err = tls.X509KeyPair(b.files[1], b.files[2]); err != nil {
		return nil, fmt.Errorf("%s and %s in %s: %w", CertFile, KeyFile, dir, err)
	}
	if _, err := identityOf(b.ownCert.Leaf); err != nil {
		return nil, fmt.Errorf("%s in %s: %w", CertFile, dir, err)
	}
	b.until = b.ownCert.Leaf.NotAfter
	for rest := b.files[0]; ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		ca, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("%s in %s: %w", CAFile, dir, err)
		}
		b.roots.AddCert(ca)
		b.signers = append(b.signers, ca)
	}
	if len(b.signers) == 0 {
		return nil, fmt.Errorf("%s in %s holds no certificate", CAFile, dir)
	}
	return b, nil
}

func (k *Keys) currentBundle() *bundle {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.current
}

// Identity returns the identity of the own certificate.
func (k *Keys) Identity() Identity {
	id, _ := identityOf(k.currentBundle().ownCert.Leaf)
	return id
}

// Check returns an error if the own certificate has none of the roles.
func (k *Keys) Check(needs Role) error {
	if k == nil {
		return nil
	}
	if id := k.Identity(); id.Roles&needs == 0 {
		return fmt.Errorf("the certificate in %s is for %v, and a certificate for %v is needed here", k.dir, id, needs)
	}
	return nil
}

// Until returns the end of the certificate; zero without Keys.
func (k *Keys) Until() time.Time {
	if k == nil {
		return time.Time{}
	}
	return k.currentBundle().until
}

// verifyPeer checks the certificates shown by a peer, and notes the peer's identity.
func (b *bundle) verifyPeer(p *peer, chain []*x509.Certificate) error {
	if len(chain) == 0 {
		return errors.New("the peer shows no certificate")
	}
	intermediates := x509.NewCertPool()
	for _, c := range chain[1:] {
		intermediates.AddCert(c)
	}
	found, err := chain[0].Verify(x509.VerifyOptions{Roots: b.roots, Intermediates: intermediates,
		KeyUsages: []x509.ExtKeyUsage{p.usage}})
	if err != nil {
		return err
	}
	id, err := identityOf(chain[0])
	if err != nil {
		return err
	}
	if id.Roles&p.needs == 0 {
		return fmt.Errorf("its certificate is for %v, and a certificate for %v is needed here", id, p.needs)
	}
	until := chain[0].NotAfter
	for _, c := range found[0] {
		if c.NotAfter.Before(until) {
			until = c.NotAfter
		}
	}
	p.id, p.chain, p.until = id, chain, until
	return nil
}

// tlsConfig makes the TLS configuration of a single connection. A role says whom a certificate is for. The host's
// name or address does not count: a balancer has a different name, and so have processes that move.
func (k *Keys) tlsConfig(p *peer) *tls.Config {
	p.shownBundle = k.currentBundle()
	return &tls.Config{
		MinVersion:                  tls.VersionTLS13,
		Certificates:                []tls.Certificate{p.shownBundle.ownCert},
		ClientAuth:                  tls.RequireAnyClientCert, // VerifyConnection verifies the certificate
		InsecureSkipVerify:          true,                     // likewise
		VerifyConnection:            func(s tls.ConnectionState) error { return k.admitPeer(p, s.PeerCertificates) },
		SessionTicketsDisabled:      true, // each connection shows its certificates
		DynamicRecordSizingDisabled: true,
	}
}

// admitPeer verifies a peer by the present keys, even if they are newer than the connection.
func (k *Keys) admitPeer(p *peer, chain []*x509.Certificate) error {
	for {
		b, shown := k.currentBundle(), *p
		if err := b.verifyPeer(&shown, chain); err != nil {
			if k.Refused != nil && p.usage == x509.ExtKeyUsageClientAuth {
				k.Refused(p.conn.RemoteAddr().String(), err) // RemoteAddr may know by now for whom a balancer connects
			}
			return err
		}
		k.mu.Lock()
		unchanged := k.current == b
		if unchanged {
			*p = shown
		}
		k.mu.Unlock()
		if unchanged {
			return nil
		}
	}
}

// sealConn makes c speak TLS, and tracks the connection until its end.
func (k *Keys) sealConn(c net.Conn, p *peer, end func(net.Conn, *tls.Config) *tls.Conn) *sock.Conn {
	p.conn = c
	var s *sock.Conn
	s = sock.Seal(c, func(c net.Conn) *tls.Conn { return end(c, k.tlsConfig(p)) }, func() {
		k.mu.Lock()
		delete(k.conns, s)
		k.mu.Unlock()
	})
	k.mu.Lock()
	k.conns[s] = p
	k.mu.Unlock()
	return s
}

// Server makes an accepted connection speak TLS with a peer that has one of the roles. The handshake comes with the
// first read. k is not nil.
func (k *Keys) Server(c net.Conn, needs Role) *sock.Conn {
	return k.sealConn(c, &peer{needs: needs, usage: x509.ExtKeyUsageClientAuth}, tls.Server)
}

// Connect dials a peer with one of the roles. With a nil k the connection is plain.
func (k *Keys) Connect(ctx context.Context, dial func(ctx context.Context, network, addr string) (net.Conn, error),
	addr string, needs Role) (net.Conn, error) {
	c, err := dial(ctx, "tcp", addr)
	if err != nil || k == nil {
		return c, err
	}
	select {
	case k.handshakeSlots <- struct{}{}:
	default:
		// The peer waits only for a time, so close the connection and dial again at our turn.
		c.Close()
		select {
		case k.handshakeSlots <- struct{}{}:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		if c, err = dial(ctx, "tcp", addr); err != nil {
			<-k.handshakeSlots
			return nil, err
		}
	}
	defer func() { <-k.handshakeSlots }()
	ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	s := k.sealConn(c, &peer{needs: needs, usage: x509.ExtKeyUsageServerAuth}, tls.Client)
	if err := s.Handshake(ctx); err != nil {
		s.Close()
		return nil, fmt.Errorf("TLS with %s: %w", addr, err)
	}
	return s, nil
}

// Listen makes connections to l speak TLS, with peers that have one of the roles.
func (k *Keys) Listen(l net.Listener, needs Role) net.Listener {
	if k == nil {
		return l
	}
	return &listener{l, k, needs}
}

type listener struct {
	net.Listener
	keys  *Keys
	needs Role
}

func (l *listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return l.keys.Server(c, l.needs), nil
}

// Peer returns the identity of a connection's peer, after the handshake.
func (k *Keys) Peer(c net.Conn) (id Identity) {
	s, ok := c.(*sock.Conn)
	if k == nil || !ok {
		return id
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if p := k.conns[s]; p != nil {
		id = p.id
	}
	return id
}

// Current reports whether a connection was made with the present keys. A connection with older keys should end
// soon: it is closed when a certificate on it is no longer valid.
func (k *Keys) Current(c net.Conn) bool {
	s, ok := c.(*sock.Conn)
	if k == nil || !ok {
		return true
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	p := k.conns[s]
	return p != nil && p.shownBundle == k.current
}

// Watch follows changes in the folder until ctx ends. When keys change, Watch closes the connections of peers whose
// certificates are no longer valid, and calls report with nil. If the files cannot be used, Watch calls report with
// the error, and keeps the keys.
func (k *Keys) Watch(ctx context.Context, report func(error)) {
	if k != nil {
		poll.Changes(ctx, report, func() (bool, error) { return k.reloadKeys(time.Now()) })
	}
}

// reloadKeys reads the folder once, and closes connections with certificates that have ended.
func (k *Keys) reloadKeys(now time.Time) (changed bool, err error) {
	b, err := readBundle(k.dir)
	k.mu.Lock()
	if err == nil {
		for i := range b.files {
			changed = changed || !bytes.Equal(b.files[i], k.current.files[i])
		}
	}
	if changed {
		k.current = b
	}
	var ended []*sock.Conn
	for c, p := range k.conns {
		if p.chain != nil && (now.After(p.until) || changed && k.current.verifyPeer(p, p.chain) != nil) {
			ended = append(ended, c)
		}
	}
	k.mu.Unlock()
	for _, c := range ended {
		c.Close()
	}
	return changed, err
}
