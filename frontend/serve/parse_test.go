package serve

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/phoebe-sched/phoebe/frontend"
	"github.com/phoebe-sched/phoebe/frontend/frame"
	"github.com/phoebe-sched/phoebe/idl/gen/phoebe/v1"
	"github.com/phoebe-sched/phoebe/probe"
)

var testDigest = strings.Repeat("0123456789abcdef", 4)

// stagedJob makes a job of two stages: two echoes, then a task that reads their results.
func stagedJob() *v1.Job {
	j := newJob("echo", "a", "b", "c")
	j.Stages = []*v1.Stage{{Name: "map"}, {Name: "reduce", After: []string{"map"}}}
	j.Tasks[0].Stage, j.Tasks[1].Stage, j.Tasks[2].Stage = "map", "map", "reduce"
	j.Tasks[2].Inputs = []*v1.Input{{Bytes: 1e9, Stage: "map"}}
	return j
}

// Errors in stages, inputs and files name the field, the number and the remedy. Then no task is queued.
func TestRefusalsOfNeeds(t *testing.T) {
	c := startCluster(t, 1, 2)
	long := strings.Repeat("x", probe.MaxString+1)
	for _, bad := range []struct {
		name   string
		change func(*v1.Job)
		says   []string
	}{
		{"mode", func(j *v1.Job) { j.Mode = 7 }, []string{"mode number 7"}},
		{"negative mode", func(j *v1.Job) { j.Mode = -1 }, []string{"mode number -1"}},
		{"mode and policy", func(j *v1.Job) { j.Mode, j.Policy = v1.Mode_ESTIMATE, v1.Policy_RANDOM },
			[]string{"estimate", "random", "exclude"}},
		{"cycle", func(j *v1.Job) { j.Stages[0].After = []string{"reduce"} },
			[]string{"wait for each other", "map after reduce after map"}},
		{"stage after itself", func(j *v1.Job) { j.Stages[0].After = []string{"map"} }, []string{"map after map"}},
		{"stage after none", func(j *v1.Job) { j.Stages[1].After = []string{"mop"} },
			[]string{`"reduce" comes after "mop"`, "not among"}},
		{"stage twice", func(j *v1.Job) { j.Stages[1].Name = "map" }, []string{`two stages are called "map"`}},
		{"stage after one twice", func(j *v1.Job) { j.Stages[1].After = []string{"map", "map"} },
			[]string{`after "map" twice`}},
		{"stage without a name", func(j *v1.Job) { j.Stages[0].Name = "" }, []string{"stage 0 has no name"}},
		{"stage without tasks", func(j *v1.Job) { j.Stages = append(j.Stages, &v1.Stage{Name: "idle"}) },
			[]string{`"idle" has no tasks`}},
		{"many stages", func(j *v1.Job) {
			for range frontend.MaxStages {
				j.Stages = append(j.Stages, &v1.Stage{Name: newID()})
			}
		}, []string{"1002 stages", "1000"}},
		{"stage's name", func(j *v1.Job) { j.Stages[1].Name = long }, []string{"stage 1", "4097 bytes"}},
		{"unknown stage", func(j *v1.Job) { j.Tasks[1].Stage = "mop" },
			[]string{"task 1", `"mop"`, "name a listed stage"}},
		{"no stage", func(j *v1.Job) { j.Tasks[1].Stage = "" }, []string{"task 1", "names no stage"}},
		{"no stages", func(j *v1.Job) { j.Stages = nil }, []string{"task 0", `"map"`, "has no stages"}},
		{"input of a later stage", func(j *v1.Job) { j.Tasks[0].Inputs = []*v1.Input{{Stage: "reduce"}} },
			[]string{"task 0", "input 0", `"reduce"`, "does not come"}},
		{"input of no stage", func(j *v1.Job) { j.Tasks[2].Inputs[0].Stage = "mop" },
			[]string{"task 2", "input 0", `"mop"`}},
		{"input nowhere", func(j *v1.Job) { j.Tasks[2].Inputs[0].Stage = "" },
			[]string{"task 2", "input 0", "nowhere to be found", "name a host"}},
		{"copy nowhere", func(j *v1.Job) { j.Tasks[0].Inputs = []*v1.Input{{Copies: []*v1.Copy{{}}}} },
			[]string{"task 0", "input 0", "a copy nowhere"}},
		{"copies of an output", func(j *v1.Job) { j.Tasks[2].Inputs[0].Copies = []*v1.Copy{{At: "h"}} },
			[]string{"task 2", "input 0", "give one of them"}},
		{"tier", func(j *v1.Job) {
			j.Tasks[0].Inputs = []*v1.Input{{}, {Copies: []*v1.Copy{{At: "h"}, {At: "h", Tier: 9}}}}
		}, []string{"task 0", "inputs[1]", "copies[1]", "tier number 9"}},
		{"negative input", func(j *v1.Job) { j.Tasks[2].Inputs[0].Bytes = -5 },
			[]string{"task 2", "input 0", "-5 bytes"}},
		{"huge input", func(j *v1.Job) { j.Tasks[2].Inputs[0].Bytes = 1<<63 - 1 },
			[]string{"task 2", "input 0", "the limit"}},
		{"many inputs", func(j *v1.Job) {
			for range frontend.MaxInputs {
				j.Tasks[2].Inputs = append(j.Tasks[2].Inputs, j.Tasks[2].Inputs[0])
			}
		}, []string{"task 2", "257 inputs", "256"}},
		{"many copies", func(j *v1.Job) {
			in := &v1.Input{}
			for range frontend.MaxCopies + 1 {
				in.Copies = append(in.Copies, &v1.Copy{At: "h"})
			}
			j.Tasks[0].Inputs = []*v1.Input{in}
		}, []string{"task 0", "input 0", "17 copies", "16"}},
		{"no digest", func(j *v1.Job) { j.Tasks[1].Files = []*v1.File{{Url: "http://x/y"}} },
			[]string{"task 1", "files[0]", "http://x/y", "64 hexadecimal digits", "sha256sum"}},
		{"short digest", func(j *v1.Job) { j.Tasks[1].Files = []*v1.File{{Url: "http://x/y", Sha256: testDigest[2:]}} },
			[]string{"files[0]", "64 hexadecimal"}},
		{"bad digest", func(j *v1.Job) {
			j.Tasks[1].Files = []*v1.File{{Url: "http://x/y", Sha256: testDigest},
				{Url: "http://x/z", Sha256: "g" + testDigest[1:]}}
		}, []string{"files[1]", "http://x/z"}},
		{"zero digest",
			func(j *v1.Job) { j.Tasks[1].Files = []*v1.File{{Url: "http://x/y", Sha256: strings.Repeat("0", 64)}} },
			[]string{"task 1", "http://x/y", "SHA-256"}},
		{"scheme", func(j *v1.Job) { j.Tasks[1].Files = []*v1.File{{Url: "ftp://x/y", Sha256: testDigest}} },
			[]string{"task 1", "file 0", "use http, https or file"}},
		{"URL", func(j *v1.Job) { j.Tasks[1].Files = []*v1.File{{Url: "http://" + long, Sha256: testDigest}} },
			[]string{"task 1", "files[0]", "bytes: at most"}},
		{"file's size",
			func(j *v1.Job) { j.Tasks[1].Files = []*v1.File{{Url: "http://x/y", Sha256: testDigest, Bytes: -1}} },
			[]string{"task 1", "files[0]", "-1 bytes", "0 if it is not known"}},
		{"file twice", func(j *v1.Job) {
			j.Tasks[1].Files = []*v1.File{{Url: "http://x/y", Sha256: testDigest},
				{Url: "http://x/z", Sha256: strings.ToUpper(testDigest)}}
		}, []string{"task 1", "one digest"}},
		{"many files", func(j *v1.Job) {
			for range frontend.MaxFiles + 1 {
				j.Tasks[0].Files = append(j.Tasks[0].Files, &v1.File{Url: "http://x/y", Sha256: testDigest})
			}
		}, []string{"task 0", "65 files", "64"}},
		{"files of sampled tasks", func(j *v1.Job) {
			j.Mode, j.Tasks[2].Inputs = v1.Mode_SAMPLE, nil
			j.Tasks[0].Files = []*v1.File{{Url: "http://x/y", Sha256: testDigest}}
		}, []string{"task 0", "files", "mode sample"}},
		{"ran nowhere",
			func(j *v1.Job) { j.Resubmission = &v1.Resubmission{Ran: []*v1.StageRun{{Stage: "map", Tasks: 1}}} },
			[]string{"ran[0]", `worker ""`}},
		{"ran less than nothing", func(j *v1.Job) {
			j.Resubmission = &v1.Resubmission{
				Ran: []*v1.StageRun{{Stage: "map", Worker: "w", Tasks: 1}, {Stage: "map", Worker: "w", Tasks: -1}}}
		}, []string{"ran[1]", "-1 tasks"}},
		{"ran a stage that is not", func(j *v1.Job) {
			j.Resubmission = &v1.Resubmission{Ran: []*v1.StageRun{{Stage: "mop", Worker: "w", Tasks: 1}}}
		}, []string{"ran[0]", `"mop"`}},
	} {
		t.Run(bad.name, func(t *testing.T) {
			j := stagedJob()
			bad.change(j)
			_, err := c.client.Submit(context.Background(), &v1.SubmitRequest{Job: j})
			reason := v1.RefusedReason_INVALID
			if bad.name == "many stages" {
				reason = v1.RefusedReason_TOO_LARGE
			}
			for _, says := range bad.says {
				wantRefused(t, err, reason, says)
			}
		})
	}
	if n := c.core.Jobs(); n != 0 {
		t.Errorf("%d jobs are left", n)
	}
}

// The stages of a job run in order, and every mode works. The second stage's input lies where the first stage ran.
func TestStages(t *testing.T) {
	c := startCluster(t, 2, 2)
	for _, mode := range []v1.Mode{v1.Mode_AUTO, v1.Mode_SAMPLE, v1.Mode_ESTIMATE} {
		t.Run(mode.String(), func(t *testing.T) {
			j := stagedJob()
			j.Mode, j.Phases = mode, true
			res, err := c.client.Run(context.Background(), &v1.RunRequest{Job: j})
			if err != nil {
				t.Fatal(err)
			}
			if len(res.Outcomes) != 3 || res.Outcomes[2].Task != 2 {
				t.Fatalf("%v", res.Outcomes)
			}
			for _, o := range res.Outcomes {
				if o.Kind != v1.OutcomeKind_RESULT {
					t.Errorf("%v", o)
				}
			}
			x, err := c.client.Explain(context.Background(), &v1.ExplainRequest{Handle: res.Handle, Task: 2})
			if err != nil {
				t.Fatal(err)
			}
			want := map[v1.Mode]v1.Cause{v1.Mode_AUTO: v1.Cause_BY_INPUTS, v1.Mode_SAMPLE: v1.Cause_BY_MODE,
				v1.Mode_ESTIMATE: v1.Cause_BY_MODE}[mode]
			if len(x.Decisions) != 1 || x.Decisions[0].Cause != want ||
				(x.Decisions[0].Path == v1.Path_SAMPLING) != (mode == v1.Mode_SAMPLE) {
				t.Errorf("%v", x)
			}
		})
	}
}

// If a task fails, its job fails, and the outcomes of the rest say why.
func TestStageFails(t *testing.T) {
	c := startCluster(t, 1, 2)
	j := stagedJob()
	j.Tasks[1].FunctionName, j.Tasks[1].Payload = "fail", []byte("on purpose")
	res, err := c.client.Run(context.Background(), &v1.RunRequest{Job: j})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range res.Outcomes {
		if o.Task != 2 {
			continue
		}
		if f := o.Failure; o.Kind != v1.OutcomeKind_FAILED || f == nil || f.Reason != v1.FailureReason_STAGE_FAILED ||
			!strings.Contains(f.Message, `task 1 of stage "map" failed: on purpose`) {
			t.Errorf("%v", o)
		}
	}
}

// A stored outcome stays as it is after the core lends the next outcome.
func TestOutcomeIsCopied(t *testing.T) {
	o := frontend.Outcome{Kind: frontend.Failed, Failure: frontend.TaskError, Message: "disk full", Code: "FULL"}
	var stored v1.Outcome
	new(clientJob).fillOutcome(&stored, new(v1.Usage), &o)
	o = frontend.Outcome{Kind: frontend.Failed, Failure: frontend.StageFailed, Code: "OTHER"}
	if f := stored.Failure; f.GetCode() != "FULL" || f.Message != "disk full" {
		t.Errorf("a failure with the code FULL is stored as %+v with the code %s", f, f.GetCode())
	}
}

// Every value that the core reports has a value of the API.
func TestOutcomesHaveAPIValues(t *testing.T) {
	for f := frontend.TaskError; f <= frontend.StageFailed; f++ {
		r := &clientJob{unfinished: 1}
		r.addOutcome(
			&frontend.Outcome{Kind: frontend.Failed, Failure: f,
				Usage: probe.Usage{CPU: time.Second, Memory: 3, Fetched: 5, Fetch: time.Millisecond}}, 0, nil)
		o := r.outcomes[0]
		if o.Failure.Reason == 0 || o.Failure.Reason.String() == "<UNSET>" {
			t.Errorf("failure %d is %v", f, o.Failure.Reason)
		}
		if u := o.Usage; u == nil || *u != (v1.Usage{CpuUs: 1e6, MemoryMib: 3, FetchedBytes: 5, FetchUs: 1000}) {
			t.Errorf("usage: %v", u)
		}
	}
}

// FuzzJob decodes any bytes as a client's job. The job is refused or runs, by the core's own checks, and can be
// explained.
func FuzzJob(f *testing.F) {
	add := func(j *v1.Job) {
		b := make([]byte, j.BLength())
		f.Add(b[:j.FastWriteNocopy(b, nil)])
	}
	add(newJob("echo", "a", "b"))
	add(stagedJob())
	j := stagedJob()
	j.Mode = v1.Mode_ESTIMATE
	j.Tasks[0].Files = []*v1.File{{Url: "file:///x", Sha256: testDigest, Bytes: 1 << 40}}
	j.Tasks[1].Inputs = []*v1.Input{{Bytes: 1 << 40, Copies: []*v1.Copy{{At: "w0", Rack: "r", Tier: v1.Tier_MEMORY}}}}
	add(j)
	j = stagedJob()
	j.Tasks = j.Tasks[2:]
	j.Tasks[0].Index = 2
	j.Resubmission = &v1.Resubmission{PreviousOwner: "x", Ran: []*v1.StageRun{{Stage: "map", Worker: "w0", Tasks: 2}}}
	add(j)
	h := &handler{&Server{cfg: Config{}.withDefaults()}}
	f.Fuzz(func(t *testing.T, data []byte) {
		in := v1.NewJob()
		if !decodeJob(in, data) {
			return
		}
		job, err := h.parseOrRefuse(in)
		if err != nil {
			return
		}
		core := frontend.New(frontend.Config{ID: 1}, rand.New(rand.NewPCG(1, 2)))
		now := time.Unix(1000, 0)
		step := func(ev frontend.Event) (acts []frontend.Action) {
			acts = core.Step(now, ev, nil)
			if err := core.Check(); err != nil {
				t.Fatal(err)
			}
			return acts
		}
		for w := range frontend.Worker(3) {
			step(frontend.WorkerUp{Worker: w, Welcome: probe.Welcome{
				Worker: "w" + string(rune('0'+w)), Incarnation: 1, Functions: []string{"echo"},
				Capacity: probe.Demand{CPU: 4000, Mem: 1024},
			}})
		}
		id := job.ID
		acts := step(frontend.Submit{Job: job})
		if _, refused := acts[0].(frontend.Refused); refused {
			return
		}
		for range 3 {
			if at := core.NextWake(); !at.IsZero() {
				now = at
				step(frontend.Wake{})
			}
			for _, d := range core.Explain(id, -1, now) {
				decisionToAPI(&d)
			}
		}
		step(frontend.Cancel{Job: id, Reason: "enough"})
		if core.Jobs() != 0 {
			t.Error("the job is still there")
		}
	})
}

// decodeJob decodes a job that passes the gate.
func decodeJob(into *v1.Job, data []byte) bool {
	if _, err := frame.ShapeOf(into).Weigh(data, 1<<24); err != nil {
		return false
	}
	_, err := into.FastRead(data)
	return err == nil
}

// An unreadable request ends its connection, without further effect. The cases are an unknown type, and a list
// whose claimed length exceeds the request and the memory.
func TestUnreadableRequests(t *testing.T) {
	c := startCluster(t, 1, 1)
	call := []byte{0x80, 1, 0, 1, 0, 0, 0, 6, 'S', 'u', 'b', 'm', 'i', 't', 0, 0, 0, 1}
	const str, structure, list = 11, 12, 15
	for name, args := range map[string][]byte{ // each as the job of a SubmitRequest
		"type":  {structure, 0, 1, structure, 0, 2, 0xf4, 0, 99, 1, 2, 3, 4, 0, 0, 0},
		"tasks": {structure, 0, 1, structure, 0, 2, list, 0, 9, structure, 0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 0},
		"strings": {structure, 0, 1, structure, 0, 2, structure, 0, 8, list, 0, 1, str, 0x7f, 0xff, 0xff, 0xff, 0, 0, 0,
			0},
	} {
		conn, err := net.Dial("tcp", c.Addr())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		frame := binary.BigEndian.AppendUint32(nil, uint32(len(call)+len(args)))
		if _, err := conn.Write(slices.Concat(frame, call, args)); err != nil {
			t.Fatal(err)
		}
		conn.SetReadDeadline(time.Now().Add(time.Minute))
		if _, err := io.Copy(io.Discard, conn); err != nil && !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := c.client.Run(context.Background(), &v1.RunRequest{Job: newJob("echo", "x")}); err != nil {
		t.Error(err)
	}
}
