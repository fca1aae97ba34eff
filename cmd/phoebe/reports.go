package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/phoebe-sched/phoebe/probe/whole"
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
	if err := each(func(r report[T]) error { return whole.Check(r.name) }); err != nil {
		return nil, usageError(err)
	}
	return func(content T) error {
		return each(func(r report[T]) error {
			return whole.Write(r.name, 0o666, func(w io.Writer) error { return r.encode(w, content) })
		})
	}, nil
}
