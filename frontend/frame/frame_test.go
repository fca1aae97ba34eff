package frame

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/cloudwego/gopkg/protocol/thrift"

	"github.com/phoebe-sched/phoebe/idl/gen/phoebe/v1"
	"github.com/phoebe-sched/phoebe/idl/gen/phoebe/v1/phoebe"
)

func bytesText(b ...byte) string { return string(b) }

func uint32Text(n int) string { return string(binary.BigEndian.AppendUint32(nil, uint32(n))) }

// callFrame makes the frame of a call with these arguments.
func callFrame(method, args string) []byte {
	body := bytesText(0x80, 1, 0, 1) + uint32Text(len(method)) + method + uint32Text(7) + args
	return []byte(uint32Text(len(body)) + body)
}

const (
	request = "\x0c\x00\x01" // the field of the request, and of the caller, too
	caller  = request
	secret  = "\x0b\x00\x01"
)

func TestReadHead(t *testing.T) {
	word := "sesame"
	generated := &v1.PhoebeEventsArgs{Request: &v1.EventsRequest{
		Caller: &v1.Caller{Secret: &word, Name: &word, Forwarded: true}, Handle: &v1.Handle{Job: "j", Owner: "o"},
		Cursor: 1, MaxWaitUs: 2, MaxEvents: 3,
	}}
	b := make([]byte, generated.BLength())
	generated.FastWrite(b)
	for name, c := range map[string]struct {
		frame  []byte
		secret string
		err    error
	}{
		"in the order of ids": {callFrame("Run", request+caller+secret+uint32Text(6)+word+"\x00\x00\x00"), word, nil},
		"fixed sizes first":   {callFrame("Events", string(b)), word, nil},
		"an empty one":        {callFrame("Run", request+caller+secret+uint32Text(0)+"\x00\x00\x00"), "", nil},
		"no caller":           {callFrame("Run", request+"\x0c\x00\x02\x00\x00\x00"), "", nil},
		"no request":          {callFrame("Run", "\x00"), "", nil},
		"a name first": {
			callFrame("Run", request+caller+"\x0b\x00\x02"+uint32Text(1)+"x"+secret+uint32Text(6)+word+"\x00\x00\x00"),
			"", nil},
		"longer than its call": {callFrame("Run", request+caller+secret+uint32Text(9)+word), "", nil},
		"longer than a head": {
			callFrame("Run", request+caller+secret+uint32Text(9000)+strings.Repeat("s", 9000)+"\x00\x00\x00"), "", nil},
		"much before it": {
			callFrame("Run",
				request+caller+strings.Repeat("\x0a\x00\x0912345678", 1000)+secret+uint32Text(6)+word+"\x00\x00\x00"),
			"",
			nil},
		"no frame":      {[]byte("GET / HTTP/1.1\r\n"), "", ErrMalformed},
		"not framed":    {callFrame("Run", "\x00")[4:], "", ErrMalformed},
		"a long method": {callFrame(strings.Repeat("Run", 30), "\x00"), "", ErrMalformed},
		"not all of it": {callFrame("Run", request+caller+secret+uint32Text(6)+word)[:30], "", io.EOF},
	} {
		t.Run(name, func(t *testing.T) {
			h, err := ReadHead(bufio.NewReaderSize(bytes.NewReader(c.frame), 16<<10))
			if !errors.Is(err, c.err) || string(h.Secret) != c.secret {
				t.Fatalf("secret %q, error %v; want %q, %v", h.Secret, err, c.secret, c.err)
			}
			if err == nil && (h.Size != len(c.frame) || h.Seq != 7 || h.Type != thrift.CALL) {
				t.Errorf("%+v of a frame of %d bytes", h, len(c.frame))
			}
		})
	}
}

// The search for the secret stays within the bytes that have arrived. A stranger must get an answer without sending
// more.
func TestReadHeadAtOnce(t *testing.T) {
	frame := callFrame("Run", request+caller+secret+uint32Text(6)+"sesame"+strings.Repeat("\x00", 1<<20))
	come := len(callFrame("Run", request+caller+secret+uint32Text(6)+"sesame"))
	h, err := ReadHead(bufio.NewReader(bytes.NewReader(frame[:come])))
	if err != nil || string(h.Secret) != "sesame" || h.Size != len(frame) {
		t.Errorf("%+v, %v", h, err)
	}
}

func TestRefusal(t *testing.T) {
	h := Head{Method: []byte("Cancel"), Seq: 7}
	b := h.Refusal(&v1.Refused{Reason: v1.RefusedReason_OVERLOADED, Message: "later", RetryAfterUs: 3})
	if n := int(binary.BigEndian.Uint32(b)); n != len(b)-4 {
		t.Fatalf("a frame of %d bytes says that %d follow", len(b), n)
	}
	name, kind, seq, at, err := thrift.Binary.ReadMessageBegin(b[4:])
	if err != nil || name != "Cancel" || kind != thrift.REPLY || seq != 7 {
		t.Fatalf("%s %d %d %v", name, kind, seq, err)
	}
	var res v1.PhoebeCancelResult
	n, err := res.FastRead(b[4+at:])
	if err != nil || n != len(b)-4-at || res.Refused == nil || res.Refused.Message != "later" ||
		res.Refused.RetryAfterUs != 3 {
		t.Errorf("%+v, %v, %d bytes of %d", res.Refused, err, n, len(b)-4-at)
	}
}

// richSubmit makes a job that uses every field.
func richSubmit(tasks int) *v1.PhoebeSubmitArgs {
	word := "word"
	j := v1.NewJob()
	j.Id, j.Tenant, j.Constraint = "id", "tenant", &v1.Constraint{Labels: []string{"a=b", "c"}, Hosts: []string{"h"}}
	j.Resubmission = &v1.Resubmission{PreviousOwner: "p", Ran: []*v1.StageRun{{Stage: "s", Worker: "w", Tasks: 3}}}
	j.Stages = []*v1.Stage{{Name: "s", After: []string{"r"}}, {Name: "r"}}
	for i := range tasks {
		t := v1.NewTask()
		t.FunctionName, t.Payload, t.Stage = "function", bytes.Repeat([]byte("p"), i%100), "s"
		t.Demand, t.Constraint = &v1.Demand{CpuMillicores: 1}, &v1.Constraint{Hosts: []string{"one", "two"}}
		t.Inputs = []*v1.Input{{Bytes: 1, Copies: []*v1.Copy{{At: "at", Rack: "rack"}, {At: "elsewhere"}}},
			{Stage: "r"}}
		t.Files = []*v1.File{{Url: "http://host/file", Sha256: strings.Repeat("0", 64)}}
		j.Tasks = append(j.Tasks, t)
	}
	return &v1.PhoebeSubmitArgs{Request: &v1.SubmitRequest{Caller: &v1.Caller{Secret: &word}, Job: j}}
}

// allocatedBytes returns the number of bytes that f allocates.
func allocatedBytes(f func()) int {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return int(after.TotalAlloc - before.TotalAlloc)
}

// Frames of every method of the API have shapes.
func TestShapesOfAllMethods(t *testing.T) {
	methods := phoebe.NewServiceInfo().Methods
	for name, m := range methods {
		if s := shapes[name]; !reflect.DeepEqual(s.args, ShapeOf(m.NewArgs())) ||
			!reflect.DeepEqual(s.result, ShapeOf(m.NewResult())) {
			t.Errorf("method %s has other shapes", name)
		}
	}
	if len(shapes) != len(methods) {
		t.Errorf("%d methods have shapes, want %d", len(shapes), len(methods))
	}
}

// The weight is close to the bytes that decoding allocates.
func TestWeigh(t *testing.T) {
	args := richSubmit(2000)
	b := make([]byte, args.BLength())
	args.FastWrite(b)
	shape := ShapeOf(args)
	weight, err := shape.Weigh(b, 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	got := allocatedBytes(func() {
		if _, err := new(v1.PhoebeSubmitArgs).FastRead(b); err != nil {
			t.Error(err)
		}
	})
	if r := float64(got) / float64(weight); r < 0.8 || r > 1.2 {
		t.Errorf("decoding allocated %d bytes, %d were weighed", got, weight)
	}
	if _, err := shape.Weigh(b, weight-1); !errors.Is(err, ErrHeavy) {
		t.Errorf("with a byte less: %v", err)
	}
	args = richSubmit(3)
	b = b[:args.FastWriteNocopy(b, nil)]
	for n := range b {
		if _, err := shape.Weigh(b[:n], 1<<30); !errors.Is(err, ErrMalformed) {
			t.Fatalf("%d bytes of %d: %v", n, len(b), err)
		}
	}
}

// TestClaims: a claimed length without the bytes is found anywhere.
func TestClaims(t *testing.T) {
	job := request + "\x0c\x00\x02" // and the following fields
	task := job + "\x0f\x00\x09\x0c" + uint32Text(1)
	for name, args := range map[string]string{ // a name with "no " gives the whole argument; else zeros follow
		"tasks":       job + "\x0f\x00\x09\x0c" + uint32Text(1<<30),
		"stages":      job + "\x0f\x00\x0c\x0c" + uint32Text(1<<30),
		"labels":      job + "\x0c\x00\x08\x0f\x00\x01\x0b" + uint32Text(1<<30),
		"hosts":       task + "\x0c\x00\x05\x0f\x00\x02\x0b" + uint32Text(1<<30),
		"inputs":      task + "\x0f\x00\x0b\x0c" + uint32Text(1<<30),
		"copies":      task + "\x0f\x00\x0b\x0c" + uint32Text(1) + "\x0f\x00\x02\x0c" + uint32Text(1<<30),
		"files":       task + "\x0f\x00\x0c\x0c" + uint32Text(1<<30),
		"ran":         job + "\x0c\x00\x0a\x0f\x00\x02\x0c" + uint32Text(1<<30),
		"payload":     task + "\x0b\x00\x02" + uint32Text(1<<30),
		"negative":    task + "\x0b\x00\x02" + uint32Text(-1),
		"negative2":   job + "\x0f\x00\x09\x0c" + uint32Text(-1),
		"id":          job + "\x0b\x00\x01" + uint32Text(1<<30),
		"other list":  job + "\x0f\x00\x63\x0c" + uint32Text(1<<30),
		"other map":   job + "\x0d\x00\x63\x0c\x0c" + uint32Text(1<<30),
		"other type":  job + "\x0f\x00\x09\x03" + uint32Text(4),
		"no elements": job + "\x0f\x00\x63\x80" + uint32Text(0),
		"no type":     job + "\xf4\x00\x63" + uint32Text(4),
		"a deep one":  job + strings.Repeat("\x0c\x00\x63", 1000),
		"deep lists":  job + "\x0f\x00\x63" + strings.Repeat("\x0f"+uint32Text(1), 1000),
		"no args":     "",
		"no end":      job,
		"no length":   job + "\x0f",
	} {
		if !strings.HasPrefix(name, "no ") {
			args += strings.Repeat("\x00", 100)
		}
		frame := callFrame("Submit", args)
		h, err := ReadHead(bufio.NewReaderSize(bytes.NewReader(frame), 16<<10))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if _, err := h.Weigh(frame, 1<<30); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzWeigh: if a message is light enough, decoding causes no panic, and takes little more memory.
func FuzzWeigh(f *testing.F) {
	methods := []string{"Run", "Submit", "Events", "Cancel", "CancelTasks", "Extend", "Explain", "Cluster"}
	args := richSubmit(3)
	b := make([]byte, args.BLength())
	args.FastWrite(b)
	f.Add(byte(1), b)
	f.Add(byte(0), []byte(request+"\x0c\x00\x02\x0f\x00\x09\x0c"+uint32Text(1000)+strings.Repeat("\x00", 1003)))
	f.Add(byte(8), []byte("\x0c\x00\x00\x0f\x00\x01\x0c"+uint32Text(9)+strings.Repeat("\x00", 20)))
	svc := phoebe.NewServiceInfo()
	const most = 1 << 20
	f.Fuzz(func(t *testing.T, which byte, data []byte) {
		m := svc.Methods[methods[int(which)%len(methods)]]
		into := m.NewArgs()
		if int(which)/len(methods)%2 == 1 {
			into = m.NewResult()
		}
		weight, err := ShapeOf(into).Weigh(data, most)
		if err != nil {
			return
		}
		got := allocatedBytes(func() { _, _ = into.(thrift.FastCodec).FastRead(data) })
		if got > weight+weight/4+most/4 { // the fuzzer itself allocates, too
			t.Errorf("%T: %d bytes were allocated, %d were weighed", into, got, weight)
		}
	})
}

func BenchmarkWeigh(b *testing.B) {
	for _, tasks := range []int{1, 100} {
		b.Run(fmt.Sprint(tasks), func(b *testing.B) {
			j := v1.NewJob()
			for range tasks {
				t := v1.NewTask()
				t.FunctionName, t.Payload = "echo", []byte("payload")
				j.Tasks = append(j.Tasks, t)
			}
			args := &v1.PhoebeRunArgs{Request: &v1.RunRequest{Job: j}}
			buf := make([]byte, args.BLength())
			args.FastWrite(buf)
			shape := ShapeOf(args)
			b.Run("weigh", func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if _, err := shape.Weigh(buf, 1<<20); err != nil {
						b.Fatal(err)
					}
				}
			})
			b.Run("decode", func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if _, err := new(v1.PhoebeRunArgs).FastRead(buf); err != nil {
						b.Fatal(err)
					}
				}
			})
		})
	}
}

// The answer to a Run equals the answer of generated code, for each caller.
func TestRunAnswer(t *testing.T) {
	want := &v1.PhoebeRunResult{
		Success: &v1.RunResponse{Handle: &v1.Handle{Job: "job", Owner: "owner"}, Outcomes: []*v1.Outcome{}}}
	a := NewRunAnswer(want.Success.Handle, 2)
	for i := range 3 { // an outcome more than announced
		o := &v1.Outcome{Task: int32(i), Kind: v1.OutcomeKind_RESULT, Result_: []byte(strings.Repeat("r", 1000*i)),
			Worker: "w", Usage: &v1.Usage{CpuUs: 1}}
		want.Success.Outcomes = append(want.Success.Outcomes, o)
		a.Add(o)
	}
	if got := a.Outcomes(); !reflect.DeepEqual(got, want.Success.Outcomes) {
		t.Errorf("outcomes so far: %v", got)
	}
	a.End()
	args := make([]byte, want.BLength())
	want.FastWriteNocopy(args, nil)
	first := a.FrameFor(7)
	again := a.FrameFor(8)
	for seq, b := range map[int32][]byte{7: first, 8: again} {
		frame := thrift.Binary.AppendMessageBegin(make([]byte, 4), "Run", thrift.REPLY, seq)
		frame = append(frame, args...)
		binary.BigEndian.PutUint32(frame, uint32(len(frame)-4))
		if !bytes.Equal(b, frame) || len(b) != a.Len() {
			t.Errorf("to call %d:\n%q, want\n%q", seq, b, frame)
		}
	}
}
