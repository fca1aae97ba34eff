package identity

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"time"
)

// Flaw is something wrong with keys, and what to do.
type Flaw struct {
	Soon            bool // it is not wrong yet
	Problem, Remedy string
}

// Examine says what is wrong with the keys in a folder, for somebody who needs one of the roles.
func Examine(dir string, needs Role, now time.Time) []Flaw {
	b, err := readBundle(dir)
	if err != nil {
		return []Flaw{{Problem: err.Error(), Remedy: "Put in place the certificate, the key that it was made for, and the certificate of its CA."}}
	}
	var flaws []Flaw
	for _, ca := range b.signers {
		flaws = append(flaws, lifetimeFlaws(ca, "the CA's certificate in "+CAFile, now)...)
	}
	chain := make([]*x509.Certificate, len(b.ownCert.Certificate))
	for i, der := range b.ownCert.Certificate {
		if chain[i], err = x509.ParseCertificate(der); err != nil {
			return append(flaws, Flaw{Problem: fmt.Sprintf("%s: %v", CertFile, err), Remedy: "Put a certificate in place."})
		}
	}
	return append(flaws, b.examineChain(chain, CertFile, needs, now)...)
}

// Examine says what is wrong with the certificate that is shown at addr, for somebody with these keys who needs one of the roles there.
func (k *Keys) Examine(ctx context.Context, addr string, needs Role, now time.Time) ([]Flaw, error) {
	b := k.currentBundle()
	dialer := tls.Dialer{NetDialer: &net.Dialer{}, Config: &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{b.ownCert}, InsecureSkipVerify: true}}
	c, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return b.examineChain(c.(*tls.Conn).ConnectionState().PeerCertificates, "its certificate", needs, now), nil
}

// examineChain looks at a certificate, and those between it and its CA.
func (b *bundle) examineChain(chain []*x509.Certificate, name string, needs Role, now time.Time) (flaws []Flaw) {
	leaf, intermediates := chain[0], x509.NewCertPool()
	flaws = lifetimeFlaws(leaf, name, now)
	for _, c := range chain[1:] {
		intermediates.AddCert(c)
		flaws = append(flaws, lifetimeFlaws(c, "a certificate between it and its CA", now)...)
	}
	if id, err := identityOf(leaf); err != nil {
		flaws = append(flaws, Flaw{Problem: name + ": " + err.Error(), Remedy: "Have one made with the role among its alternative names, as a URI."})
	} else if id.Roles&needs == 0 {
		flaws = append(flaws, Flaw{Problem: fmt.Sprintf("%s is of %v, and here one of %v is needed", name, id, needs), Remedy: "Put one of that role in place: it is a URI among the alternative names."})
	}
	// At a time when it counts: that it has ended is said already.
	if _, err := leaf.Verify(x509.VerifyOptions{Roots: b.roots, Intermediates: intermediates, CurrentTime: leaf.NotBefore.Add(time.Second), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}}); err != nil {
		flaws = append(flaws, Flaw{Problem: fmt.Sprintf("%s is not signed by a CA in %s: %v", name, CAFile, err), Remedy: "Append the certificate of the CA that signed it to " + CAFile + ", or have that one sign it that is there."})
	}
	return flaws
}

// lifetimeFlaws tells whether a certificate has ended, has not begun, or had better be replaced soon.
func lifetimeFlaws(c *x509.Certificate, name string, now time.Time) []Flaw {
	remaining, lifetime := c.NotAfter.Sub(now), c.NotAfter.Sub(c.NotBefore)
	switch {
	case remaining <= 0:
		return []Flaw{{Problem: fmt.Sprintf("%s ended at %v, %v ago", name, c.NotAfter.UTC(), -remaining.Round(time.Second)), Remedy: "Replace it: it is read again within a second."}}
	case now.Before(c.NotBefore):
		return []Flaw{{Problem: fmt.Sprintf("%s counts only from %v on, and it is %v here", name, c.NotBefore.UTC(), now.UTC().Round(time.Second)), Remedy: "Set the clock of this machine (timedatectl tells), or that of the CA."}}
	case remaining < lifetime/5:
		return []Flaw{{Soon: true, Problem: fmt.Sprintf("%s ends in %v", name, remaining.Round(time.Second)), Remedy: "Replace it soon: it is read again within a second, and nothing is restarted."}}
	}
	return nil
}
