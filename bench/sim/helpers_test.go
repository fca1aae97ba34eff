package sim

import (
	"context"
	"errors"
	"testing"
)

var errStop = errors.New("enough")

func contextWithCause(t testing.TB) (context.Context, context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(t.Context())
	t.Cleanup(func() { cancel(nil) })
	return ctx, cancel
}
