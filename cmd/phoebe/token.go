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
	File string `arg:"" help:"File with the token. A new token is written if the file is missing."`
}

// Help returns the text below the usage line.
func (c *tokenCmd) Help() string {
	return `Writes a new token into the file, readable by its owner alone, and prints the token's
hash. If the file exists, its tokens stay. Put the hash into the tenants file (phoebe frontend
--tenants), at the tenant:

  tenants: {web: {token-hashes: [HASH]}}

Give the token itself to the tenant's clients: phoebe run --token-file FILE, client.WithTokenFile,
or in other languages the field secret of Caller.`
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
		return usageError(err)
	}
	for _, token := range tokens.All() {
		fmt.Fprintf(out.out, "%x\n", sha256.Sum256([]byte(token)))
	}
	return nil
}
