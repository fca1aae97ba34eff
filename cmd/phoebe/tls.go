package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/phoebe-sched/phoebe/probe/identity"
)

type tlsCmd struct {
	Dir  string        `arg:"" help:"Folder to make, with one folder for each of --for. It must be missing or empty."`
	For  []string      `default:"frontend,worker,operator,client/default" placeholder:"ROLE" help:"Who gets a certificate: frontend, worker, operator, client/TENANT, or several roles for a single certificate, joined by a plus. Default ${default}."`
	Last time.Duration `default:"720h" placeholder:"D" help:"How long the certificates last. Default ${default}."`
}

// Help returns the text below the usage line.
func (c *tlsCmd) Help() string {
	return `Makes an authority and certificates, for rehearsals and tests. Each folder holds what
--tls-dir needs: ca.crt, tls.crt and tls.key. The authority's own key is thrown away, so nobody can
make further certificates.

  phoebe tls keys
  phoebe frontend --tls-dir keys/frontend ...
  phoebe run --tls-dir keys/client-default ...

In production, let your own authority (such as cert-manager) make certificates, with the role as an
alternative name, a URI: phoebe:frontend, phoebe:worker, phoebe:operator or phoebe:client/TENANT.`
}

// Run makes certificates.
func (c *tlsCmd) Run(out *streams) error {
	if c.Last < time.Minute {
		return usageError(fmt.Errorf("--last is %v: it must be 1m or more", c.Last))
	}
	if there, err := os.ReadDir(c.Dir); err == nil && len(there) > 0 {
		return usageError(fmt.Errorf("%s is not empty: name another folder", c.Dir))
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return usageError(err)
	}
	dirs, err := makeKeys(c.Dir, c.Last, c.For...)
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		fmt.Fprintln(out.out, dir)
	}
	return nil
}

// makeKeys makes a folder with keys in dir for each identity, such as client/acme. The authority's key is thrown
// away.
func makeKeys(dir string, last time.Duration, identities ...string) (dirs []string, err error) {
	ids := make([]identity.Identity, len(identities))
	for i, name := range identities {
		if ids[i], err = identity.Parse(name); err != nil {
			return nil, usageError(err)
		}
	}
	ca, err := identity.NewAuthority("phoebe rehearsal", last)
	if err != nil {
		return nil, err
	}
	for i, id := range ids {
		keys := filepath.Join(dir, strings.NewReplacer("/", "-", "..", "-").Replace(identities[i]))
		if err := ca.Issue(keys, id, last, ca); err != nil {
			return nil, err
		}
		dirs = append(dirs, keys)
	}
	return dirs, nil
}
