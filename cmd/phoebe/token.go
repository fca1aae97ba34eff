package main

import (
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/phoebe-sched/phoebe/probe/identity"
)

type tokenCmd struct {
	File string `arg:"" help:"Where the token is, or is put if there is none."`
}

// Help says what is made.
func (c *tokenCmd) Help() string {
	return `Writes a new token into the file, which its owner alone can read, unless there is one already, and prints its hash. That is
what belongs into the tenants file (phoebe frontend --tenants), which says whose it is:

  tenants: {web: {token-hashes: [HASH]}}

The token itself goes to the tenant's clients: phoebe run --token-file FILE, client.WithTokenFile, or as the secret of the
caller in any other language.`
}

// Run makes a token.
func (c *tokenCmd) Run(out *streams) error {
	f, err := os.OpenFile(c.File, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = fmt.Fprintln(f, rand.Text())
		err = errors.Join(err, f.Close())
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	tokens, err := identity.OpenSecrets(c.File)
	if err != nil {
		return usage(err)
	}
	for _, token := range tokens.All() {
		fmt.Fprintf(out.out, "%x\n", sha256.Sum256([]byte(token)))
	}
	return nil
}
