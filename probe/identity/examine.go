package identity

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"time"
)

// Flaw is a problem with keys, and its remedy.
type Flaw struct {
	Soon            bool // the problem is still to come
	Problem, Remedy string
}

// Examine returns the flaws of the keys in a folder, for a process that needs one of the roles.
func Examine(dir string, needs Role, now time.Time) []Flaw {
	b, err := readBundle(dir)
	if err != nil {
		return []Flaw{{Problem: err.Error(),
			Remedy: "Put in place the certificate, the key that it was made for, and the certificate of its CA."}}
	}
	var flaws []Flaw
	for _, ca := range b.signers {
		flaws = append(flaws, lifetimeFlaws(ca, "the CA's certificate in "+CAFile, now)...)
	}
	chain := make([]*x509.Certificate, len(b.ownCert.Certificate))
	for i, der := range b.ownCert.Certificate {
		if chain[i], err = x509.ParseCertificate(der); err != nil {
			return append(flaws, Flaw{Problem: fmt.Sprintf("%s: %v", CertFile, err),
				Remedy: "Put a certificate in place."})
		}
	}
	return append(flaws, b.examineChain(chain, CertFile, needs, now)...)
}

// Examine returns the flaws of the certificate shown at addr, as seen with these keys. The peer needs one of the
// roles.
func (k *Keys) Examine(ctx context.Context, addr string, needs Role, now time.Time) ([]Flaw, error) {
	b := k.currentBundle()
	dialer := tls.Dialer{NetDialer: &net.Dialer{}, Config: &tls.Config{MinVersion: tls.VersionTLS13,
		Certificates: []tls.Certificate{b.ownCert}, InsecureSkipVerify: true}}
	c, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return b.examineChain(c.(*tls.Conn).ConnectionState().PeerCertificates, "its certificate", needs, now), nil
}

// examineChain returns the flaws of a certificate, and of the certificates between it and its CA. name is the name
// of the certificate for people.
func (b *bundle) examineChain(chain []*x509.Certificate, name string, needs Role, now time.Time) (flaws []Flaw) {
	leaf, intermediates := chain[0], x509.NewCertPool()
	flaws = lifetimeFlaws(leaf, name, now)
	for _, c := range chain[1:] {
		intermediates.AddCert(c)
		flaws = append(flaws, lifetimeFlaws(c, "a certificate between it and its CA", now)...)
	}
	if id, err := identityOf(leaf); err != nil {
		flaws = append(flaws, Flaw{Problem: name + ": " + err.Error(),
			Remedy: "Have a certificate made with the role among its alternative names, as a URI."})
	} else if id.Roles&needs == 0 {
		flaws = append(flaws,
			Flaw{Problem: fmt.Sprintf("%s is for %v, and a certificate for %v is needed here", name, id, needs),
				Remedy: "Put a certificate with that role in place: a role is a URI among the alternative names."})
	}
	// Verify at a time when the certificate is valid: an ended certificate has its flaw already.
	if _, err := leaf.Verify(x509.VerifyOptions{Roots: b.roots, Intermediates: intermediates,
		CurrentTime: leaf.NotBefore.Add(time.Second),
		KeyUsages:   []x509.ExtKeyUsage{x509.ExtKeyUsageAny}}); err != nil {
		flaws = append(flaws, Flaw{Problem: fmt.Sprintf("%s is not signed by a CA in %s: %v", name, CAFile, err),
			Remedy: "Append the certificate of the CA that signed it to " + CAFile +
				", or have it signed by a CA in that file."})
	}
	return flaws
}

// lifetimeFlaws returns a flaw if a certificate has ended, has not begun, or should be replaced soon.
func lifetimeFlaws(c *x509.Certificate, name string, now time.Time) []Flaw {
	remaining, lifetime := c.NotAfter.Sub(now), c.NotAfter.Sub(c.NotBefore)
	switch {
	case remaining <= 0:
		return []Flaw{{Problem: fmt.Sprintf("%s ended at %v, %v ago", name, c.NotAfter.UTC(),
			-remaining.Round(time.Second)), Remedy: "Replace the file: phoebe reads it again within a second."}}
	case now.Before(c.NotBefore):
		return []Flaw{{Problem: fmt.Sprintf("%s is valid only from %v on, and it is %v here", name,
			c.NotBefore.UTC(), now.UTC().Round(time.Second)),
			Remedy: "Set the clock of this machine (timedatectl tells), or that of the CA."}}
	case remaining < lifetime/5:
		return []Flaw{{Soon: true, Problem: fmt.Sprintf("%s ends in %v", name, remaining.Round(time.Second)),
			Remedy: "Replace the file soon: phoebe reads it again within a second, without a restart."}}
	}
	return nil
}
