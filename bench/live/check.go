package live

import (
	"context"
	"fmt"
	"time"

	"github.com/phoebe-sched/phoebe/frontend/client"
)

// The check after a benchmark runs one long task without an estimate on an idle cluster. When the task has run for
// shortAfter, which is longer than a frontend's limit of waiting (1 s), a short job follows. Slots are free, so the
// frontend must not refuse the short job as overload.
const (
	longCheck  = 2 * time.Second
	shortAfter = 1500 * time.Millisecond
	shortCheck = 10 * time.Millisecond
)

// checkIdle starts a cluster, makes the check, and returns a line about it for people. If the cluster refuses or
// loses a job, checkIdle returns an error. The cluster has one frontend, because a client would take a refused job to
// another frontend.
func (o *Options) checkIdle(ctx context.Context, cluster, policy string) (line string, err error) {
	single := *o
	single.Frontends = 1
	t, err := single.openTarget(ctx, cluster, policy)
	if err != nil {
		return "", err
	}
	defer func() {
		if closeErr := t.close(); err == nil {
			err = closeErr
		}
	}()
	begin := time.Now()
	long := make(chan error, 1)
	go func() { long <- t.runSleep(ctx, longCheck) }()
	select {
	case err := <-long:
		return "", fmt.Errorf("check: a task of %v ended after %v: %w", longCheck, time.Since(begin), err)
	case <-time.After(shortAfter):
	}
	begin = time.Now()
	if err := t.runSleep(ctx, shortCheck); err != nil {
		return "", fmt.Errorf("check: a job of %v beside one long task on an idle cluster: %w", shortCheck, err)
	}
	line = fmt.Sprintf("a job of %v beside a task of %v, on %d slots: %.1f ms", shortCheck, longCheck, t.slots,
		float64(time.Since(begin).Microseconds())/1000)
	if err := <-long; err != nil {
		return "", fmt.Errorf("check: a task of %v on an idle cluster: %w", longCheck, err)
	}
	return line, nil
}

// runSleep runs a job of one task that sleeps, without an estimate.
func (t *target) runSleep(ctx context.Context, d time.Duration) error {
	_, err := t.client.Run(ctx, client.Job{
		Policy: t.policy, Tasks: []client.Task{{Function: "sleep", Payload: []byte(d.String())}},
	})
	return err
}

// checksIdle reports whether a benchmark ends with checkIdle: if it starts an embedded cluster with two slots or more.
func (o *Options) checksIdle() bool {
	return o.Embedded && len(o.Connect)+len(o.Against) == 0 && o.Workers*o.Slots > 1
}
