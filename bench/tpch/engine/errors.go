package engine

import (
	"errors"

	"github.com/duckdb/duckdb-go/v2"

	"github.com/phoebe-sched/phoebe/worker/exec"
)

// What goes wrong in a fragment, as the Code of a client.TaskError.
const (
	BadSQL   = "BAD_SQL"   // what the planner should have noticed
	Overflow = "OVERFLOW"  // a value that its type cannot hold, or no value of a type
	NoMemory = "NO_MEMORY" // more than the worker has for a task
	NoData   = "NO_DATA"   // no copy of a file is known to be at a worker that is up, or none is what its digest says
	Broken   = "BROKEN"    // anything else that DuckDB says
)

// kind tells an error of DuckDB by its type.
func kind(err error) error {
	d, ok := errors.AsType[*duckdb.Error](err)
	if !ok {
		return err
	}
	code := Broken
	switch d.Type {
	case duckdb.ErrorTypeOutOfMemory:
		code = NoMemory
	case duckdb.ErrorTypeOutOfRange, duckdb.ErrorTypeConversion, duckdb.ErrorTypeDivideByZero, duckdb.ErrorTypeInvalidInput, duckdb.ErrorTypeDecimal:
		code = Overflow
	case duckdb.ErrorTypeParser, duckdb.ErrorTypeBinder, duckdb.ErrorTypeCatalog, duckdb.ErrorTypeSyntax:
		code = BadSQL
	}
	return &exec.Error{Code: code, Retry: exec.Never, Err: errors.New(d.Msg)}
}
