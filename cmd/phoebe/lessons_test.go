package main_test

import (
	"errors"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// awaitLessons waits until a frontend has lessons for others.
func (g *gossiper) awaitLessons() {
	g.t.Helper()
	waitUntil(g.t, func() error {
		if metricSum(g.t, g.process, "phoebe_frontend_gossip_lesson_bytes") == 0 {
			return errors.New("frontend " + g.api + " knows no lessons")
		}
		return nil
	})
}

// A frontend runs a long function without estimates, and is killed. After the restart the frontend knows the function
// from another frontend, which never ran the function. So the task goes by estimation, and explain gives the source.
func TestRestartedFrontendKnowsRunTimes(t *testing.T) {
	t.Parallel()
	start := func(join ...string) *gossiper {
		args := append(slices.Clone(gossipFlags), "--long-task", "20ms")
		if len(join) > 0 {
			args = append(args, "--join", strings.Join(join, ","))
		}
		return awaitGossiper(startPhoebe(t, args...))
	}
	first := start()
	second := start(first.gossip)
	w := startAnnounced(t, "w", first.heartbeat).workerAddr()
	first.awaitWorkers(w)
	second.awaitWorkers(w)
	run := func(g *gossiper) string {
		t.Helper()
		s := runPhoebe(t, "run", "--function", "sleep", "--payload", "30ms", "--tasks", "4", "--connect", g.api)
		return regexp.MustCompile(`[0-9A-Z]{26}@\S+`).FindString(s.wantExit(t, 0).err)
	}
	if d := explainJob(t, run(first), "0", "--connect", first.api).Decisions[0]; d.Path != "sampling" ||
		d.Work.Source != "nothing" {
		t.Errorf("the first task went by %s, by %s", d.Path, d.Work.Source)
	}
	second.awaitLessons()
	first.sendSignal(syscall.SIGKILL)
	first.awaitEnd()

	again := start(second.gossip)
	again.awaitWorkers(w)
	again.awaitLessons()
	job := run(again)
	if d := explainJob(t, job, "0", "--connect", again.api).Decisions[0]; d.Path != "estimation" ||
		d.Cause != "length" || d.Work.Source != "function at peers" {
		t.Errorf("after the restart a task went by %s, %s, by %s", d.Path, d.Cause, d.Work.Source)
	}
	s := runPhoebe(t, "explain", job, "0", "--connect", again.api).wantExit(t, 0)
	if !strings.Contains(s.out, "by 4 finished tasks of its function at other frontends") {
		t.Errorf("explain says %s", s.out)
	}
}
