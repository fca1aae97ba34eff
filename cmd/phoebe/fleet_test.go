package main

import (
	"context"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// callWriter is called at each write.
type callWriter func()

func (w callWriter) Write(b []byte) (int, error) {
	w()
	return len(b), nil
}

// The end of a balancer is noticed although a child of the balancer lives on, with the balancer's stderr.
func TestBalancerEndsBeforeItsChild(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "child") // the child lives as long as the file
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	f := &fleet{
		out: &streams{io.Discard, io.Discard, io.Discard, io.Discard},
		log: slog.New(slog.NewTextHandler(callWriter(cancel), nil)), // the balancer is not started again
	}
	ended := make(chan struct{})
	go func() { // the thread ends, too
		defer close(ended)
		f.keepRunning(ctx, member{"balancer", "", []string{"sh", "-c",
			`while test -e "$0"; do sleep 0.1; done & kill -9 $$`, file}})
	}()
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Error("the end is not noticed")
	}
	if err := os.Remove(file); err != nil {
		t.Error(err)
	}
	<-ended
}
