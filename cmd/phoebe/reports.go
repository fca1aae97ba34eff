package main

import (
	"errors"
	"fmt"
	"io"
	"os"
)

// report is a file that is asked for by a flag, and how to write it.
type report[T any] struct {
	flag, name string
	as         func(io.Writer, T) error
}

// createReports creates the files that were asked for, before the minutes that their content takes, and returns what
// writes and closes them.
func createReports[T any](reports []report[T]) (write func(T) error, err error) {
	var writes []func(T) error
	for _, r := range reports {
		if r.name == "" {
			continue
		}
		f, err := os.Create(r.name)
		if err != nil {
			return nil, usage(fmt.Errorf("--%s: %w", r.flag, err))
		}
		writes = append(writes, func(content T) error { return errors.Join(r.as(f, content), f.Close()) })
	}
	return func(content T) error {
		var errs []error
		for _, write := range writes {
			errs = append(errs, write(content))
		}
		return errors.Join(errs...)
	}, nil
}
