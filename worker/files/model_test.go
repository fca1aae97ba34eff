package files

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/phoebe-sched/phoebe/probe"
)

// model is the cache as a list: its files, most recently used first, and the number of holders of each file.
type model struct {
	max  uint64
	used []probe.File
	pins map[[32]byte]int
}

// fetch predicts Fetch: whether there is room, and the evictions.
func (m *model) fetch(f probe.File) bool {
	at := slices.IndexFunc(m.used, func(g probe.File) bool { return g.Digest == f.Digest })
	if at < 0 {
		var held uint64
		for _, g := range m.used {
			if m.pins[g.Digest] > 0 {
				held += chargeOf(g.Bytes)
			}
		}
		if held+chargeOf(f.Bytes) > m.max {
			return false
		}
		for m.bytes()+chargeOf(f.Bytes) > m.max {
			for i := len(m.used) - 1; ; i-- {
				if m.pins[m.used[i].Digest] == 0 {
					m.used = slices.Delete(m.used, i, i+1)
					break
				}
			}
		}
		m.used = append(m.used, f)
	}
	m.pins[f.Digest]++
	return true
}

// release removes a holder. A file without holders moves to the front.
func (m *model) release(f probe.File) {
	if m.pins[f.Digest]--; m.pins[f.Digest] > 0 {
		return
	}
	m.used = slices.DeleteFunc(m.used, func(g probe.File) bool { return g.Digest == f.Digest })
	m.used = slices.Insert(m.used, 0, f)
}

func (m *model) bytes() (sum uint64) {
	for _, f := range m.used {
		sum += chargeOf(f.Bytes)
	}
	return sum
}

// idle returns the evictable files, most recently used first.
func (m *model) idle() (digests [][32]byte) {
	for _, f := range m.used {
		if m.pins[f.Digest] == 0 {
			digests = append(digests, f.Digest)
		}
	}
	return digests
}

// In random histories with restarts, for a single caller, the cache does as the model predicts.
func TestModel(t *testing.T) {
	root := t.TempDir()
	var all []probe.File
	for i := range 8 {
		b := content(byte(10*i), i*block*2/3)
		path := filepath.Join(root, fmt.Sprint(i))
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		all = append(all, fileOf("file://"+path, b))
	}
	missing := fileOf("file://"+root+"/missing", content(99, 3*block))
	full := 0
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp(root, "cache")
		if err != nil {
			rt.Fatal(err)
		}
		defer os.RemoveAll(dir)
		m := &model{max: uint64(rapid.IntRange(5, 20).Draw(rt, "blocks")) * block, pins: map[[32]byte]int{}}
		open := func() *Cache {
			c, err := Open(dir, int64(m.max), Options{Roots: []string{root}})
			if err != nil {
				rt.Fatal(err)
			}
			return c
		}
		c := open()
		defer func() { c.Close() }()
		type holder struct {
			file probe.File
			held *Held
		}
		var holders []holder
		releaseOne := func(i int) {
			h := holders[i]
			holders = slices.Delete(holders, i, i+1)
			h.held.Release()
			m.release(h.file)
		}
		rt.Repeat(map[string]func(*rapid.T){
			"fetch": func(rt *rapid.T) {
				f := rapid.SampledFrom(all).Draw(rt, "file")
				fits := m.fetch(f)
				h, err := c.Fetch(t.Context(), f, nil)
				if (err == nil) != fits {
					rt.Fatalf("room: %v; Fetch says %v", fits, err)
				}
				if err == nil {
					holders = append(holders, holder{f, h})
				} else {
					full++
					wantError(t, err, NoSpace)
				}
			},
			"fetch what is missing": func(rt *rapid.T) {
				if m.fetch(missing) { // the fetch takes room, fails, and frees the room
					m.pins[missing.Digest] = 0
					m.used = slices.DeleteFunc(m.used, func(g probe.File) bool { return g.Digest == missing.Digest })
				}
				if _, err := c.Fetch(t.Context(), missing, nil); err == nil {
					rt.Fatal("no error")
				}
			},
			"release": func(rt *rapid.T) {
				if len(holders) > 0 {
					releaseOne(rapid.IntRange(0, len(holders)-1).Draw(rt, "holder"))
				}
			},
			"restart": func(rt *rapid.T) {
				for len(holders) > 0 {
					releaseOne(0)
				}
				if err := c.Close(); err != nil {
					rt.Fatal(err)
				}
				c = open()
				// After a restart the order is the order of the fetches; take it from the cache.
				order := c.Digests(math.MaxInt)
				slices.SortFunc(m.used, func(a, b probe.File) int {
					return slices.Index(order, a.Digest) - slices.Index(order, b.Digest)
				})
			},
			"": func(rt *rapid.T) {
				c.verify(t)
				digests := c.Digests(math.MaxInt)
				if len(digests) != len(m.used) {
					rt.Fatalf("%d entries, want %d", len(digests), len(m.used))
				}
				if idle := m.idle(); !slices.Equal(digests[len(digests)-len(idle):], idle) {
					rt.Fatalf("evictable %x, want %x", digests[len(digests)-len(idle):], idle)
				}
				for _, h := range holders {
					if _, err := os.Stat(h.held.Path); err != nil {
						rt.Fatal(err)
					}
				}
			},
		})
	})
	if full == 0 {
		t.Error("there always was room")
	}
}

// Two workers short of room serve each other, and fetches are cancelled at random. No caller gets wrong content,
// and in the end no file is held.
func TestStress(t *testing.T) {
	root := t.TempDir()
	var all []probe.File
	for i := range 12 {
		b := content(byte(10*i), i*10_000)
		path := filepath.Join(root, fmt.Sprint(i))
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		all = append(all, fileOf("file://"+path, b))
	}
	var caches []*Cache
	var peers []string
	for range 2 {
		c := newCache(t, 400_000, Options{Roots: []string{root}, OnChange: func(_, _ [][32]byte) {}})
		caches, peers = append(caches, c), append(peers, servePeer(t, c))
	}
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(1, uint64(g)))
			for range 150 {
				f := all[rng.IntN(len(all))]
				if rng.IntN(10) == 0 {
					f.Bytes += uint64(rng.IntN(2)) // a mistake of the client
				}
				ctx, cancel := context.WithCancel(t.Context())
				quit := make(chan struct{})
				if rng.IntN(3) == 0 {
					go func() { <-quit; cancel() }()
					close(quit)
				}
				at := rng.IntN(2)
				h, err := caches[at].Fetch(ctx, f, peers[1-at:][:1])
				cancel()
				if err == nil {
					b, err := os.ReadFile(h.Path)
					if got := fileOf(f.URL, b); err != nil || got.Digest != f.Digest {
						t.Errorf("%s: %d bytes, %v", f.URL, len(b), err)
					}
					h.Release()
				} else if e, ok := errors.AsType[*Error](err); !errors.Is(err, context.Canceled) &&
					!(ok && (e.Reason == NoSpace || e.Reason == WrongSize)) {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	for _, c := range caches {
		c.waitUntil(func() bool { return len(c.abandoned) == 0 && c.comingCount == 0 })
		c.verify(t)
		if s := c.Stats(); s.Hits == 0 || s.FromPeers == 0 || s.FromFiles == 0 || s.Evictions == 0 || s.Held != 0 {
			t.Errorf("something never happened: %+v", s)
		}
	}
}
