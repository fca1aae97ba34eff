//go:build !unix

package files

import (
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

func checkOwner(string, fs.FileInfo) error { return nil }

// stampOf returns the stamp of the regular file at path. Without a ctime, a user who sets back the time of the last
// write escapes.
func stampOf(path string) (fileStamp, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return fileStamp{}, err
	}
	if !info.Mode().IsRegular() {
		return fileStamp{}, errNotRegular
	}
	return fileStamp{bytes: uint64(info.Size()), written: info.ModTime(), taken: time.Now()}, nil
}

// lockFolder does not exclude other processes on this system.
func lockFolder(dir string) (*os.File, error) {
	return os.OpenFile(filepath.Join(dir, lockName), os.O_CREATE|os.O_RDWR, 0o600)
}
