package engine

import (
	"errors"

	"github.com/duckdb/duckdb-go/v2"

	"github.com/phoebe-sched/phoebe/worker/exec"
)

// Codes of a client.TaskError when a fragment fails.
const (
	BadSQL   = "BAD_SQL"   // the planner should have refused the query
	Overflow = "OVERFLOW"  // a value outside the range of its type, or not a value of the type at all
	NoMemory = "NO_MEMORY" // the task needs more memory than the worker has for a task
	NoData   = "NO_DATA"   // no running worker is known to have a copy of a file, or no copy matches its digest
	Broken   = "BROKEN"    // any other error of DuckDB
)

// classifyError gives an error of DuckDB a code, by the type of the error. Errors of other origin, and nil,
// stay unchanged.
func classifyError(err error) error {
	d, ok := errors.AsType[*duckdb.Error](err)
	if !ok {
		return err
	}
	code := Broken
	switch d.Type {
	case duckdb.ErrorTypeOutOfMemory:
		code = NoMemory
	case duckdb.ErrorTypeOutOfRange, duckdb.ErrorTypeConversion, duckdb.ErrorTypeDivideByZero,
		duckdb.ErrorTypeInvalidInput, duckdb.ErrorTypeDecimal:
		code = Overflow
	case duckdb.ErrorTypeParser, duckdb.ErrorTypeBinder, duckdb.ErrorTypeCatalog, duckdb.ErrorTypeSyntax:
		code = BadSQL
	}
	return &exec.Error{Code: code, Retry: exec.Never, Err: errors.New(d.Msg)}
}
