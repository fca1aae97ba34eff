package engine

import (
	"errors"
	"fmt"
	"strings"

	"github.com/duckdb/duckdb-go/v2"
)

// Code is what went wrong in a fragment.
type Code string

const (
	BadSQL    Code = "BAD_SQL"    // what the planner should have noticed
	Overflow  Code = "OVERFLOW"   // a value that its type cannot hold, or no value of a type
	NoMemory  Code = "NO_MEMORY"  // more than the worker has for a task
	NoData    Code = "NO_DATA"    // no copy of a file is there and is what its digest says
	LostInput Code = "LOST_INPUT" // what an earlier stage made is gone: the query must be run again
	Broken    Code = "BROKEN"     // anything else
)

// Error is the failure of a fragment.
type Error struct {
	Code   Code
	Detail string
}

func (e *Error) Error() string { return string(e.Code) + ": " + e.Detail }

// kind tells an error of DuckDB by its type.
func kind(err error) error {
	var own *Error
	if errors.As(err, &own) {
		return err
	}
	var d *duckdb.Error
	if !errors.As(err, &d) {
		return &Error{Broken, err.Error()}
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
	return &Error{code, d.Msg}
}

// parse reads an error as a task's failure tells it.
func parse(text string) error {
	for _, c := range []Code{BadSQL, Overflow, NoMemory, NoData, LostInput, Broken} {
		if detail, ok := strings.CutPrefix(text, string(c)+": "); ok {
			return &Error{c, detail}
		}
	}
	return fmt.Errorf("a task failed: %s", text)
}
