package files

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/phoebe-sched/phoebe/probe"
)

// A cache whose folder cannot be written lends the files that it has. It asks no source for other files, and starts
// no drafts. After a successful write everything works again.
func TestOutOfService(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "cache")
		root, f := localFiles(t, 3, 1)
		problems := make(chan error, 9)
		report := func(problem error) { problems <- problem }
		c := openCache(t, dir, 1<<20, Options{Roots: []string{root}, OnDisk: report})
		mustFetch(t, c, f[0]).Release()
		mend := breakDisk(t, c)
		_, err := c.Fetch(t.Context(), f[1], nil)
		wantError(t, err, Disk, "cannot write to the cache", "writable")
		if problem := <-problems; !IsDiskFailure(problem) {
			t.Fatalf("reported is %v", problem)
		}
		elsewhere := probe.File{Digest: f[2].Digest, Bytes: f[2].Bytes, URL: "http://127.0.0.1:1/x"}
		_, err = c.Fetch(t.Context(), elsewhere, nil)
		wantError(t, err, Disk, "cannot write to the cache") // and not: connection refused
		if _, err := c.Create(); !IsDiskFailure(err) {
			t.Errorf("a draft begins: %v", err)
		}
		mustFetch(t, c, f[0]).Release()

		time.Sleep(3*diskProbeEvery + 1)
		synctest.Wait()
		if len(problems) != 0 {
			t.Fatalf("reported is %v", <-problems)
		}
		mend()
		time.Sleep(diskProbeEvery)
		if problem := <-problems; problem != nil {
			t.Fatalf("reported is %v", problem)
		}
		mustFetch(t, c, f[1]).Release()
	})
}

// If somebody deletes the folder, the cache makes a new folder and locks it.
func TestFolderDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "cache")
		root, f := localFiles(t, 1, 1)
		c := openCache(t, dir, 1<<20, Options{Roots: []string{root}})
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		_, err := c.Fetch(t.Context(), f[0], nil)
		wantError(t, err, Disk, "cannot write to the cache")
		time.Sleep(diskProbeEvery)
		synctest.Wait()
		mustFetch(t, c, f[0]).Release()
		if _, err := Open(dir, 1<<20, Options{}); err == nil {
			t.Error("another cache takes the folder")
		}
	})
}

// breakDisk takes the names of the next partial files, so that no file can be created in c's folder, not even by root.
// The result mend undoes that.
func breakDisk(t *testing.T, c *Cache) (mend func()) {
	t.Helper()
	c.mu.Lock()
	serial := c.partialSerial
	c.mu.Unlock()
	var taken []string
	for i := range uint64(20) {
		path := filepath.Join(c.dir, fmt.Sprint(partialPrefix, serial+1+i))
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		taken = append(taken, path)
	}
	return func() {
		for _, path := range taken {
			os.Remove(path)
		}
	}
}
