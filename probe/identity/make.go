package identity

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"time"

	"github.com/phoebe-sched/phoebe/probe/whole"
)

// Authority signs certificates for trials. A fleet in production has a better authority.
type Authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

// NewAuthority makes an authority with a certificate of the given lifetime.
func NewAuthority(name string, lifetime time.Duration) (*Authority, error) {
	a := &Authority{}
	now := time.Now()
	a.cert = &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, NotBefore: now.Add(-time.Minute), NotAfter: now.Add(lifetime),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	var err error
	a.cert, a.key, err = signCert(a.cert, nil)
	if err != nil {
		return nil, err
	}
	a.pem = certPEM(a.cert)
	return a, nil
}

// signCert makes a key and a certificate for the key. With a nil authority the certificate signs itself.
func signCert(template *x509.Certificate, authority *Authority) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	if template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120)); err != nil {
		return nil, nil, err
	}
	signer, signerKey := template, key
	if authority != nil {
		signer, signerKey = authority.cert, authority.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, signer, &key.PublicKey, signerKey)
	if err != nil {
		return nil, nil, err
	}
	cert, err := x509.ParseCertificate(der)
	return cert, key, err
}

func certPEM(c *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})
}

// Issue makes a folder dir with keys for id. trusts are the authorities whose certificates the owner of the keys
// accepts.
func (a *Authority) Issue(dir string, id Identity, lifetime time.Duration, trusts ...*Authority) error {
	now := time.Now()
	cert, key, err := signCert(&x509.Certificate{
		Subject: pkix.Name{CommonName: id.String()}, NotBefore: now.Add(-time.Minute),
		NotAfter: now.Add(lifetime), URIs: id.roleURIs(),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth,
			x509.ExtKeyUsageClientAuth},
	}, a)
	if err != nil {
		return err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	var roots []byte
	for _, t := range trusts {
		roots = append(roots, t.pem...)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for name, content := range map[string][]byte{
		CAFile: roots, CertFile: certPEM(cert),
		KeyFile: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}),
	} {
		if err := whole.WriteBytes(filepath.Join(dir, name), 0o600, content); err != nil {
			return err
		}
	}
	return nil
}
