package local_test

import (
	"bytes"
	"context"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/cloudwego/kitex/pkg/klog"

	"github.com/phoebe-sched/phoebe/frontend/client"
	"github.com/phoebe-sched/phoebe/frontend/client/local"
	"github.com/phoebe-sched/phoebe/worker/exec"
)

// logBuffer collects Kitex's log.
type logBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *logBuffer) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(b)
}

// Kitex logs nothing when a cluster starts, or when a cluster is closed: at once, at rest, or with a job under way.
func TestClusterIsQuiet(t *testing.T) {
	var log logBuffer
	klog.SetOutput(&log)
	defer klog.SetOutput(os.Stderr)
	runs := make(chan struct{}, 1)
	registry := exec.NewRegistry()
	err := registry.Register("hang", func(ctx context.Context, _ []byte) ([]byte, error) {
		runs <- struct{}{}
		<-ctx.Done()
		return nil, ctx.Err()
	})
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		for _, state := range []string{"new", "idle", "busy"} {
			c, err := local.Start(local.Config{Frontends: 2, Registry: registry})
			if err != nil {
				t.Fatal(err)
			}
			var cl *client.Client
			ended := make(chan error, 1)
			if state != "new" {
				if cl, err = client.New(c.Frontends()); err != nil {
					t.Fatal(err)
				}
				if _, err := cl.Workers(t.Context()); err != nil {
					t.Error(err)
				}
			}
			if state == "busy" {
				go func() {
					_, err := cl.Run(t.Context(), client.Job{Tasks: []client.Task{{Function: "hang"}}})
					ended <- err
				}()
				<-runs
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
			if cl != nil {
				cl.Close()
			}
			if state == "busy" && <-ended == nil {
				t.Error("a task that hangs has a result")
			}
		}
	}
	log.mu.Lock()
	defer log.mu.Unlock()
	for line := range strings.Lines(log.text.String()) {
		t.Error(line)
	}
}
