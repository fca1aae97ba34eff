//go:build !unix

package files

import (
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

func checkOwner(string, fs.FileInfo) error { return nil }

// stampOf is the stamp of the regular file at path. Who sets its modification time back is not found out here.
func stampOf(path string) (stamp, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return stamp{}, err
	}
	if !info.Mode().IsRegular() {
		return stamp{}, errNotRegular
	}
	return stamp{bytes: uint64(info.Size()), written: info.ModTime(), taken: time.Now()}, nil
}

// lock does not keep others out here.
func lock(dir string) (*os.File, error) {
	return os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
}
