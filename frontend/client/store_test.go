package client_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/phoebe-sched/phoebe/frontend/client"
	"github.com/phoebe-sched/phoebe/frontend/client/local"
	fserve "github.com/phoebe-sched/phoebe/frontend/serve"
	wexec "github.com/phoebe-sched/phoebe/worker/exec"
)

// outcomeFile stores outcomes in a file, one in each line.
type outcomeFile struct{ *os.File }

// storedOutcome is a line of an outcomeFile.
type storedOutcome struct {
	Task   int
	Result []byte
}

// openOutcomes opens or creates an outcomeFile, and returns the tasks whose outcomes are there. If the program was
// killed while it stored outcomes, the last line is incomplete: openOutcomes drops the line.
func openOutcomes(name string) (f outcomeFile, stored []int, err error) {
	data, err := os.ReadFile(name)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return f, nil, err
	}
	data = data[:bytes.LastIndexByte(data, '\n')+1]
	for line := range bytes.Lines(data) {
		var o storedOutcome
		if err := json.Unmarshal(line, &o); err != nil {
			return f, nil, err
		}
		stored = append(stored, o.Task)
	}
	if f.File, err = os.OpenFile(name, os.O_WRONLY|os.O_CREATE, 0o600); err != nil {
		return f, nil, err
	}
	if err = f.Truncate(int64(len(data))); err == nil {
		_, err = f.Seek(int64(len(data)), 0)
	}
	return f, stored, err
}

// storeOutcomes is a client.StoreFunc. A single write makes outcomes durable, or none.
func (f outcomeFile) storeOutcomes(_ context.Context, _ string, outcomes []client.Outcome) error {
	var lines []byte
	for _, o := range outcomes {
		if o.Err != nil {
			return o.Err
		}
		line, err := json.Marshal(storedOutcome{o.Task, o.Result})
		if err != nil {
			return err
		}
		lines = append(append(lines, line...), '\n')
	}
	if _, err := f.Write(lines); err != nil {
		return err
	}
	return f.Sync()
}

// runStored runs a job whose outcomes go to a file. After a crash, runStored goes on where the last run stopped.
func runStored(ctx context.Context, frontends []string, file string, job client.Job) error {
	f, stored, err := openOutcomes(file)
	if err != nil {
		return err
	}
	defer f.Close()
	job.Stored = stored
	c, err := client.New(frontends, client.WithStore(f.storeOutcomes))
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = c.Run(ctx, job)
	return err
}

// A program stores each outcome before the cluster may forget the outcome. The second run finds all outcomes in the
// file, and runs nothing.
func ExampleWithStore() {
	cluster, err := local.Start(local.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer cluster.Close()
	dir, err := os.MkdirTemp("", "outcomes")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)

	file := filepath.Join(dir, "outcomes")
	job := client.Job{Key: "order 18", Grace: time.Minute}
	for i := range 3 {
		job.Tasks = append(job.Tasks, client.Task{Function: "echo", Payload: fmt.Append(nil, i)})
	}
	for range 2 {
		if err := runStored(context.Background(), cluster.Frontends(), file, job); err != nil {
			log.Fatal(err)
		}
		lines, err := os.ReadFile(file)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(bytes.Count(lines, []byte("\n")), "outcomes")
	}
	// Output:
	// 3 outcomes
	// 3 outcomes
}

// While the store has an outcome, the frontend still keeps the outcome, and a lost frontend's job stays where it was.
func TestStoreComesFirst(t *testing.T) {
	h, cluster := startHeld(t, local.Config{Frontends: 2})
	inStore, goOn := make(chan int), make(chan struct{})
	store := func(_ context.Context, _ string, outcomes []client.Outcome) error {
		for _, o := range outcomes {
			select {
			case inStore <- o.Task:
				<-goOn
			case <-h.release: // the outcomes after the first
			}
		}
		return nil
	}
	tasks := newWork("a", "hold")
	c := connectClient(t, cluster.Frontends(), client.WithStore(store))
	running, err := c.Submit(t.Context(), client.Job{Tasks: tasks})
	if err != nil {
		t.Fatal(err)
	}
	if task := <-inStore; task != 0 {
		t.Fatalf("task %d is stored first", task)
	}
	other := connectClient(t, cluster.Frontends(), client.WithRetryFor(2*time.Second))
	follower, err := other.Attach(t.Context(), running.Handle())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if o, err := follower.Next(ctx); err != nil || o.Task != 0 {
		t.Fatalf("the frontend gave %v, %v", o, err)
	}
	if err := cluster.StopFrontend(slices.Index(cluster.Frontends(), running.Handle().Owner)); err != nil {
		t.Fatal(err)
	}
	if _, err := follower.Wait(); !errors.As(err, new(*client.AbandonedError)) {
		t.Errorf("the job moved before its outcome was stored: %v", err)
	}
	close(h.release)
	close(goOn)
	waitAll(t, "the submitter", running, tasks)
	if n := h.countRuns(running.Handle().Job); n != 2 {
		t.Errorf("2 tasks ran %d times", n)
	}
}

// If the store fails, the job ends for the client, and goes on at its frontend. A second client gets the outcomes that
// the store lacks, and no task runs again.
func TestStoreFails(t *testing.T) {
	h, cluster := startHeld(t, local.Config{})
	errFull := errors.New("the disk is full")
	var stored []int
	store := func(_ context.Context, _ string, outcomes []client.Outcome) error {
		for _, o := range outcomes {
			if len(stored) > 0 {
				return errFull
			}
			stored = append(stored, o.Task)
		}
		return nil
	}
	job := client.Job{Key: "order", Tasks: newWork("a", "hold", "hold")}
	running, err := connectClient(t, cluster.Frontends(), client.WithStore(store)).Submit(t.Context(), job)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := running.Next(t.Context()); err != nil {
		t.Fatal(err)
	}
	close(h.release)
	outcomes, err := running.Wait()
	if unfinished, ok := errors.AsType[*client.UnfinishedError](err); !ok || !errors.Is(err, errFull) ||
		!errors.As(err, new(*client.StoreError)) || len(unfinished.Tasks) != 2 || len(outcomes) != 2 {
		t.Errorf("%v, %v", outcomes, err)
	}

	job.Stored = stored
	outcomes, err = connectClient(t, cluster.Frontends()).Run(t.Context(), job)
	if err != nil || len(outcomes) != 2 || outcomes[0].Task != 1 || outcomes[1].Task != 2 {
		t.Errorf("the second client got %v, %v", outcomes, err)
	}
	if n := h.countRuns(running.Handle().Job); n != 3 {
		t.Errorf("3 tasks ran %d times", n)
	}

	c := connectClient(t, cluster.Frontends())
	for _, bad := range []client.Job{
		{Tasks: job.Tasks, Stored: []int{0}},
		{Tasks: job.Tasks, Stored: []int{3}, Key: "order"},
		{Tasks: []client.Task{{Stage: "s", Function: "work"}}, Stored: []int{0}, Key: "x",
			Stages: []client.Stage{{Name: "s"}}},
	} {
		if _, err := c.Run(t.Context(), bad); !errors.As(err, new(*client.RefusedError)) {
			t.Errorf("stored %v: %v", bad.Stored, err)
		}
	}
}

// storeEnv holds the arguments of the program that TestStoreUnderKills kills.
const storeEnv = "PHOEBE_STORE_TEST"

// storeJob is the job of TestStoreUnderKills.
func storeJob() client.Job {
	job := client.Job{Key: "kills", Grace: time.Minute}
	for i := range 300 {
		job.Tasks = append(job.Tasks, client.Task{Function: "count", Payload: fmt.Append(nil, i)})
	}
	return job
}

// A program is killed again and again, and so are a frontend and a worker. Each outcome is stored once, and no task
// runs again after its outcome was stored.
func TestStoreUnderKills(t *testing.T) {
	if args := os.Getenv(storeEnv); args != "" { // the program that is killed
		file, frontends, _ := strings.Cut(args, " ")
		if err := runStored(t.Context(), strings.Fields(frontends), file, storeJob()); err != nil {
			t.Fatal(err)
		}
		return
	}
	job := storeJob()
	type start struct {
		task string
		at   time.Time
	}
	starts := make(chan start, 100*len(job.Tasks))
	registry := wexec.NewRegistry()
	if err := registry.Register("count", func(ctx context.Context, payload []byte) ([]byte, error) {
		starts <- start{string(payload), time.Now()}
		select {
		case <-time.After(10 * time.Millisecond): // the work
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		return payload, nil
	}); err != nil {
		t.Fatal(err)
	}
	cluster := startCluster(t, local.Config{Frontends: 3, Workers: 3, Slots: 2, Registry: registry,
		Frontend: func(_ int, c *fserve.Config) { c.Core.Copies = 0 }})
	file := filepath.Join(t.TempDir(), "outcomes")
	storedAt := map[string]time.Time{} // by task, not before the outcome was stored
	noteStored := func() {
		data, _ := os.ReadFile(file)
		now := time.Now()
		for line := range bytes.Lines(data) {
			var o storedOutcome
			if json.Unmarshal(line, &o) == nil && storedAt[string(o.Result)].IsZero() {
				storedAt[string(o.Result)] = now
			}
		}
	}
	for kill := range 4 {
		program := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestStoreUnderKills$")
		program.Env = append(os.Environ(), storeEnv+"="+file+" "+strings.Join(cluster.Frontends(), " "))
		var out bytes.Buffer
		program.Stdout, program.Stderr = &out, &out
		if err := program.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- program.Wait() }()
		if kill == 3 { // the last run goes on to the end
			if err := <-ended; err != nil {
				t.Fatalf("%v: %s", err, out.Bytes())
			}
			break
		}
		for before := len(storedAt); len(storedAt) < before+20; {
			select {
			case <-ended:
				t.Fatalf("the program ended by itself: %s", out.Bytes())
			case <-time.After(time.Millisecond):
				noteStored()
			}
		}
		switch kill {
		case 1:
			if err := cluster.StopFrontend(0); err != nil {
				t.Error(err)
			}
		case 2:
			if err := cluster.StopWorker(0); err != nil {
				t.Error(err)
			}
		}
		if err := program.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		<-ended
		noteStored()
	}
	for len(starts) > 0 {
		s := <-starts
		if at := storedAt[s.task]; !at.IsZero() && s.at.After(at) {
			t.Errorf("task %s started %v after its outcome was stored", s.task, s.at.Sub(at))
		}
	}
	f, tasks, err := openOutcomes(file)
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	if slices.Sort(tasks); len(tasks) != len(job.Tasks) || len(slices.Compact(tasks)) != len(job.Tasks) {
		t.Errorf("%d tasks have %d stored outcomes: %v", len(job.Tasks), len(tasks), tasks)
	}
}
