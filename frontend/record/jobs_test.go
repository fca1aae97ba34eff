package record

import (
	"encoding/binary"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"
	"unsafe"

	"pgregory.net/rapid"

	"github.com/phoebe-sched/phoebe/probe"
)

func jobID(n uint64) (id probe.JobID) {
	binary.BigEndian.PutUint64(id[:], n)
	return id
}

func addAttempt(r *Attempts, a Attempt) uint64 {
	room, n := r.NewAttempt()
	*room = a
	return n
}

// Collect finds all attempts of a job in order, or none, whatever else was remembered meanwhile.
func TestAttempts(t *testing.T) {
	var r Attempts
	type job struct {
		last uint64
		n    int
	}
	rng := rand.New(rand.NewPCG(1, 2))
	jobs := make([]job, 5000)
	for range 3 * maxAttempts {
		k := rng.IntN(len(jobs))
		if rng.IntN(3) > 0 {
			k = rng.IntN(10) // some jobs have many tasks
		}
		j := &jobs[k]
		j.last = addAttempt(&r, Attempt{Stage: int32(k), Task: probe.TaskIndex(j.n), Previous: j.last})
		j.n++
	}
	forgotten := 0
	for k, j := range jobs {
		list := make([]Attempt, j.n)
		rest := j.n / 3 // in two parts
		next, ok := r.Collect(list[rest:], j.last)
		if ok {
			next, ok = r.Collect(list[:rest], next)
		}
		if !ok {
			forgotten++
			continue
		}
		if next != 0 {
			t.Fatalf("before the first attempt of job %d there is number %d", k, next)
		}
		for i, a := range list {
			if int(a.Stage) != k || int(a.Task) != i {
				t.Fatalf("attempt %d of job %d is %v", i, k, a)
			}
		}
	}
	if forgotten < 10 {
		t.Errorf("%d jobs are forgotten", forgotten)
	}
	// The latest jobs are all there.
	last := uint64(0)
	for i := range maxAttempts - 1 {
		last = addAttempt(&r, Attempt{Task: probe.TaskIndex(i), Previous: last})
	}
	if _, ok := r.Collect(make([]Attempt, maxAttempts-1), last); !ok {
		t.Error("a job that fits is forgotten")
	}
	if _, ok := r.Collect(make([]Attempt, maxAttempts), addAttempt(&r, Attempt{Previous: last})); !ok {
		t.Error("a job that just fits is forgotten")
	}
	if size := len(r.chunks) * attemptsPerChunk * int(unsafe.Sizeof(Attempt{})); size > MaxAttemptsBytes {
		t.Errorf("they take %d bytes", size)
	}
}

// Of several kept jobs with an id, the latest is found, with all its reasons.
func TestFindJob(t *testing.T) {
	k := NewJobs()
	for i, x := range []struct {
		id     uint64
		tenant string
		why    Why
	}{{1, "old", Failed}, {2, "other", Slow}, {1, "new", Slow | Sampled}} {
		k.Keep(Chosen{Job: &Job{ID: jobID(x.id), Tenant: x.tenant, Came: start.Add(time.Duration(i))}, Why: x.why})
	}
	if j, found := k.Find(jobID(1)); !found || j.Tenant != "new" || j.Why != Slow|Sampled {
		t.Errorf("%+v, %v", j, found)
	}
	if j, found := k.Find(jobID(3)); found {
		t.Errorf("found %+v", j)
	}
}

// The kept jobs are the failed jobs, the slowest jobs, and a sample of all.
func TestJobs(t *testing.T) {
	c, k, now := NewChoice(rand.New(rand.NewPCG(1, 2))), NewJobs(), start
	end := func(j *Job) {
		if chosen := c.Decide(now, j); chosen.Why != 0 {
			chosen.Trace = NewTrace(make([]Attempt, 3), nil, nil)
			k.Keep(chosen)
		}
	}
	const n = 20_000
	for i := range n {
		j := &Job{ID: jobID(uint64(i)), Policy: "phoebe", Came: now, Response: time.Duration(i%n) * time.Microsecond}
		if i%1000 == 7 {
			j.Failed = 1
		}
		if i%500 == 3 {
			j.Response = time.Hour + time.Duration(i)
		}
		end(j)
		now = now.Add(time.Minute / (n + 1))
	}
	failed, slow, all := 0, 0, map[probe.JobID]bool{}
	for _, j := range LatestFirst(k.Copy()) {
		if all[j.ID] {
			t.Errorf("job %v is there twice", j.ID)
		}
		all[j.ID] = true
		if j.Failed > 0 {
			failed++
		}
		if j.Response >= time.Hour {
			slow++
		}
		if (j.Why&Failed != 0) != (j.Failed > 0) || j.Why&(Failed|Slow|Sampled) == 0 || j.Response >= time.Hour &&
			j.Why&Slow == 0 {
			t.Errorf("a job with %d failures that took %v is kept for %b", j.Failed, j.Response, j.Why)
		}
		if j.Trace.N != 3 {
			t.Errorf("a job has %d attempts", j.Trace.N)
		}
	}
	if failed != n/1000 || slow != n/500 || len(k.slow.jobs) != perMinute || len(k.sample.jobs) != perMinute {
		t.Errorf("%d failed, %d slow ones, %d of the slowest, a sample of %d", failed, slow, len(k.slow.jobs),
			len(k.sample.jobs))
	}
	early := 0
	for _, j := range k.sample.jobs {
		if binary.BigEndian.Uint64(j.ID[:]) < n/2 {
			early++
		}
	}
	if early < 15 || early > 49 {
		t.Errorf("in a sample of %d, %d jobs are of the first half", perMinute, early)
	}
	huge := c.Decide(now, &Job{Failed: 1})
	huge.Trace = NewTrace(make([]Attempt, MaxKeptBytes/4/attemptFields+1), nil, nil)
	if k.Keep(huge); k.Lost() != 1 {
		t.Errorf("%d are lost", k.Lost())
	}
	// A minute later, or earlier, a new list of slowest jobs begins.
	for _, d := range []time.Duration{2 * time.Minute, -10 * time.Minute} {
		before := len(k.slow.jobs)
		now = now.Add(d)
		end(&Job{Policy: "phoebe", Response: 1})
		if len(k.slow.jobs) != before+1 {
			t.Errorf("after %v, the slowest job of the minute is not kept", d)
		}
	}
}

// heapBytes returns the bytes in use.
func heapBytes() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// Memory stays within its bound, however many jobs fail and however large they are.
func TestJobsMemory(t *testing.T) {
	before := heapBytes()
	rng := rand.New(rand.NewPCG(3, 4))
	c, k, now := NewChoice(rand.New(rand.NewPCG(1, 2))), NewJobs(), start
	for i := range 100_000 {
		j := &Job{ID: jobID(uint64(i)), Policy: string(rune('a' + i%20)), Response: time.Duration(rng.Int64N(1e9)),
			Failed: i % 2}
		n := 1 + rng.IntN(50)
		if i%1000 == 0 {
			n = 20_000
		}
		if chosen := c.Decide(now, j); chosen.Why != 0 {
			attempts := make([]Attempt, n)
			for i := range attempts {
				attempts[i] = Attempt{Task: probe.TaskIndex(i), Worker: uint32(i % 10), Released: 1e6,
					Ends: [Phases]time.Duration{1e6, 2e6, 3e6, 4e6, 5e6, 6e6, 7e6}}
			}
			chosen.Trace = NewTrace(attempts, nil, map[uint32]string{0: "worker-0", 1: "worker-1", 9: "worker-9"})
			k.Keep(chosen)
		}
		now = now.Add(20 * time.Millisecond)
	}
	sum := 0
	for _, s := range []*jobList{&k.failed, &k.slow, &k.sample} {
		bytes := 0
		for _, j := range s.jobs {
			bytes += j.jobBytes()
		}
		if bytes != s.bytes || bytes > s.maxBytes {
			t.Errorf("jobs take %d bytes, are counted as %d, may take %d", bytes, s.bytes, s.maxBytes)
		}
		sum += bytes
	}
	if used := heapBytes() - before; used > MaxKeptBytes*11/10 || sum < MaxKeptBytes*3/4 {
		t.Errorf("%d bytes are used, %d are counted, %d may be", used, sum, MaxKeptBytes)
	}
	runtime.KeepAlive(k)
}

// Memory stays within its bound, also while large jobs of a single minute compete for their places.
func TestJobsMemoryOfAMinute(t *testing.T) {
	before := heapBytes()
	c, k := NewChoice(rand.New(rand.NewPCG(1, 2))), NewJobs()
	attempts := make([]Attempt, 60_000)
	for i := range 4 * perMinute {
		chosen := c.Decide(start, &Job{ID: jobID(uint64(i)), Policy: "phoebe", Response: time.Duration(i)})
		if chosen.Why != 0 {
			chosen.Trace = NewTrace(attempts, nil, nil)
			k.Keep(chosen)
		}
	}
	if len(k.slow.jobs) < 2 || len(k.sample.jobs) < 2 || k.Lost() > 0 {
		t.Fatalf("%d slow and %d sampled jobs are kept, %d are lost", len(k.slow.jobs), len(k.sample.jobs), k.Lost())
	}
	if used := heapBytes() - before - int64(len(attempts))*int64(unsafe.Sizeof(Attempt{})); used > MaxKeptBytes*11/10 {
		t.Errorf("%d bytes are used, %d may be", used, MaxKeptBytes)
	}
	runtime.KeepAlive(attempts)
	runtime.KeepAlive(c)
	runtime.KeepAlive(k)
}

// pastJob is the history of a job.
type pastJob struct {
	Response time.Duration
	After    [][]int
	Attempts []Attempt
}

// drawPast draws a job: tasks in stages, at moments that may contradict each other, as readings of two clocks do.
func drawPast(t *rapid.T) *pastJob {
	j := &pastJob{Response: time.Duration(rapid.Int64Range(0, int64(3*time.Hour)).Draw(t, "response"))}
	stages := rapid.IntRange(0, 5).Draw(t, "stages")
	for i := range stages {
		var after []int
		for k := range i {
			if rapid.Bool().Draw(t, "after") {
				after = append(after, k)
			}
		}
		j.After = append(j.After, after)
	}
	moment := rapid.Int64Range(-1000, int64(3*time.Hour))
	for range rapid.IntRange(0, 12).Draw(t, "tasks") {
		a := Attempt{Stage: int32(rapid.IntRange(0, max(stages-1, 0)).Draw(t, "stage"))}
		a.Released, a.Fetched = time.Duration(moment.Draw(t, "released")), time.Duration(moment.Draw(t, "fetched"))
		a.Expected = time.Duration(moment.Draw(t, "expected"))
		ends := make([]time.Duration, Phases)
		for i := range ends {
			ends[i] = time.Duration(moment.Draw(t, "end"))
		}
		if rapid.IntRange(0, 3).Draw(t, "in order") > 0 {
			slices.Sort(ends)
		}
		if rapid.Bool().Draw(t, "told") {
			for i := range a.Waits {
				a.Waits[i] = rapid.Uint32().Draw(t, "waits")
			}
		}
		if rapid.IntRange(0, 5).Draw(t, "unknown") == 0 {
			clear(ends[:Delivery])
		}
		copy(a.Ends[:], ends)
		j.Attempts = append(j.Attempts, a)
	}
	return j
}

// Blame adds up to the response for any history, and no part is negative.
func TestBlameAddsUp(t *testing.T) {
	check := func(t *rapid.T) {
		j := drawPast(t)
		sum := time.Duration(0)
		b := NewBlame(j.After, j.Response, j.Attempts)
		for kind, d := range b {
			if d < 0 {
				t.Fatalf("%v is blamed for %v", Kind(kind), d)
			}
			sum += d
		}
		if sum != j.Response {
			t.Fatalf("%v adds up to %v of %v", b, sum, j.Response)
		}
	}
	for range 100 { // rapid draws 100 at a time
		rapid.Check(t, check)
	}
}

// The critical path follows the last ends, stage by stage.
func TestBlame(t *testing.T) {
	ends := func(moments ...time.Duration) (e [Phases]time.Duration) {
		for i := range moments {
			e[i] = moments[i] * time.Millisecond
		}
		return e
	}
	j := &pastJob{
		Response: 100 * time.Millisecond, After: [][]int{nil, nil, {0, 1}},
		Attempts: []Attempt{
			{Stage: 0, Ends: ends(1, 2, 3, 4, 5, 6, 7)},
			{Stage: 1, Ends: ends(1, 3, 6, 10, 15, 21, 28), Fetched: 2 * time.Millisecond,
				Expected: 4 * time.Millisecond},
			{Stage: 2, Released: 30 * time.Millisecond, Ends: ends(31, 32, 33, 34, 35, 90, 99)},
			{Stage: 2, Released: 30 * time.Millisecond, Ends: ends(31, 32, 33, 34, 35, 36, 37)},
		},
	}
	want := Blame{
		Kind(Sampling): 2, Kind(Link): 3, Kind(Queue): 2, Kind(Binding): 5, Kind(Launch): 6, Kind(Run): 59, Excess: 2,
		Kind(Delivery): 17, Barrier: 2, Fetch: 2,
	}
	for i := range want {
		want[i] *= time.Millisecond
	}
	if got := NewBlame(j.After, j.Response, j.Attempts); got != want {
		t.Errorf("%v, want %v", got, want)
	}
	reported := &pastJob{Response: 9 * time.Millisecond, Attempts: []Attempt{{
		Ends: ends(1, 1, 5, 6, 7, 8, 9), Fetched: time.Millisecond, Waits: [waitKinds]uint32{1000, 0, 2000, 2000, 5000},
	}}}
	got := NewBlame(nil, reported.Response, reported.Attempts)
	for kind, us := range map[Kind]int{OwnTenant: 300, OtherTenants: 0, LongTasks: 600, ClosedShare: 600,
		IdleSlot: 1500, Fetch: 1000, Kind(Queue): 0} {
		if got[kind] != time.Duration(us)*time.Microsecond {
			t.Errorf("%v is blamed for %v, want %d us", kind, got[kind], us)
		}
	}
	later := &pastJob{Response: 9 * time.Millisecond,
		Attempts: []Attempt{{Ends: ends(1, 1, 5, 6, 7, 8, 9), Waits: [waitKinds]uint32{0, 0, 500}}}}
	if got := NewBlame(nil, later.Response, later.Attempts); got[LongTasks] != 500*tick ||
		got[Queue] != 4*time.Millisecond-500*tick {
		t.Errorf("a task that had its turn after others of its job: %v", got)
	}
	again := &pastJob{Response: 9 * time.Millisecond, Attempts: []Attempt{{
		Again: 3 * time.Millisecond, Ends: ends(4, 4, 6, 6, 6, 8, 9), Waits: [waitKinds]uint32{0, 0, 3000}}}}
	if got := NewBlame(nil, again.Response, again.Attempts); got[InVain] != 3*time.Millisecond ||
		got[Sampling] != time.Millisecond || got[LongTasks] != 2*time.Millisecond || got[Queue] != 0 {
		t.Errorf("a task with an attempt in vain: %v", got)
	}
	held := &pastJob{Response: 9 * time.Millisecond, Attempts: []Attempt{{Held: 2000, Ends: ends(4, 5, 6, 6, 6, 8, 9)}}}
	if got := NewBlame(nil, held.Response, held.Attempts); got[Maximum] != 2000*tick ||
		got[Sampling] != 4*time.Millisecond-2000*tick {
		t.Errorf("a task held by its tenant's maximum: %v", got)
	}
	lost := &pastJob{Response: time.Second,
		Attempts: []Attempt{{Ends: [Phases]time.Duration{Delivery: 900 * time.Millisecond}}}}
	if got := NewBlame(nil, lost.Response, lost.Attempts); got[Outside] != 900*time.Millisecond ||
		got[Delivery] != 100*time.Millisecond {
		t.Errorf("a task that was lost: %v", got)
	}
	cancelled := &pastJob{Response: 9 * time.Millisecond, After: [][]int{nil, {0}, {1}}, Attempts: []Attempt{
		{Ends: ends(1, 1, 1, 1, 1, 5, 6)},
		{Stage: 2, Released: 9 * time.Millisecond, Ends: ends(0, 0, 0, 0, 0, 0, 9)}, // never, so at the end
		{Stage: 1, Released: 6 * time.Millisecond, Ends: ends(0, 0, 0, 0, 0, 0, 9)},
	}}
	if got := NewBlame(cancelled.After, cancelled.Response, cancelled.Attempts); got[Outside] != 3*time.Millisecond ||
		got[Kind(Run)] != 4*time.Millisecond {
		t.Errorf("a job that was cancelled in its second stage: %v", got)
	}
	cancelled.Attempts[2].Again = 8 * time.Millisecond // the end of an attempt without an outcome
	if got := NewBlame(cancelled.After, cancelled.Response, cancelled.Attempts); got[InVain] != 2*time.Millisecond ||
		got[Outside] != time.Millisecond {
		t.Errorf("a job that was cancelled while a task ran: %v", got)
	}
	both := &pastJob{Response: 9 * time.Millisecond,
		Attempts: []Attempt{{Ends: ends(1, 1, 1, 1, 1, 3, 9)}, {Ends: ends(1, 1, 1, 1, 1, 8, 9)}}}
	if got := NewBlame(nil, both.Response, both.Attempts); got[Kind(Run)] != 7*time.Millisecond {
		t.Errorf("two tasks whose outcomes came at once: %v", got)
	}
	for k := range Kind(Kinds) {
		if k.String() == "" {
			t.Errorf("kind %d has no name", k)
		}
	}
}
