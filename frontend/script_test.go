package frontend

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/phoebe-sched/phoebe/frontend/estimate"
	"github.com/phoebe-sched/phoebe/frontend/tenants"
	"github.com/phoebe-sched/phoebe/frontend/view"
	"github.com/phoebe-sched/phoebe/probe"
	"github.com/phoebe-sched/phoebe/probe/script"
)

// TestScripts plays the stories in testdata. A story is written in the words of [script], and in these words:
//
//	story adrift=1s ...            a new frontend; newStory lists the settings
//	w1 up slots=2 labels=zone=a    a link to worker w1 is made, or made again; "new": to another process
//	w1 listed, w1 gone off         w1 is on the list of workers, and is taken off
//	w1 lost, w1 gone               the link breaks; the worker is given up
//	w1 ready 3.1 free=2            message from w1; without more words its load is free=0 queued=0
//	w1 finished a1 ok more         the next message of w1 comes in the same frame
//	w1 answers queued=3            w1 answers the probe for its load
//	w1 tells wait=5s               w1 sends its load with a matrix: every task would wait for 5 s, or would "never"
//	                               fit; short=0s: short tasks would not wait
//	w1 pong expects=a1+5s          w1 sends a Pong, and expects a1 to wait for 5 s more
//	... progress=a1=30/5s pace=2   a1 has done 30 % and goes on for 5 s; long tasks take twice the expected time
//	... uses=a1/5s/2s              up to 5 s of its run, process a1 has used 2 s of CPU time
//	w1 row 3 age=1s wait=5s ...    gossip about w1: sequence number 3
//	submit x tasks=3 policy=...    3 equal tasks; 1.hosts=h1 is for task 1 only; once: may start only once
//	... gen=2 age=5s               the client has turned to two frontends before, first 5 s ago;
//	                               resubmitted: gen=1 age=1s
//	delivered a1, dropped a1       the outcome of a1 has reached the client; nobody knows whether it has
//	terms *:2:0 a/b:0:9:5:4        what tenants may have: tokens, pending tasks, jobs in a second, and slots
//	others f1:a:2:5 f2             the other frontends; f1 uses 2 slots of tenant a, and wants 5
//	lessons a:f:5s,7s              another frontend has seen runs of 5 and 7 s of tenant a's function f
//	state -> a=2+1/9               tenant a uses 2 slots, 1 more as spare, and wants 9
//	submit x open tasks=0          tasks may be added until "last"
//	extend x from=3 tasks=2 last   2 tasks are added to the first 3; stages=c<a: and a stage
//	outdated x                     the client comes back with more of x
//	cancel-tasks x 0 2             tasks 0 and 2 are no longer wanted
//	unread x full                  the client has many results to fetch; without "full": no longer
//	busy message=10us share=0.9    the price of messages; may-wait: up to LingerFor, for further messages
//	w1 up old                      w1 is of version 0.1.0
//	w1 finished a1 ok out=0:9,1:file  a1 has left 9 bytes in partition 0, and a file in partition 1
//	submit x large                 results may be files: a1(x.0)+large; w1 finished a1 ok out=65535:file is a file
//	w1 finished a1 failed retry=never  the function says: do not try again; or elsewhere
//	submit x ... common.a=9        tasks of stage a have 9 bytes in common, shown as a1(x.0)+common1
//	... 1.in=inline/a/0:7          outputs of stage a in partition 0 are passed, 7 MB by estimate; or file/a/0
//	... along.b=a 2.part=1         tasks of b wait only for their own partition of a; task 2 is number 1 of its
//	                               stage; 2.along=0,3: for partitions 0 and 3
//	... made.a=0,w1,0:9            task 0 of stage a is left out, and has left 9 bytes in partition 0 at w1
//	... stages=a,b<a,c<a+b         stages, b after a and c after both; 2.stage=1 is the stage of task 2
//
// Attempts of the frontend are a1, a2, ..., of others b7, and are shown with the task: a1(x.0). Workers are sampled
// at random. So a job in a story is worth as many probes as there are workers, and messages to several workers are
// shown in the order of workers.
func TestScripts(t *testing.T) { script.Run(t, newStory) }

// story is a core, and the workers named in the script.
type story struct {
	core         *Core
	workers      map[string]Worker
	names        []string
	welcomes     map[string]probe.Welcome
	incarnations uint64
	receipts     map[probe.AttemptID]Receipt // receipts of outcomes so far
	frame        []probe.Msg                 // messages so far of an unfinished frame
}

func newStory(l *script.Line) *script.Story[Event, Action] {
	cfg := Config{
		ID: 'a', MaxTasksPerJob: l.Number("tasks", 0), MaxPayload: l.Number("payload", 0),
		MaxPending:  l.Number("pending", 0),
		PoisonAfter: l.Number("poison", 0), MaxWait: l.Duration("wait"), AdriftFor: l.Duration("adrift"),
		ClaimFor: l.Duration("claim"), StrandedFor: l.Duration("stranded"),
		SyncEvery: cmp.Or(l.Duration("sync"), time.Hour),
		Estimate:  estimate.Config{Jitter: -1}, Copies: l.Float("copies"),
	}
	var err error
	cfg.Matcher, err = estimate.ParseMatcher(cmp.Or(l.Text("matcher"), "stable"))
	l.Fail(err)
	s := &story{core: New(cfg, rand.New(rand.NewPCG(1, 2))), workers: map[string]Worker{},
		welcomes: map[string]probe.Welcome{}, receipts: map[probe.AttemptID]Receipt{}}
	return &script.Story[Event, Action]{Core: s.core, Wake: Wake{}, Event: s.readEvent, Show: s.showActions,
		State: s.showState,
		Width: 40}
}

// readTerms reads a tenant from each word: PATH:TOKENS:QUEUE:RATE:MAX, 0: nothing is said. Words may end early.
func readTerms(l *script.Line) *tenants.File {
	var all []tenants.Entry
	for l.WordsLeft() > 0 {
		parts := strings.Split(l.Word(), ":")
		e := tenants.Entry{Path: parts[0]}
		for i, text := range parts[1:] {
			n, err := strconv.Atoi(text)
			l.Fail(err)
			*[]*int{&e.Tokens, &e.Queue, &e.Rate, &e.Max}[i] = n
		}
		all = append(all, e)
	}
	return tenants.New(1, nil, all)
}

// readOthers reads the other frontends, and what each uses and wants of a tenant: NAME or NAME:TENANT:USE:WANT.
func readOthers(l *script.Line) Others {
	ev := Others{Self: "f0", Needs: map[string][]tenants.Need{}}
	for l.WordsLeft() > 0 {
		parts := strings.Split(l.Word(), ":")
		name := parts[0]
		if ev.Members = append(ev.Members, name); len(parts) == 4 {
			use := int64(l.Int(parts[2])) * tenants.Slot
			ev.Needs[name] = []tenants.Need{{Path: parts[1], Use: use, Want: int64(l.Int(parts[3])) * tenants.Slot,
				Most: tenants.Slot, Quota: tenants.Quota{Regular: use, All: use}}}
		}
	}
	return ev
}

// readLessons reads a lesson from each word: TENANT:FUNCTION:RUN,RUN...
func readLessons(l *script.Line) (ev Lessons) {
	for l.WordsLeft() > 0 {
		parts := strings.Split(l.Word(), ":")
		x := &view.Lesson{Tenant: parts[0], Name: parts[1], Made: 1_000_000} // when stories begin
		for text := range strings.SplitSeq(parts[2], ",") {
			run, err := time.ParseDuration(text)
			l.Fail(err)
			x.Runs, x.Longest = x.Runs+1, max(x.Longest, run)
			x.Samples = append(x.Samples, estimate.RunSample{Work: run})
		}
		ev.List = append(ev.List, x)
	}
	return ev
}

func showWeights(ws []uint32) string {
	if ws == nil {
		return ""
	}
	return " weights=" + strings.Trim(strings.ReplaceAll(fmt.Sprint(ws), " ", ","), "[]")
}

var size = script.Size

func (s *story) readEvent(l *script.Line) Event {
	switch word := l.Word(); word {
	case "leave":
		return Leave{}
	case "terms":
		return Terms{readTerms(l)}
	case "others":
		return readOthers(l)
	case "lessons":
		return readLessons(l)
	case "busy":
		return Busy{Message: l.Duration("message"), Share: l.Float("share")}
	case "cancel":
		return Cancel{Job: script.Job(l.Word()), Reason: "not wanted"}
	case "cancel-tasks":
		ev := CancelTasks{Job: script.Job(l.Word()), Reason: "not wanted"}
		for l.WordsLeft() > 0 {
			ev.Tasks = append(ev.Tasks, probe.TaskIndex(l.Int(l.Word())))
		}
		return ev
	case "unread":
		return Unread{Job: script.Job(l.Word()), Full: l.Flag("full")}
	case "submit":
		return Submit{Job: readJob(l)}
	case "outdated":
		return Outdated{Job: script.Job(l.Word())}
	case "extend":
		j := readJob(l)
		return Extend{Job: j.ID, From: l.Number("from", 0), Stages: j.Stages, Tasks: j.Tasks, Last: l.Flag("last")}
	case "delivered":
		return Delivered{Receipts: s.readReceipts(l)}
	case "dropped":
		return Dropped{Receipts: s.readReceipts(l)}
	default:
		return s.readWorkerEvent(l, word)
	}
}

// readReceipts reads attempts, and returns the receipts of their outcomes.
func (s *story) readReceipts(l *script.Line) (list []Receipt) {
	for l.WordsLeft() > 0 {
		id := l.Attempt(l.Word())
		r, ok := s.receipts[id]
		if !ok {
			l.Fail(fmt.Errorf("no outcome has come from %v with a receipt", id))
		}
		list = append(list, r)
	}
	return list
}

func showStanding(s probe.Standing) string {
	text := script.Optional(" age", s.Age)
	if s.Class != probe.Regular {
		text += " " + s.Class.String() + script.Optional(" due", s.Due) + script.Optional(" left", s.Left)
	}
	return text
}

// readJob reads a job with stages and tasks.
func readJob(l *script.Line) *Job {
	j := &Job{
		ID: script.Job(l.Word()), Tenant: l.Text("tenant"), Priority: int32(l.Number("prio", 0)),
		Deadline:   l.Duration("deadline"),
		ProbeRatio: l.Float("ratio"), Constraint: readConstraint(l, ""),
		Generation: probe.Generation(l.Number("gen", 0)),
		Age:        l.Duration("age"),
	}
	if l.Flag("resubmitted") {
		j.Generation, j.Age = 1, time.Second
	}
	j.Open, j.Had, j.Large = l.Flag("open"), l.Number("had", 0), l.Flag("large")
	j.Guarded = l.Flag("guarded")
	switch j.Due = l.Duration("due"); {
	case l.Flag("spare"):
		j.Class = Spare
	case l.Flag("regular"):
		j.Class = Regular
	}
	name, parts, _ := strings.Cut(l.Text("policy"), "+")
	var err error
	j.Mode, err = estimate.ParseMode(cmp.Or(l.Text("mode"), "auto"))
	l.Fail(err)
	j.Policy, err = ParsePolicy(cmp.Or(name, "phoebe"))
	l.Fail(err)
	for part := range strings.SplitSeq(parts, "+") {
		switch part {
		case "sticky":
			j.Policy.Sticky = true
		case "ride":
			j.Policy.RideAlong = true
		case "resample":
			j.Policy.Resample = true
		case "":
		default:
			l.Fail(fmt.Errorf("unknown part %q of a policy", part))
		}
	}
	for _, text := range l.List("stages") {
		s := Stage{}
		var after string
		s.Name, after, _ = strings.Cut(text, "<")
		if after != "" {
			s.After = strings.Split(after, "+")
		}
		s.Along = l.List("along." + s.Name)
		s.Common = make([]byte, l.Number("common."+s.Name, 0))
		if made := l.List("made." + s.Name); len(made) > 0 { // task, worker, outputs
			s.Made = []Made{{Task: probe.TaskIndex(l.Int(made[0])), Worker: made[1], Outputs: readOutputs(l, made[2:])}}
		}
		j.Stages = append(j.Stages, s)
	}
	all := Task{
		Function: cmp.Or(l.Text("f"), "f"), Estimate: l.Duration("est"), Retryable: !l.Flag("once"),
		Retries: l.Number("retries", 0), Backoff: l.Duration("backoff"),
		Timeout: l.Duration("timeout"), Payload: make([]byte, l.Number("payload", 0)), Class: l.Text("alike"),
	}
	if n := l.Number("size", 0); n != 0 {
		all.Demand = size(n)
	}
	own := l.List("only")
	for i := range l.Number("tasks", 1) {
		t := all
		t.Index = probe.TaskIndex(i)
		if len(own) > 0 { // a resubmission names the unfinished tasks
			if i >= len(own) {
				break
			}
			t.Index = probe.TaskIndex(l.Int(own[i]))
		}
		readTaskOptions(l, &t, fmt.Sprint(i, "."))
		j.Tasks = append(j.Tasks, t)
	}
	for i := range j.Stages { // spec.NAME: the task behind made.NAME
		s := &j.Stages[i]
		if prefix := "spec." + s.Name; l.Flag(prefix) {
			t := all
			readTaskOptions(l, &t, prefix+".")
			t.Index, t.Stage = s.Made[0].Task, int32(i)
			s.Made[0].Spec = &t
		}
	}
	return j
}

// readTaskOptions reads the words for a single task, behind a prefix such as "1.".
func readTaskOptions(l *script.Line, t *Task, prefix string) {
	t.Constraint = readConstraint(l, prefix)
	if n := l.Number(prefix+"size", 0); n != 0 {
		t.Demand = size(n)
	}
	if f := l.Text(prefix + "f"); f != "" {
		t.Function = f
	}
	if n := l.Number(prefix+"payload", -1); n >= 0 {
		t.Payload = make([]byte, n)
	}
	if l.Text(prefix+"once") != "" {
		t.Retryable = false
	}
	if n := l.Number(prefix+"index", -1); n >= 0 {
		t.Index = probe.TaskIndex(n)
	}
	t.Inputs, t.Files = readNeeds(l, prefix)
	t.Stage, t.Partition = int32(l.Number(prefix+"stage", 0)), int32(l.Number(prefix+"part", 0))
	for _, p := range l.List(prefix + "along") {
		t.Along = append(t.Along, int32(l.Int(p)))
	}
	if d := l.Duration(prefix + "est"); d != 0 {
		t.Estimate = d
	}
}

func readConstraint(l *script.Line, prefix string) Constraint {
	return Constraint{Labels: l.List(prefix + "labels"), Hosts: l.List(prefix + "hosts")}
}

// readNeeds reads in=h1+h2:500,rack/r2:100,stage/map:200,nowhere:7 (for each input: where, MB) and file=c0ffee:10
// (digest, MB).
func readNeeds(l *script.Line, prefix string) (ins []Input, files []probe.File) {
	for _, text := range l.List(prefix + "in") {
		where, mb, _ := strings.Cut(text, ":")
		in := Input{Bytes: int64(l.Int(mb)) * 1e6}
		way, rest, _ := strings.Cut(where, "/")
		if passed := passNames[way]; passed != NotPassed {
			stage, partition, _ := strings.Cut(rest, "/")
			in.Stage, in.Pass, in.Partition = stage, passed, int32(l.Int(partition))
		} else if stage, ok := strings.CutPrefix(where, "stage/"); ok {
			in.Stage = stage
		} else if rack, ok := strings.CutPrefix(where, "rack/"); ok {
			in.Copies = []estimate.Copy{{Rack: rack}}
		} else if where != "nowhere" {
			for host := range strings.SplitSeq(where, "+") {
				in.Copies = append(in.Copies, estimate.Copy{At: host})
			}
		}
		ins = append(ins, in)
	}
	for _, text := range l.List(prefix + "file") {
		name, mb, _ := strings.Cut(text, ":")
		files = append(files, probe.File{Digest: digestOf(name), URL: "http://origin/" + name,
			Bytes: uint64(l.Int(mb)) * 1e6})
	}
	return ins, files
}

var passNames = map[string]Pass{"inline": Inline, "file": File}

// readOutputs reads 0:100,1:file (partition, bytes that travel).
func readOutputs(l *script.Line, words []string) (list []probe.Output) {
	for _, text := range words {
		partition, bytes, _ := strings.Cut(text, ":")
		o := probe.Output{Partition: uint32(l.Int(partition))}
		if o.File = bytes == "file"; o.File {
			o.Bytes, o.Digest = 1e9, digestOf(text)
		} else {
			o.Data = make([]byte, l.Int(bytes))
			o.Bytes = uint64(len(o.Data))
		}
		list = append(list, o)
	}
	return list
}

// digestOf returns the digest of a file name in stories; "none" has no digest.
func digestOf(name string) (d [32]byte) {
	if name != "none" {
		copy(d[:], name)
	}
	return d
}

// readTaskName reads "x.0".
func readTaskName(l *script.Line, s string) (probe.JobID, probe.TaskIndex) {
	name, index, _ := strings.Cut(s, ".")
	return script.Job(name), probe.TaskIndex(l.Int(index))
}

func (s *story) readWorkerEvent(l *script.Line, name string) Event {
	verb := l.Word()
	if verb == "up" {
		key, known := s.workers[name]
		if !known {
			key = Worker(len(s.names))
			s.workers[name] = key
			s.names = append(s.names, name)
		}
		m, known := s.welcomes[name]
		if fresh := l.Flag("new"); !known || fresh {
			s.incarnations++
			m = probe.Welcome{
				Worker: name, Host: "h" + strings.TrimPrefix(name, "w"), Incarnation: s.incarnations,
				Capacity: size(l.Number("slots", 1)),
				Labels:   l.List("labels"), Functions: l.List("f"), Rack: l.Text("rack"),
				Open:  size(l.Number("open", 0)),
				Speed: uint32(1000 * l.Float("speed")), Cache: name + ":81", Speaks: probe.Spoken,
			}
			if l.Flag("old") {
				m.Speaks = probe.Dialect{Min: 7, Max: 7}
			}
			if l.Flag("nocache") {
				m.Cache = ""
			}
			if m.Functions == nil {
				m.Functions = []string{"f"}
			}
		}
		m.Draining = l.Flag("draining")
		s.welcomes[name] = m
		return WorkerUp{Worker: key, Welcome: m}
	}
	if verb == "listed" {
		key := Worker(len(s.names))
		s.workers[name] = key
		s.names = append(s.names, name)
		return Listed{Worker: key, Address: name + ":80"}
	}
	key, known := s.workers[name]
	if !known {
		l.Fail(fmt.Errorf("who is %q?", name))
	}
	switch verb {
	case "row":
		m := Heard{
			Worker: key, Incarnation: s.welcomes[name].Incarnation, Seq: uint64(l.Int(l.Word())),
			Age:   l.Duration("age"),
			Speed: l.Float("speed"), Draining: l.Flag("draining"), Maintenance: l.Duration("away"),
			Lasts:  l.Duration("lasts"),
			Matrix: readMatrix(l, s.welcomes[name].Capacity),
		}
		if l.Flag("other") {
			m.Incarnation += 100
		}
		for _, f := range l.List("files") {
			m.Files = append(m.Files, FileID(digestOf(f)))
		}
		if n := l.Number("free", -1); n >= 0 {
			m.Load = &probe.Load{Free: size(n), Queued: uint32(l.Number("queued", 0))}
		}
		return m
	case "lost":
		return LinkLost{Worker: key}
	case "gone":
		return WorkerGone{Worker: key, Off: l.Flag("off")}
	case "answers": // the probe for the queue length
		m := readLoad(l)
		for _, r := range s.core.rounds.queue {
			m.Seq = cmp.Or(m.Seq, r.asked[s.core.workerByKey(key)])
		}
		if m.Seq == 0 {
			l.Fail(fmt.Errorf("%s was not asked", name))
		}
		return frameFrom(key, m)
	}
	more := l.Flag("more")
	m := readMessage(l, verb, s.welcomes[name].Capacity)
	s.frame = append(s.frame, m)
	if more {
		return Frame{Worker: key}
	}
	msgs := s.frame
	s.frame = nil
	return Frame{Worker: key, Msgs: msgs}
}

// readMatrix reads wait=5s, and short=0s: room closed to long tasks is free.
func readMatrix(l *script.Line, capacity probe.Demand) *probe.WaitMatrix {
	text := l.Text("wait")
	if text == "" {
		return nil
	}
	if text == "never" {
		m := flatMatrix(capacity, 0)
		for i := range m.Cells {
			for k := range m.Cells[i] {
				m.Cells[i][k] = probe.NeverFits
			}
			m.Short[i] = probe.NeverFits
		}
		return m
	}
	wait, err := time.ParseDuration(text)
	l.Fail(err)
	m := flatMatrix(capacity, wait)
	if l.Text("short") == "0s" {
		m.Short = [probe.MatrixSide]probe.Wait{}
	}
	return m
}

var statusNames = map[string]probe.Status{
	"ok": probe.Succeeded, "failed": probe.Failed, "panicked": probe.Panicked, "killed": probe.Killed,
	"timed_out": probe.TimedOut, "too_large": probe.TooLarge, "no_input": probe.NoInput, "preempted": probe.Preempted,
}

func readReason(l *script.Line) probe.Reason {
	word := l.Word()
	for r := probe.QueueFull; r <= probe.Withdrawn; r++ {
		if r.String() == word {
			return r
		}
	}
	l.Fail(fmt.Errorf("unknown reason %q", word))
	return 0
}

// showDemand is empty for a slot.
func showDemand(d probe.Demand) string {
	switch n := int(d.CPU / probe.Slot.CPU); {
	case d == probe.Slot:
		return ""
	case d == size(n):
		return fmt.Sprintf(" size=%d", n)
	}
	return fmt.Sprintf(" takes=%dm,%dMiB", d.CPU, d.Mem)
}

func readLoad(l *script.Line) probe.Load {
	return probe.Load{Free: size(l.Number("free", 0)), Queued: uint32(l.Number("queued", 0)),
		Running: uint32(l.Number("running", 0))}
}

func readMessage(l *script.Line, verb string, capacity probe.Demand) probe.Msg {
	load := readLoad(l)
	load.Matrix = readMatrix(l, capacity)
	switch verb {
	case "ready":
		res, turn := l.Turn(l.Word())
		return probe.Ready{Res: res, Turn: turn, Load: load}
	case "queued":
		p := l.Places(l.Word())
		return probe.Queued{First: p.First, Count: p.Count, Load: load, Wait: l.Duration("behind")}
	case "started":
		m := probe.Started{Attempt: l.Attempt(l.Word()), Load: load}
		if l.WordsLeft() > 0 {
			m.Job, m.Task = readTaskName(l, l.Word())
		}
		return m
	case "finished":
		m := &probe.Finished{Attempt: l.Attempt(l.Word()), Load: load, Run: cmp.Or(l.Duration("run"), time.Millisecond)}
		m.Status = statusNames[l.Word()]
		if m.DiskFailed = l.Flag("disk"); m.DiskFailed && m.Status == probe.NoInput {
			m.Run = 0 // the task never ran
		}
		m.Usage.CPU, m.Usage.Memory = l.Duration("cpu"), probe.MiB(l.Number("mem", 0))
		m.Outputs = readOutputs(l, l.List("out"))
		m.Retry = map[string]probe.Retry{"": probe.Anywhere, "elsewhere": probe.Elsewhere,
			"never": probe.Never}[l.Text("retry")]
		if m.Status == probe.Succeeded {
			m.Result = []byte("result")
		} else if m.Status == probe.Failed {
			m.Error = "no luck"
		}
		if l.WordsLeft() > 0 {
			m.Job, m.Task = readTaskName(l, l.Word())
		}
		return m
	case "refused":
		m := probe.Refused{RetryAfter: l.Duration("retry"), Load: load, Knows: l.Duration("knows")}
		for l.WordsLeft() > 1 {
			if w := l.Word(); script.IsAttempt(w) {
				m.Attempt = l.Attempt(w)
			} else {
				p := l.Places(w)
				m.First, m.Count = p.First, p.Count
			}
		}
		m.Reason = readReason(l)
		return m
	case "cache":
		if l.Flag("broken") {
			return probe.Cache{Problem: "the disk is full"}
		}
		return probe.Cache{}
	case "evicted":
		p := l.Places(l.Word())
		return probe.Evicted{First: p.First, Count: p.Count, Reason: readReason(l)}
	case "knows-not":
		var m probe.Gone
		for l.WordsLeft() > 0 {
			if w := l.Word(); script.IsAttempt(w) {
				m.Attempts = append(m.Attempts, l.Attempt(w))
			} else {
				m.Places = append(m.Places, l.Places(w))
			}
		}
		return m
	case "claimed":
		m := probe.Claimed{Job: script.Job(l.Word()), Generation: probe.Generation(l.Number("gen", 1)),
			Knows: cmp.Or(l.Duration("knows"), time.Hour), Moved: l.Flag("moved")}
		if l.Flag("forgot") {
			m.Knows = 0
		}
		return m
	case "tells":
		return load
	case "load":
		load.Seq = uint64(l.Int(l.Word()))
		return load
	case "pong":
		m := probe.Pong{Load: load}
		for _, text := range l.List("expects") {
			id, wait, _ := strings.Cut(text, "+")
			d, err := time.ParseDuration(wait)
			l.Fail(err)
			m.Expect = append(m.Expect, probe.Expect{Attempt: l.Attempt(id), Wait: d})
		}
		for _, text := range l.List("progress") {
			id, far, _ := strings.Cut(text, "=")
			percent, timeLeft, _ := strings.Cut(far, "/")
			d, err := time.ParseDuration(timeLeft)
			l.Fail(err)
			m.Progress = append(m.Progress, probe.Progress{Attempt: l.Attempt(id), Done: uint32(l.Int(percent)) * 1e4,
				Left: d})
		}
		for _, text := range l.List("uses") {
			parts := strings.Split(text, "/")
			u := probe.Use{Attempt: l.Attempt(parts[0]), Memory: 9}
			var err error
			u.Ran, err = time.ParseDuration(parts[1])
			l.Fail(err)
			u.CPU, err = time.ParseDuration(parts[2])
			l.Fail(err)
			m.Uses = append(m.Uses, u)
		}
		m.Pace = uint32(1000 * l.Float("pace"))
		return m
	case "drain":
		return probe.Drain{}
	}
	l.Fail(fmt.Errorf("unknown message %q", verb))
	return nil
}

// showActions puts actions into words. Sends of the same kind in a row are in the order of workers.
func (s *story) showActions(acts []Action) string {
	for i := 0; i < len(acts); {
		end := i + 1
		for end < len(acts) && sameKind(acts[i], acts[end]) {
			end++
		}
		slices.SortStableFunc(acts[i:end],
			func(a, b Action) int { return cmp.Compare(a.(Send).Worker, b.(Send).Worker) })
		i = end
	}
	words := make([]string, len(acts))
	length := 0
	for i, a := range acts {
		words[i] = s.showAction(a)
		length += len(words[i])
	}
	if length > 90 {
		return strings.Join(words, "\n")
	}
	return strings.Join(words, "; ")
}

func sameKind(a, b Action) bool {
	x, ok := a.(Send)
	y, ok2 := b.(Send)
	return ok && ok2 && fmt.Sprintf("%T", x.Msg) == fmt.Sprintf("%T", y.Msg)
}

var refusalNames = map[RefusedReason]string{
	Invalid: "invalid", TooBigJob: "too_big", NoSuchWorker: "no_such_worker", Overloaded: "overloaded",
	Leaving: "leaving",
}

var failureNames = map[Failure]string{
	TaskError: "task_error", Timeout: "timeout", Lost: "lost", Poison: "poison", NoWorker: "no_worker",
	TooLarge: "too_large",
	Panic:    "panic", Infrastructure: "infrastructure", NoInput: "no_input", StageFailed: "stage_failed",
}

func (s *story) showAction(a Action) string {
	switch a := a.(type) {
	case Send:
		text := s.names[a.Worker] + " " + s.showMsg(a.Msg)
		if a.MayWait {
			text += " may-wait"
		}
		return text
	case Extended:
		if a.Err != nil {
			return fmt.Sprintf("not extended %s, with %d tasks, %s%s: %s", script.ShowJob(a.Job), a.Tasks,
				refusalNames[a.Err.Reason], script.Optional(" retry", a.Err.RetryAfter), a.Err.Message)
		}
		return fmt.Sprintf("extended %s to %d tasks", script.ShowJob(a.Job), a.Tasks)
	case Accepted:
		return "accepted " + script.ShowJob(a.Job)
	case Refused:
		return fmt.Sprintf("refused %s %s%s: %s", script.ShowJob(a.Job), refusalNames[a.Err.Reason],
			script.Optional(" retry", a.Err.RetryAfter), a.Err.Message)
	case *Done:
		o := &a.Outcome
		if o.Receipt != (Receipt{}) {
			s.receipts[o.Receipt.Attempt] = o.Receipt
		}
		text := fmt.Sprintf("done %s.%d ", script.ShowJob(a.Job), o.Task)
		switch o.Kind {
		case Result:
			text += "ok"
		case Failed:
			text += failureNames[o.Failure]
		case Cancelled:
			text += "cancelled"
		case DeadlineExceeded:
			text += "deadline"
		}
		if o.File != nil {
			text += " in a file"
		}
		if o.Attempts != 1 {
			text += fmt.Sprintf(" attempts=%d", o.Attempts)
		}
		if o.Message != "" {
			text += ": " + o.Message
		}
		// The other phases rest on the run time that the story reports, which may be longer than the story.
		if p := o.Phases; o.Kind == Result && (p.Sampled < max(p.Released, p.Again) || p.Queued < p.Sampled) {
			text += fmt.Sprintf(", with phases out of order: %+v", p)
		}
		return text
	case Ended:
		return "ended " + script.ShowJob(a.Job)
	case Moved:
		return "moved " + script.ShowJob(a.Job)
	case Collect:
		return "collect " + s.names[a.Worker]
	}
	return fmt.Sprintf("%T", a)
}

func (s *story) showMsg(msg probe.Msg) string {
	switch m := msg.(type) {
	case probe.Reserve:
		text := fmt.Sprintf("reserve %s %s", script.ShowPlaces(m.First, m.Count), script.ShowJob(m.Job))
		text += showDemand(m.Demand) + script.Optional(" est", m.Estimate) + script.Optional(" typical", m.Typical) +
			showWeights(m.Weights) + showStanding(m.Standing) + showGuarded(m.Guarded)
		if len(m.Launches) > 0 {
			text += " with=" + s.showLaunches(m.Launches)
		}
		return text
	case probe.Bind:
		text := "bind " + script.ShowTurn(m.Res, m.Turn) + " " + s.showLaunches([]probe.Launch{m.Launch})
		if m.Keep {
			text += " keep"
		}
		if m.Job != (probe.JobID{}) {
			text += " for=" + script.ShowJob(m.Job)
		}
		if len(m.Bundle) > 0 {
			text += " and=" + s.showLaunches(m.Bundle)
		}
		return text
	case probe.Decline:
		return "decline " + script.ShowTurn(m.Res, m.Turn)
	case probe.Enqueue:
		text := fmt.Sprintf("enqueue %d %s", m.Res, s.showLaunches([]probe.Launch{m.Launch})) + showDemand(m.Demand) +
			showWeights(m.Weights) + showStanding(m.Standing) + showGuarded(m.Guarded)
		if m.Long {
			text += " long"
		}
		for _, f := range m.Launch.Files {
			if len(f.Peers) > 0 {
				text += " ask=" + strings.Join(f.Peers, ",")
			}
		}
		return text
	case probe.Restamp:
		return fmt.Sprintf("restamp %d %s", m.Res, script.ShowAttempt(m.Attempt)) + showStanding(m.Standing)
	case probe.Cancel:
		if m.Answer {
			return "take-back " + script.ShowPlaces(m.First, m.Count)
		}
		return "cancel " + script.ShowPlaces(m.First, m.Count)
	case probe.Kill:
		text := "kill " + script.ShowAttempt(m.Attempt)
		if m.Res != 0 {
			text += " at=" + script.ShowTurn(m.Res, m.Turn)
		}
		return text
	case probe.Claim:
		text := "claim " + script.ShowJob(m.Job)
		if m.Attempt != (probe.AttemptID{}) {
			text = "claim " + script.ShowAttempt(m.Attempt)
		}
		if m.Generation > 1 {
			text += fmt.Sprint(" gen=", m.Generation)
		}
		switch {
		case !m.HasTenant:
			text += " without tenant"
		case m.Tenant != "":
			text += " tenant=" + m.Tenant
		}
		return text
	case probe.Ack:
		if m.Disowned {
			return "disown " + showAttempts(m.Attempts)
		}
		return "ack " + showAttempts(m.Attempts)
	case probe.Sync:
		text := fmt.Sprintf("sync next=%d", m.Next)
		for _, r := range m.Live {
			text += " live=" + script.ShowPlaces(r.First, r.Count)
		}
		if len(m.Attempts) > 0 {
			text += " awaits=" + showAttempts(m.Attempts)
		}
		return text
	case probe.Common:
		return fmt.Sprintf("common%d %s bytes=%d", m.Number, script.ShowJob(m.Job), len(m.Payload))
	case probe.Forget:
		return "forget " + script.ShowJob(m.Job)
	case probe.Probe:
		if m.Matrix {
			return "ask"
		}
		return "probe"
	}
	return fmt.Sprintf("%T", msg)
}

func showGuarded(guarded bool) string {
	if guarded {
		return " guarded"
	}
	return ""
}

// showLaunches shows attempts with tasks.
func (s *story) showLaunches(list []probe.Launch) string {
	words := make([]string, len(list))
	for i, m := range list {
		name := fmt.Sprint(m.Task)
		for _, w := range s.core.workers {
			if a := w.attempts[m.Attempt]; a != nil {
				name = fmt.Sprintf("%s.%d", script.ShowJob(a.job.ID), m.Task)
			}
		}
		words[i] = fmt.Sprintf("%s(%s)", script.ShowAttempt(m.Attempt), name)
		if m.Deadline > 0 {
			words[i] += fmt.Sprintf("/%v", m.Deadline)
		}
		words[i] += showContext(m.Context)
	}
	return strings.Join(words, ",")
}

// showContext shows the common payload of a task, and the outputs passed to it with their tasks.
func showContext(m *probe.Context) (text string) {
	if m == nil {
		return ""
	}
	if m.Common > 0 {
		text += fmt.Sprintf("+common%d", m.Common)
	}
	if m.Large {
		text += "+large"
	}
	for _, p := range m.Inputs {
		text += fmt.Sprintf("+%s.%d/%d", p.Stage, p.Task, p.Partition)
		if p.File {
			text += "@" + strings.Join(p.Peers, "@")
		}
	}
	return text
}

func showAttempts(ids []probe.AttemptID) string {
	words := make([]string, len(ids))
	for i, id := range ids {
		words[i] = script.ShowAttempt(id)
	}
	return strings.Join(words, ",")
}

// showState shows the counts of the core, except zeros.
func (s *story) showState() string {
	c := s.core
	var words []string
	add := func(name string, n int) {
		if n != 0 {
			words = append(words, fmt.Sprintf("%s=%d", name, n))
		}
	}
	waits := 0
	for _, j := range c.byID {
		waits += j.waiting
	}
	add("jobs", len(c.byID))
	add("pending", c.pending)
	add("waiting", waits)
	add("matching", c.batchQueue.Len()+c.sleepers.Len())
	add("attempts", c.attemptsAtWorkers)
	places, acks := 0, 0
	for _, w := range c.workers {
		places += len(w.places)
		acks += len(w.acks)
	}
	add("places", places)
	add("rounds", len(c.rounds.bySeq))
	add("acks", acks)
	add("idle", len(c.view.Idle()))
	add("held", c.view.Avoided())
	for _, t := range c.Tenants(9, time.Time{}) { // before any job is due
		if t.Held > 0 || t.Spare > 0 {
			words = append(words, fmt.Sprintf("%s=%s+%s/%s", t.Path, formatSlots(t.Use-t.Spare), formatSlots(t.Spare),
				formatSlots(t.Want)))
		}
	}
	if len(words) == 0 {
		return "nothing"
	}
	return strings.Join(words, " ")
}
