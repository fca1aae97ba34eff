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
	"time"
)

// Secrets are what processes share that trust each other: one, and a second one while they are replaced. Each process tells
// the first, and takes any. None, or a nil one, tells nothing and takes everything.
type Secrets struct {
	file    string // they are in; "": nowhere
	current atomic.Pointer[secretSet]
}

type secretSet struct {
	all     []string
	sums    [][sha256.Size]byte
	version uint64
}

// NewSecrets are these, for as long as they are used. Empty ones do not count.
func NewSecrets(all ...string) *Secrets {
	s := &Secrets{}
	s.setSecrets(slices.DeleteFunc(slices.Clone(all), func(secret string) bool { return secret == "" }))
	return s
}

// OpenSecrets reads them from a file, one in each line.
func OpenSecrets(file string) (*Secrets, error) {
	s := &Secrets{file: file}
	all, err := s.readFile()
	if err != nil {
		return nil, err
	}
	s.setSecrets(all)
	return s, nil
}

func (s *Secrets) readFile() (all []string, err error) {
	text, err := os.ReadFile(s.file)
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" {
			all = append(all, line)
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s is empty: write the secret into it", s.file)
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

// All are the secrets.
func (s *Secrets) All() []string {
	if s == nil {
		return nil
	}
	return s.current.Load().all
}

// Tell is the one to be told to others.
func (s *Secrets) Tell() string {
	if all := s.All(); len(all) > 0 {
		return all[0]
	}
	return ""
}

// Takes tells whether what somebody has told is one of them.
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

// Version is another one whenever they have changed: who was let in by one that is gone has to go.
func (s *Secrets) Version() uint64 {
	if s == nil || s.current.Load() == nil {
		return 0
	}
	return s.current.Load().version
}

// Watch takes in what changes in their file, until ctx ends. told is called with nil when they have changed, and with an error
// when what is there cannot be used; what was there before counts on.
func (s *Secrets) Watch(ctx context.Context, report func(error)) {
	if s == nil || s.file == "" {
		return
	}
	pollChanges(ctx, report, func() (changed bool, err error) {
		all, err := s.readFile()
		if err == nil && !slices.Equal(all, s.All()) {
			s.setSecrets(all)
			changed = true
		}
		return changed, err
	})
}

// lookEvery is how often files are looked at, and for certificates that have ended.
const lookEvery = time.Second

// pollChanges looks again and again, until ctx ends, and tells of each change, and of each error once.
func pollChanges(ctx context.Context, report func(error), check func() (changed bool, err error)) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	reported := ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		changed, err := check()
		text := ""
		if err != nil {
			text = err.Error()
		}
		if changed || text != "" && text != reported {
			report(err)
		}
		reported = text
	}
}
