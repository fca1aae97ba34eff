package files

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/phoebe-sched/phoebe/probe"
)

func noPeers(probe.File) []string { return nil }

// localFiles makes n files of blocks blocks each, and returns the folder.
func localFiles(t *testing.T, n, blocks int) (root string, files []probe.File) {
	root = t.TempDir()
	for i := range n {
		b := content(byte(10*i), blocks*block)
		path := filepath.Join(root, fmt.Sprint(i))
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		files = append(files, fileOf("file://"+path, b))
	}
	return root, files
}

func releaseAll(held []*Held) {
	for _, h := range held {
		h.Release()
	}
}

func TestFetchAll(t *testing.T) {
	root, f := localFiles(t, 5, 1)
	c := newCache(t, 4*block, Options{Roots: []string{root}})
	missing := fileOf("file://"+root+"/missing", content(99, block))
	large := content(77, 2*block)
	if err := os.WriteFile(filepath.Join(root, "large"), large, 0o600); err != nil {
		t.Fatal(err)
	}
	unknown := fileOf("file://"+root+"/large", large)
	unknown.Bytes = 0

	if held, err := c.FetchAll(t.Context(), nil, noPeers); len(held) != 0 || err != nil {
		t.Errorf("no files: %v, %v", held, err)
	}
	held, err := c.FetchAll(t.Context(), []probe.File{f[2], f[0], f[2]}, noPeers)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []int{2, 0, 2} {
		if held[i].Path != c.pathOf(f[want].Digest) {
			t.Errorf("file %d is at %s", i, held[i].Path)
		}
	}
	if s := c.Stats(); s.Held != 2*block {
		t.Errorf("stats are %+v", s)
	}
	_, err = c.FetchAll(t.Context(), []probe.File{f[1], missing}, noPeers)
	wantError(t, err, Missing, "/missing")
	c.waitUntil(func() bool { return len(c.abandoned) == 0 }) // the other file's fetch was cancelled
	if s := c.Stats(); s.Held != 2*block {
		t.Errorf("after an error: %+v", s)
	}
	_, err = c.FetchAll(t.Context(), f, noPeers)
	wantError(t, err, TooLarge, "fewer files", "20480 bytes", "16384")
	_, err = c.FetchAll(t.Context(), []probe.File{f[1], fileOf("ftp://x", nil)}, noPeers)
	wantError(t, err, BadURL)
	_, err = c.FetchAll(t.Context(), []probe.File{f[1], unknown}, noPeers)
	wantError(t, err, NoSpace)
	releaseAll(held)
}

// A call without room holds no file and waits until another task frees room.
func TestFetchAllWaitsForRoom(t *testing.T) {
	root, f := localFiles(t, 4, 1)
	c := newCache(t, 3*block, Options{Roots: []string{root}})
	a, b := mustFetch(t, c, f[0]), mustFetch(t, c, f[1])
	wait := func(ctx context.Context) chan error {
		done := make(chan error)
		go func() {
			held, err := c.FetchAll(ctx, []probe.File{f[2], f[3]}, noPeers)
			if err == nil {
				releaseAll(held)
			}
			done <- err
		}()
		c.waitUntil(func() bool { return len(c.roomWaiter) == 1 && c.freedRoom != nil })
		return done
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := wait(ctx)
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	done = wait(t.Context())
	if s := c.Stats(); s.Held != 2*block || s.Evictions != 0 {
		t.Errorf("while it waits: %+v", s)
	}
	b.Release()
	if err := <-done; err != nil {
		t.Error(err)
	}
	a.Release()
}

// Later calls wait behind the call waiting for room, except calls that need no room.
func TestFetchAllInTurn(t *testing.T) {
	root, f := localFiles(t, 2, 1)
	c := newCache(t, 3*block, Options{Roots: []string{root}})
	mustFetch(t, c, f[0]).Release()
	c.roomWaiter <- struct{}{} // as if a call waited for room
	held, err := c.FetchAll(t.Context(), f[:1], noPeers)
	if err != nil {
		t.Fatal(err)
	}
	releaseAll(held)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err = c.FetchAll(ctx, f, func(probe.File) []string {
		t.Error("FetchAll began to fetch")
		return nil
	})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	<-c.roomWaiter
}

// Any number of tasks get their files in the end, if each task's files fit into the cache.
func TestFetchAllStress(t *testing.T) {
	root, all := localFiles(t, 12, 2)
	c := newCache(t, 10*block, Options{Roots: []string{root}})
	var wg sync.WaitGroup
	for g := range 10 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(2, uint64(g)))
			for range 60 {
				var files []probe.File
				for range 1 + rng.IntN(5) {
					files = append(files, all[rng.IntN(len(all))])
				}
				held, err := c.FetchAll(t.Context(), files, noPeers)
				if err != nil {
					t.Error(err)
					return
				}
				for i, h := range held {
					b, err := os.ReadFile(h.Path)
					if got := fileOf("", b); err != nil || got.Digest != files[i].Digest {
						t.Errorf("%s: %d bytes, %v", files[i].URL, len(b), err)
					}
				}
				releaseAll(held)
			}
		})
	}
	wg.Wait()
	c.verify(t)
	if s := c.Stats(); s.Evictions == 0 || s.Hits == 0 {
		t.Errorf("something never happened: %+v", s)
	}
}

// Files held by other tasks, and files named twice, take their room once.
func TestRoomIsCountedOnce(t *testing.T) {
	root, f := localFiles(t, 3, 1)
	c := newCache(t, 3*block, Options{Roots: []string{root}})
	a, b := mustFetch(t, c, f[0]), mustFetch(t, c, f[1])
	held, err := c.FetchAll(t.Context(), []probe.File{f[0], f[2], f[0], f[2]}, noPeers)
	if err != nil {
		t.Fatal(err)
	}
	releaseAll(append(held, a, b))
}

// A fetch that fails frees its room.
func TestRoomOfFailedFetch(t *testing.T) {
	root, f := localFiles(t, 2, 1)
	c := newCache(t, 3*block, Options{Roots: []string{root}})
	begun, release := make(chan struct{}), make(chan struct{})
	url := serveHTTP(t, func(w http.ResponseWriter, _ *http.Request) {
		close(begun)
		<-release
		w.WriteHeader(http.StatusNotFound)
	})
	failing := fetchAsync(c, t.Context(), fileOf(url, content(50, 2*block)))
	<-begun
	done := make(chan error)
	go func() {
		held, err := c.FetchAll(t.Context(), f, noPeers)
		releaseAll(held)
		done <- err
	}()
	c.waitUntil(func() bool { return len(c.roomWaiter) == 1 && c.freedRoom != nil })
	close(release)
	if err := <-done; err != nil {
		t.Error(err)
	}
	wantError(t, (<-failing).err, Missing)
}
