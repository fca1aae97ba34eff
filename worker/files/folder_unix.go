//go:build unix

package files

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// checkOwner refuses a folder of another user, who could change its files.
func checkOwner(dir string, info fs.FileInfo) error {
	if st, ok := info.Sys().(*syscall.Stat_t); ok && int(st.Uid) != os.Geteuid() {
		return fmt.Errorf("%s belongs to user %d, this process runs as user %d: chown it, or name another folder",
			dir, st.Uid, os.Geteuid())
	}
	return nil
}

// stampOf returns the stamp of the regular file at path.
func stampOf(path string) (fileStamp, error) {
	s := fileStamp{taken: time.Now()}
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return s, &fs.PathError{Op: "lstat", Path: path, Err: err}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return s, errNotRegular
	}
	s.bytes, s.inode = uint64(st.Size), uint64(st.Ino)
	s.written, s.changed = time.Unix(st.Mtim.Unix()), time.Unix(st.Ctim.Unix())
	return s, nil
}

// lockFolder locks the folder for this cache alone, until the file is closed or the process ends.
func lockFolder(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, lockName), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		return nil, fmt.Errorf("%s is in use by another worker: give each its own folder (%w)", dir, err)
	}
	return f, nil
}
