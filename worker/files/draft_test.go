package files

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/phoebe-sched/phoebe/probe"
)

func writeDraft(t *testing.T, c *Cache, content []byte) *Draft {
	t.Helper()
	d, err := c.Create()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(d, bytes.NewReader(content)); err != nil {
		t.Fatal(err)
	}
	return d
}

// commit writes content into the cache, and returns the digest.
func commit(t *testing.T, c *Cache, content []byte) (digest [32]byte) {
	t.Helper()
	digest, path, release, err := writeDraft(t, c, content).Commit()
	if err != nil || digest != sha256.Sum256(content) || path != c.pathOf(digest) {
		t.Fatalf("%d bytes: digest %x, %s, %v", len(content), digest, path, err)
	}
	release()
	release() // a second call does nothing
	return digest
}

// A file written by a task becomes an entry like any other: for tasks here, for peers, and once, however often
// written.
func TestDraft(t *testing.T) {
	c, far := openCache(t, filepath.Join(t.TempDir(), "cache"), 1<<30, Options{}), openCache(t,
		filepath.Join(t.TempDir(), "far"), 1<<30, Options{})
	peer := httptest.NewServer(c.Handler())
	defer peer.Close()
	for _, size := range []int{0, 10, 3 << 20} {
		want := content(byte(size), size)
		for range 2 {
			commit(t, c, want)
		}
		for _, at := range []*Cache{c, far} {
			h, err := at.Fetch(context.Background(), probe.File{Digest: sha256.Sum256(want), Bytes: uint64(size)},
				[]string{peer.URL})
			if err != nil {
				t.Fatal(err)
			}
			if got, err := os.ReadFile(h.Path); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%d of %d bytes come back, %v", len(got), size, err)
			}
			h.Release()
		}
	}
	writeDraft(t, c, content(1, 100)).Abort()
	if s := c.Stats(); s.Entries != 3 || s.Held != 0 || s.Bytes != 4096+4096+3<<20 {
		t.Errorf("%+v", s)
	}
}

// A draft takes no more room than the cache has, and Abort frees the room.
func TestDraftOverLimit(t *testing.T) {
	c := openCache(t, filepath.Join(t.TempDir(), "cache"), 2<<20, Options{})
	commit(t, c, content(1, 1<<20))
	d := writeDraft(t, c, content(2, 2<<20)) // evicts the first file
	if _, err := d.Write([]byte("x")); err == nil {
		t.Error("a draft is larger than the cache")
	}
	d.Abort()
	if s := c.Stats(); s.Entries != 0 || s.Bytes != 0 {
		t.Errorf("%+v", s)
	}
}

// spoilEntry takes or changes the file of an entry, as another program would.
var spoilEntry = map[string]func(path string) error{
	"gone":       os.Remove,
	"cut off":    func(path string) error { return rewrite(path, func(b []byte) []byte { return b[:len(b)/2] }) },
	"other bits": func(path string) error { return rewrite(path, func(b []byte) []byte { b[0]++; return b }) },
}

func rewrite(path string, change func([]byte) []byte) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return errors.Join(os.Chmod(path, 0o700), os.WriteFile(path, change(b), 0o700))
}

// If the file of an entry is missing or spoilt, the next Commit of the same content puts a good file there. This
// holds for entries of this process and for entries of an earlier process.
func TestCommitMendsEntry(t *testing.T) {
	want := content(3, 100_000)
	f := probe.File{Digest: sha256.Sum256(want), Bytes: uint64(len(want))}
	for name, spoil := range spoilEntry {
		for _, restarted := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, restarted %v", name, restarted), func(t *testing.T) {
				dir := filepath.Join(t.TempDir(), "cache")
				c := openCache(t, dir, 1<<30, Options{})
				commit(t, c, want)
				if restarted {
					if err := c.Close(); err != nil {
						t.Fatal(err)
					}
					c = openCache(t, dir, 1<<30, Options{})
				}
				if err := spoil(c.pathOf(f.Digest)); err != nil {
					t.Fatal(err)
				}
				commit(t, c, want)
				mustFetch(t, c, f).Release()
			})
		}
	}
}

// A peer does not get a spoilt file, and the cache no longer announces the file.
func TestSpoiltEntryIsNotServed(t *testing.T) {
	want := content(3, 100_000)
	for name, spoil := range spoilEntry {
		t.Run(name, func(t *testing.T) {
			c := newCache(t, 1<<30, Options{})
			digest := commit(t, c, want)
			if err := spoil(c.pathOf(digest)); err != nil {
				t.Fatal(err)
			}
			answer := httptest.NewRecorder()
			c.Handler().ServeHTTP(answer, httptest.NewRequest("GET", filesPath+hex.EncodeToString(digest[:]), nil))
			if answer.Code != http.StatusNotFound {
				t.Errorf("a peer gets status %d", answer.Code)
			}
			if d := c.Digests(10); len(d) > 0 {
				t.Errorf("the cache still has %x", d)
			}
		})
	}
}

// Commit does not wait for a fetch of the same content. Callers that wait for the fetch get the committed file.
func TestCommitDuringFetch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		want := content(3, 100)
		c := newCache(t, 1<<20, Options{Tries: 1})
		asked := answers(func(_ int, req *http.Request) (*http.Response, error) {
			<-req.Context().Done()
			return nil, req.Context().Err()
		}).serveTo(c)
		f := fileOf("http://127.0.0.1/mute", want)
		f.Bytes = 0 // the fetch does not know the size
		fetching := fetchAsync(c, t.Context(), f)
		synctest.Wait()
		began := time.Now()
		commit(t, c, want)
		if took := time.Since(began); took > 0 || asked.Load() != 1 {
			t.Errorf("Commit took %v; the origin was asked %d times", took, asked.Load())
		}
		r := <-fetching
		if r.err != nil {
			t.Fatal(r.err)
		}
		r.held.Release()
		time.Sleep(time.Minute) // by then the fetch has ended, and has given its room back
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.usedBytes != block {
			t.Errorf("%d bytes are used, want %d", c.usedBytes, block)
		}
	})
}

// A committed file cannot be evicted before its writer releases the file.
func TestCommitHolds(t *testing.T) {
	c := newCache(t, 1<<20, Options{})
	_, path, release, err := writeDraft(t, c, content(1, 100)).Commit()
	if err != nil {
		t.Fatal(err)
	}
	commit(t, c, content(2, 1<<20-block))
	writeDraft(t, c, content(3, 1<<20-block)).Abort() // evicts the second file
	if _, err := os.Stat(path); err != nil {
		t.Error(err)
	}
	release()
	if s := c.Stats(); s.Held != 0 || s.Evictions != 1 {
		t.Errorf("%+v", s)
	}
}
