package main_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/phoebe-sched/phoebe/frontend/client"
	"github.com/phoebe-sched/phoebe/worker/exec"
)

// The trace and the explanation of a running process show CPU time and memory, with children.
func TestRunningProcessIsWatched(t *testing.T) {
	t.Parallel()
	w := startPhoebe(t, "worker", "--listen", "127.0.0.1:0", "--allow-exec")
	f := startPhoebe(t, "frontend", "--listen", "127.0.0.1:0", "--workers", w.workerAddr(), "--lease", "500ms").
		awaitLines("frontend", 1)[0]
	awaitLinked(t, f, 1)
	payload, err := exec.Command{Argv: []string{"sh", "-c", "sleep 1000 & while :; do :; done"}}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	cl := newClient(t, f)
	running, err := cl.Submit(t.Context(), client.Job{Tasks: []client.Task{{Function: "exec", Payload: payload}},
		Mode: client.EstimateMode})
	if err != nil {
		t.Fatal(err)
	}
	job := running.Handle().Job
	waitUntil(t, func() error {
		x, err := cl.Trace(t.Context(), job, 0, 0)
		if err != nil {
			return err
		}
		if len(x.UnderWay) != 1 || x.UnderWay[0].CPU == 0 || x.UnderWay[0].MemoryMiB == 0 {
			return fmt.Errorf("under way: %+v", x.UnderWay)
		}
		return nil
	})
	s := runPhoebe(t, "trace", job, "--connect", f).wantExit(t, 0, "CPU", "MEMORY")
	if row := fieldsOfLine(s.out, "0 "); len(row) < 3 || row[len(row)-1] != "MiB" {
		t.Errorf("%q in\n%s", row, s.out)
	}
	runPhoebe(t, "trace", job, "--json", "--connect", f).wantExit(t, 0, `"cpu_us":`, `"memory_mib":`)
	if s := runPhoebe(t, "explain", job, "0", "--connect", f).wantExit(t, 0); !strings.Contains(s.out, " of CPU and ") {
		t.Errorf("explain says %s", s.out)
	}
}
