package frame

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/cloudwego/gopkg/bufiox"
	"github.com/cloudwego/gopkg/protocol/thrift"

	"github.com/phoebe-sched/phoebe/idl/gen/phoebe/v1"
)

// wholeFrame makes a frame with a struct.
func wholeFrame(method string, kind thrift.TMessageType, seq int32, s thrift.FastCodec) []byte {
	b := thrift.Binary.AppendMessageBegin(make([]byte, prefixSize), method, kind, seq)
	return endFrame(appendStruct(b, s))
}

// AppendCall writes the same bytes as generated code.
func TestAppendCall(t *testing.T) {
	for _, req := range []*v1.RunRequest{{Job: v1.NewJob()},
		{Caller: richSubmit(3).Request.Caller, Job: richSubmit(3).Request.Job}} {
		want := wholeFrame("Run", thrift.CALL, 7, &v1.PhoebeRunArgs{Request: req})
		if got := AppendCall(make([]byte, 0, 8), "Run", 7, req); !bytes.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

var (
	answered = &v1.RunResponse{Handle: &v1.Handle{Job: "job", Owner: "owner"}, Outcomes: []*v1.Outcome{
		{Task: 0, Kind: v1.OutcomeKind_RESULT, Result_: []byte("result"), Worker: "w", Attempts: 1,
			Usage: &v1.Usage{CpuUs: 1}},
		{Task: 1, Kind: v1.OutcomeKind_FAILED, Failure: &v1.Failure{Reason: v1.FailureReason_LOST, Message: "lost"}},
	}}
	refused = &v1.Refused{Reason: v1.RefusedReason_OVERLOADED, Message: "later", RetryAfterUs: 5}
	thrown  = thrift.NewApplicationException(thrift.INTERNAL_ERROR, "oh")
)

// readRun reads the answer to a call of Run.
func readRun(in Buffered, seq int32, most int) (*v1.RunResponse, error) {
	var res v1.PhoebeRunResult
	if err := ReadAnswer(in, "Run", seq, most, &res); err != nil {
		return nil, err
	}
	if res.Refused != nil {
		return nil, res.Refused
	}
	return res.Success, nil
}

// Answers are read in order, in whatever pieces they come.
func TestReadAnswer(t *testing.T) {
	all := joinFrames(
		wholeFrame("Run", thrift.REPLY, 1, &v1.PhoebeRunResult{Success: answered}),
		wholeFrame("Run", thrift.REPLY, 2, &v1.PhoebeRunResult{Refused: refused}),
		wholeFrame("Run", thrift.EXCEPTION, 3, thrown),
		wholeFrame("Run", thrift.REPLY, 4, &v1.PhoebeRunResult{}),
	)
	for name, from := range map[string]io.Reader{"at once": bytes.NewReader(all),
		"bytes": iotest.OneByteReader(bytes.NewReader(all))} {
		in := bufiox.NewDefaultReader(from)
		res, err := readRun(in, 1, 1<<20)
		if err != nil || !reflect.DeepEqual(res, answered) {
			t.Errorf("%s: %v, %v", name, res, err)
		}
		var r *v1.Refused
		if _, err := readRun(in, 2, 1<<20); !errors.As(err, &r) || *r != *refused {
			t.Errorf("%s: %v", name, err)
		}
		var e *thrift.ApplicationException
		if _, err := readRun(in, 3, 1<<20); !errors.As(err, &e) || *e != *thrown {
			t.Errorf("%s: %v", name, err)
		}
		if res, err := readRun(in, 4, 1<<20); res != nil || err != nil {
			t.Errorf("%s: nothing is %v, %v", name, res, err)
		}
		if _, err := readRun(in, 5, 1<<20); !errors.Is(err, io.EOF) {
			t.Errorf("%s: at the end: %v", name, err)
		}
	}
}

func joinFrames(frames ...[]byte) []byte { return bytes.Join(frames, nil) }

// An answer to another call is an error, and so is an answer that takes too much memory.
func TestReadAnswerOfOthers(t *testing.T) {
	good := &v1.PhoebeRunResult{Success: answered}
	for name, b := range map[string][]byte{
		"another call": wholeFrame("Run", thrift.REPLY, 2, good),
		"another one":  wholeFrame("Submit", thrift.REPLY, 1, good),
		"a call":       wholeFrame("Run", thrift.CALL, 1, good),
		"garbage":      []byte(strings.Repeat("garbage", 100)),
		"cut off":      wholeFrame("Run", thrift.REPLY, 1, good)[:100],
		"large": wholeFrame("Run", thrift.REPLY, 1,
			&v1.PhoebeRunResult{Refused: &v1.Refused{Message: strings.Repeat("m", 5000)}}),
		"bad": wholeFrame("Run", thrift.REPLY, 1, thrown)[:20],
		"bad exception": append(
			endFrame(thrift.Binary.AppendMessageBegin(make([]byte, prefixSize), "Run", thrift.EXCEPTION, 1)), 0, 0),
	} {
		if res, err := readRun(bufiox.NewDefaultReader(bytes.NewReader(b)), 1, 4000); err == nil {
			t.Errorf("%s: %v", name, res)
		}
	}
}

// A field of an exception that is not known is skipped, wherever the field ends.
func TestReadAnswerOfUnknownException(t *testing.T) {
	b := thrift.Binary.AppendMessageBegin(make([]byte, prefixSize), "Run", thrift.EXCEPTION, 1)
	b = thrift.Binary.AppendString(thrift.Binary.AppendFieldBegin(b, thrift.STRING, 1), "lost")
	b = thrift.Binary.AppendString(thrift.Binary.AppendFieldBegin(b, thrift.STRING, 9), "new")
	b = thrift.Binary.AppendI32(thrift.Binary.AppendFieldBegin(b, thrift.I32, 2), thrift.INTERNAL_ERROR)
	b = endFrame(append(b, byte(thrift.STOP)))
	var e *thrift.ApplicationException
	_, err := readRun(bufiox.NewDefaultReader(bytes.NewReader(b)), 1, 1<<20)
	if !errors.As(err, &e) || *e != *thrift.NewApplicationException(thrift.INTERNAL_ERROR, "lost") {
		t.Errorf("got %v", err)
	}
}

// FuzzReadAnswer: any bytes are read without a panic, and in not much more memory than allowed.
func FuzzReadAnswer(f *testing.F) {
	f.Add(wholeFrame("Run", thrift.REPLY, 1, &v1.PhoebeRunResult{Success: answered}))
	f.Add(wholeFrame("Run", thrift.REPLY, 1, &v1.PhoebeRunResult{Refused: refused}))
	f.Add(wholeFrame("Run", thrift.EXCEPTION, 1, thrown))
	b := wholeFrame("Run", thrift.REPLY, 1, &v1.PhoebeRunResult{Success: answered})
	for range 20 {
		b := bytes.Clone(b)
		b[rand.IntN(len(b))] ^= 1 << rand.IntN(8)
		f.Add(b)
	}
	const most = 1 << 16
	f.Fuzz(func(t *testing.T, b []byte) {
		got := allocatedBytes(func() { _, _ = readRun(bufiox.NewDefaultReader(bytes.NewReader(b)), 1, most) })
		if got > 4*most+2*len(b)+1<<18 { // the reader and the fuzzer allocate, too
			t.Errorf("%d bytes were allocated for %d", got, len(b))
		}
	})
}

// Kitex sees from the error itself that time has run out. Otherwise Kitex would log each call that was given up.
func TestReadAnswerTimesOut(t *testing.T) {
	for _, partial := range []string{"", uint32Text(40) + bytesText(0x80, 1, 0, 2)} {
		late := iotest.ErrReader(os.ErrDeadlineExceeded)
		in := bufiox.NewDefaultReader(io.MultiReader(strings.NewReader(partial), late))
		_, err := readRun(in, 1, 1<<20)
		if ne, ok := err.(net.Error); !ok || !ne.Timeout() || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("after %d bytes: %v (%T)", len(partial), err, err)
		}
	}
	_, err := readRun(bufiox.NewDefaultReader(strings.NewReader("")), 1, 1<<20)
	if ne, ok := err.(net.Error); ok && ne.Timeout() {
		t.Errorf("the end of a connection counts as a timeout: %v", err)
	}
}
