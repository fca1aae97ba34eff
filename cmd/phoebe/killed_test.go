package main_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/phoebe-sched/phoebe/frontend/client"
	"github.com/phoebe-sched/phoebe/frontend/client/admin"
)

// A frontend is killed while its job runs. The page of another frontend names the killed frontend in one of the next
// two frames, which come each second. The page lists the job as running there, because the other frontend has claimed
// the job for the client.
func TestKilledFrontend(t *testing.T) {
	t.Parallel()
	first := startGossiper(t)
	second := startGossiper(t, first.gossip)
	w := startAnnounced(t, "w", first.heartbeat, second.heartbeat)
	for _, g := range []*gossiper{first, second} {
		g.awaitWorkers(w.workerAddr())
		g.awaitMembers(2)
	}
	// the page's frontend learns the name of its peer
	if _, err := newClient(t, second.api).Watch(t.Context(), time.Second, time.Time{}, 0); err != nil {
		t.Fatal(err)
	}
	r, err := newClient(t, first.api, second.api).Submit(t.Context(),
		client.Job{Tasks: []client.Task{{Function: "sleep", Payload: []byte("1h")}}})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Cancel(t.Context())
	killed, survivor := first, second
	if r.Handle().Owner == second.api {
		killed, survivor = second, first
	}
	frame := func() string {
		res, err := http.Get("http://" + adminAddr(t, survivor.process) + "/ui/api/frame")
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	frame() // from now on a frame comes each second
	killed.sendSignal(syscall.SIGKILL)
	killed.awaitEnd()
	shown, frames := frame(), 0
	waitUntil(t, func() error {
		text := frame()
		if text != shown {
			shown, frames = text, frames+1
		}
		for _, sign := range []string{"connection refused", "gone, as gossip tells"} {
			if strings.Contains(text, killed.api) && strings.Contains(text, sign) {
				return nil
			}
		}
		return errors.New("the page does not name the frontend that was killed")
	})
	if frames > 2 {
		t.Errorf("frame %d after the kill names the frontend that was killed, want frame 2 or earlier", frames)
	}
	c := newClient(t, survivor.api)
	waitUntil(t, func() error {
		page, err := c.Jobs(t.Context(), admin.JobFilter{Running: true}, "", 0)
		if err != nil || len(page.Jobs) != 1 ||
			page.Jobs[0].Handle != (client.Handle{Job: r.Handle().Job, Owner: survivor.api}) {
			return fmt.Errorf("jobs: %+v, %v", page, err)
		}
		return nil
	})
}
