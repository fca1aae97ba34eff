package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// report is a file that is asked for by a flag, and how to write it.
type report[T any] struct {
	flag, name string
	as         func(io.Writer, T) error
}

// createReports makes sure that the files that were asked for can be written, before the minutes that their content
// takes, and returns what writes them. A file comes to be under its name only when all of it is written.
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
	if err := each(func(r report[T]) error { return writable(r.name) }); err != nil {
		return nil, usage(err)
	}
	return func(content T) error {
		return each(func(r report[T]) error {
			return writeWhole(r.name, func(w io.Writer) error { return r.as(w, content) })
		})
	}, nil
}

// beside is where a file is written before it gets its name. A device, a pipe or a link is written itself: to rename
// something over it would not do what was meant.
func beside(name string) (string, error) {
	info, err := os.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist) || err == nil && info.Mode().IsRegular():
		return fmt.Sprintf("%s.%d.tmp", name, os.Getpid()), nil
	case err == nil && info.IsDir():
		return "", &fs.PathError{Op: "write", Path: name, Err: syscall.EISDIR}
	}
	return name, err
}

// writable says why a file could not be written.
func writable(name string) error {
	at, err := beside(name)
	if err != nil || at == name {
		return err
	}
	f, err := os.Create(at)
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(at))
}

// writeWhole writes a file, all of it or nothing.
func writeWhole(name string, content func(io.Writer) error) error {
	at, err := beside(name)
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
