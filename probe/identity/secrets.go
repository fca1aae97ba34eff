package identity

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/phoebe-sched/phoebe/probe/poll"
)

// Secrets are shared by trusting processes: one secret, and a second secret during a replacement. A process tells
// the first secret and accepts all. Without a secret, or with a nil Secrets, a process tells nothing and accepts
// everything.
type Secrets struct {
	file    string // of the secrets; "": no file
	current atomic.Pointer[secretSet]
}

type secretSet struct {
	all     []string
	sums    [][sha256.Size]byte
	version uint64
}

// NewSecrets returns fixed secrets. Empty secrets do not count.
func NewSecrets(all ...string) *Secrets {
	s := &Secrets{}
	s.setSecrets(slices.DeleteFunc(slices.Clone(all), func(secret string) bool { return secret == "" }))
	return s
}

// OpenSecrets reads secrets from a file, one in each line.
func OpenSecrets(file string) (*Secrets, error) {
	s := &Secrets{file: file}
	text, err := os.ReadFile(file) // once, so the file may be a pipe
	if err != nil {
		return nil, err
	}
	all, err := parseSecrets(file, text)
	if err != nil {
		return nil, err
	}
	s.setSecrets(all)
	return s, nil
}

func parseSecrets(file string, text []byte) (all []string, err error) {
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" {
			all = append(all, line)
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s is empty: write the secret into it", file)
	}
	return all, nil
}

func (s *Secrets) setSecrets(all []string) {
	next := &secretSet{all: all, version: s.Version() + 1}
	for _, secret := range all {
		next.sums = append(next.sums, sha256.Sum256([]byte(secret)))
	}
	s.current.Store(next)
}

// All returns all secrets.
func (s *Secrets) All() []string {
	if s == nil {
		return nil
	}
	return s.current.Load().all
}

// Tell returns the secret to tell to peers, or "".
func (s *Secrets) Tell() string {
	if all := s.All(); len(all) > 0 {
		return all[0]
	}
	return ""
}

// Takes reports whether secret is one of the secrets.
func (s *Secrets) Takes(secret string) bool {
	if len(s.All()) == 0 {
		return true
	}
	sum, match := sha256.Sum256([]byte(secret)), 0
	for _, known := range s.current.Load().sums {
		match |= subtle.ConstantTimeCompare(sum[:], known[:])
	}
	return match == 1
}

// Version changes with every change of the secrets. A peer admitted by a removed secret must go.
func (s *Secrets) Version() uint64 {
	if s == nil || s.current.Load() == nil {
		return 0
	}
	return s.current.Load().version
}

// Watch follows changes of the file until ctx ends. When the secrets change, Watch calls report with nil. If the
// file cannot be used, Watch calls report with the error, and keeps the secrets.
func (s *Secrets) Watch(ctx context.Context, report func(error)) {
	if s == nil || s.file == "" {
		return
	}
	file := poll.File{Name: s.file}
	poll.Changes(ctx, report, func() (changed bool, err error) {
		text, _, err := file.Read()
		if err != nil {
			return false, err
		}
		all, err := parseSecrets(s.file, text)
		if err == nil && !slices.Equal(all, s.All()) {
			s.setSecrets(all)
			changed = true
		}
		return changed, err
	})
}
