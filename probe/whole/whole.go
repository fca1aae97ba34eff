// Package whole writes files completely, or not at all.
package whole

import (
	"bufio"
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// prefix begins the name of a file whose content is incomplete.
const prefix = "unfinished-"

// IsUnfinished reports whether name is that of a file whose content is incomplete. If the writer dies, such a file
// stays.
func IsUnfinished(name string) bool { return strings.HasPrefix(filepath.Base(name), prefix) }

// Write writes a file. If content or the disk fails, or the machine stops, an older file of that name keeps its
// content. A new file gets the permissions perm, less the process's umask. content may write small pieces.
//
// If name is a link to a file, Write replaces the link's target. Write does not replace devices and pipes, but
// writes to them directly.
func Write(name string, perm fs.FileMode, content func(io.Writer) error) error {
	target, temporary, err := resolveTarget(name)
	if err != nil {
		return err
	}
	if temporary == "" {
		f, err := os.OpenFile(target, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, perm)
		if err != nil {
			return err
		}
		return errors.Join(writeContent(f, content), f.Close())
	}
	f, err := createTemporary(temporary, name, perm)
	if err != nil {
		return err
	}
	err = writeContent(f, content)
	if err == nil {
		err = f.Sync() // otherwise a machine that stops may keep the rename, but not the content
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(temporary, target)
	}
	if err != nil {
		_ = os.Remove(temporary)
	}
	return err
}

// WriteBytes writes a file as Write does.
func WriteBytes(name string, perm fs.FileMode, content []byte) error {
	return Write(name, perm, func(w io.Writer) error {
		_, err := w.Write(content)
		return err
	})
}

// writeContent writes the content to f.
func writeContent(f *os.File, content func(io.Writer) error) error {
	w := bufio.NewWriter(f)
	if err := content(w); err != nil {
		return err
	}
	return w.Flush()
}

// Check returns why Write cannot write a file, or nil. Check leaves an older file as it is.
func Check(name string) error {
	_, temporary, err := resolveTarget(name)
	if err != nil || temporary == "" {
		return err
	}
	f, err := createTemporary(temporary, name, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(temporary))
}

// createTemporary makes a temporary file. Errors give the name that the user knows.
func createTemporary(temporary, name string, perm fs.FileMode) (*os.File, error) {
	f, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if failure, ok := errors.AsType[*fs.PathError](err); ok {
		failure.Path = name
	}
	return f, err
}

// resolveTarget returns the file that a write to name replaces, and the file's name while the content is incomplete. The
// latter is "" if the target is no regular file, or a link's target that does not exist.
func resolveTarget(name string) (target, temporary string, err error) {
	info, err := os.Stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if _, err := os.Lstat(name); err == nil {
			return name, "", nil
		}
		target = name
	case err != nil:
		return "", "", err
	case info.IsDir():
		return "", "", &fs.PathError{Op: "write", Path: name, Err: syscall.EISDIR}
	case !info.Mode().IsRegular():
		return name, "", nil
	default:
		if target, err = filepath.EvalSymlinks(name); err != nil {
			return "", "", err
		}
	}
	return target, filepath.Join(filepath.Dir(target), prefix+rand.Text()), nil
}
