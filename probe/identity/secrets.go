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
	file string // they are in; "": nowhere
	now  atomic.Pointer[secrets]
}

type secrets struct {
	all     []string
	sums    [][sha256.Size]byte
	version uint64
}

// NewSecrets are these, for as long as they are used. Empty ones do not count.
func NewSecrets(all ...string) *Secrets {
	s := &Secrets{}
	s.set(slices.DeleteFunc(slices.Clone(all), func(one string) bool { return one == "" }))
	return s
}

// OpenSecrets reads them from a file, one in each line.
func OpenSecrets(file string) (*Secrets, error) {
	s := &Secrets{file: file}
	all, err := s.read()
	if err != nil {
		return nil, err
	}
	s.set(all)
	return s, nil
}

func (s *Secrets) read() (all []string, err error) {
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

func (s *Secrets) set(all []string) {
	next := &secrets{all: all, version: s.Version() + 1}
	for _, one := range all {
		next.sums = append(next.sums, sha256.Sum256([]byte(one)))
	}
	s.now.Store(next)
}

// All are the secrets.
func (s *Secrets) All() []string {
	if s == nil {
		return nil
	}
	return s.now.Load().all
}

// Tell is the one to be told to others.
func (s *Secrets) Tell() string {
	if all := s.All(); len(all) > 0 {
		return all[0]
	}
	return ""
}

// Takes tells whether what somebody has told is one of them.
func (s *Secrets) Takes(told string) bool {
	if len(s.All()) == 0 {
		return true
	}
	sum, match := sha256.Sum256([]byte(told)), 0
	for _, one := range s.now.Load().sums {
		match |= subtle.ConstantTimeCompare(sum[:], one[:])
	}
	return match == 1
}

// Version is another one whenever they have changed: who was let in by one that is gone has to go.
func (s *Secrets) Version() uint64 {
	if s == nil || s.now.Load() == nil {
		return 0
	}
	return s.now.Load().version
}

// Watch takes in what changes in their file, until ctx ends. told is called with nil when they have changed, and with an error
// when what is there cannot be used; what was there before counts on.
func (s *Secrets) Watch(ctx context.Context, told func(error)) {
	if s == nil || s.file == "" {
		return
	}
	every(ctx, told, func() (changed bool, err error) {
		all, err := s.read()
		if err == nil && !slices.Equal(all, s.All()) {
			s.set(all)
			changed = true
		}
		return changed, err
	})
}

// lookEvery is how often files are looked at, and for certificates that have ended.
const lookEvery = time.Second

// every looks again and again, until ctx ends, and tells of each change, and of each error once.
func every(ctx context.Context, told func(error), look func() (changed bool, err error)) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	said := ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		changed, err := look()
		text := ""
		if err != nil {
			text = err.Error()
		}
		if changed || text != "" && text != said {
			told(err)
		}
		said = text
	}
}
