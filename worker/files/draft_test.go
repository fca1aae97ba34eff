package files

import (
	"bytes"
	"context"
	"crypto/sha256"
	"io"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

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
			digest, err := writeDraft(t, c, want).Commit()
			if err != nil || digest != sha256.Sum256(want) {
				t.Fatalf("%d bytes: digest %x, %v", size, digest, err)
			}
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
	if _, err := writeDraft(t, c, content(1, 1<<20)).Commit(); err != nil {
		t.Fatal(err)
	}
	d := writeDraft(t, c, content(2, 2<<20)) // evicts the first file
	if _, err := d.Write([]byte("x")); err == nil {
		t.Error("a draft is larger than the cache")
	}
	d.Abort()
	if s := c.Stats(); s.Entries != 0 || s.Bytes != 0 {
		t.Errorf("%+v", s)
	}
}
