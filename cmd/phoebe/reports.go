package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// report is a file named by a flag, and a function to write the content.
type report[T any] struct {
	flag, name string
	encode     func(io.Writer, T) error
}

// createReports returns a function to write the files of the flags. It first checks that the files can be written,
// because their content takes minutes. A file gets its name only when its content is complete.
func createReports[T any](reports []report[T]) (write func(T) error, err error) {
	each := func(do func(report[T]) error) error {
		var errs []error
		for _, r := range reports {
			if r.name == "" {
				continue
			}
			if err := do(r); err != nil {
				errs = append(errs, fmt.Errorf("--%s: %w", r.flag, err))
			}
		}
		return errors.Join(errs...)
	}
	for i, r := range reports {
		for _, other := range reports[:i] {
			if r.name != "" && filepath.Clean(r.name) == filepath.Clean(other.name) && r.name != os.DevNull {
				return nil, usageError(fmt.Errorf("--%s and --%s both name %s: name two files", other.flag, r.flag, r.name))
			}
		}
	}
	if err := each(func(r report[T]) error { return checkWritable(r.name) }); err != nil {
		return nil, usageError(err)
	}
	return func(content T) error {
		return each(func(r report[T]) error {
			return writeWhole(r.name, func(w io.Writer) error { return r.encode(w, content) })
		})
	}, nil
}

// temporaryName returns the name of a file while its content is incomplete. For a device, a pipe or a link, the
// result is name: a rename would replace the link, and not write to the target.
func temporaryName(name string) (string, error) {
	info, err := os.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist) || err == nil && info.Mode().IsRegular():
		return fmt.Sprintf("%s.%d.tmp", name, os.Getpid()), nil
	case err == nil && info.IsDir():
		return "", &fs.PathError{Op: "write", Path: name, Err: syscall.EISDIR}
	}
	return name, err
}

// checkWritable returns why a file cannot be written, or nil.
func checkWritable(name string) error {
	at, err := temporaryName(name)
	if err != nil || at == name {
		return err
	}
	f, err := os.Create(at)
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(at))
}

// writeWhole writes a file completely, or not at all.
func writeWhole(name string, content func(io.Writer) error) error {
	at, err := temporaryName(name)
	if err != nil {
		return err
	}
	f, err := os.Create(at)
	if err != nil {
		return err
	}
	err = errors.Join(content(f), f.Close())
	if at == name {
		return err
	}
	if err == nil {
		err = os.Rename(at, name)
	}
	if err != nil {
		_ = os.Remove(at)
	}
	return err
}
