package exec

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"

	"github.com/phoebe-sched/phoebe/probe"
)

// Store is the files of a worker: what does not travel with results and tasks is kept there.
type Store interface {
	// Create begins a file.
	Create() (Draft, error)
	// Fetch returns where a file is, which it fetches from peers if it has to. It stays there until release is called. The error is
	// fs.ErrNotExist if none of them has it.
	Fetch(ctx context.Context, f probe.File) (path string, release func(), err error)
}

// Draft is a file that is being written. Commit or Abort must follow.
type Draft interface {
	io.Writer
	Commit() (digest [32]byte, err error)
	Abort()
}

const (
	// maxInlineBytes is how many bytes of outputs travel with a task's result; 0 of a job without stages: nobody is there to take them.
	maxInlineBytes = 256 << 10
	// maxPartitions bounds the outputs of a task.
	maxPartitions = probe.ResultPartition
)

// output is what a function writes into a partition: in memory, until that is too much to travel.
type output struct {
	taskCtx *taskContext
	meta    probe.Output
	buf     bytes.Buffer
	draft   Draft
	closed  bool
	err     error
}

// Output is where a function leaves what it makes for a partition of later stages: their inputs with this task's stage and
// this partition read it. It counts if the function returns without an error and has closed it. A partition is written once.
//
// What is small travels with the result. The rest becomes a file of the worker's cache, and needs one.
func Output(ctx context.Context, partition int) (io.WriteCloser, error) {
	if partition < 0 || partition >= maxPartitions {
		return nil, fmt.Errorf("output: partition %d: count them from 0 to %d", partition, maxPartitions-1)
	}
	return taskContextOf(ctx).beginOutput(uint32(partition))
}

// ResultWriter is where a function writes its result, instead of returning it: what is written need not be in memory as a whole. It
// counts if the function returns nothing, without an error, and has closed it.
//
// What is small travels as any result. The rest becomes a file of the worker's cache, and needs one, and a client that asks for that
// by Job.LargeResults: it reads the result with Client.Open.
func ResultWriter(ctx context.Context) (io.WriteCloser, error) {
	return taskContextOf(ctx).beginOutput(probe.ResultPartition)
}

func (w *taskContext) beginOutput(partition uint32) (*output, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended {
		return nil, errors.New("output: the task has ended")
	}
	o := &output{taskCtx: w, meta: probe.Output{Partition: partition}}
	for _, other := range w.outputs {
		if other.meta.Partition == partition {
			return nil, fmt.Errorf("%s was begun before: write it once", o.displayName())
		}
	}
	w.outputs = append(w.outputs, o)
	return o, nil
}

// mayReturnFile reports whether the result of an attempt may be a file.
func (t *Attempt) mayReturnFile() bool { return t.Context != nil && t.Context.Large }

// newResult is where a result is written of which nobody knows yet how large it is.
func newResult(t *Attempt) *output {
	return &output{taskCtx: newTaskContext(t), meta: probe.Output{Partition: probe.ResultPartition}}
}

// setResult makes what was written to o the task's result.
func (r *Result) setResult(o *output) {
	if err := o.endOutput(true); err != nil {
		r.setFailure(err)
		return
	}
	r.addOutput(o)
}

// addOutput adds what was written to o, which has ended well.
func (r *Result) addOutput(o *output) {
	if o.isResult() && !o.meta.File {
		r.Output = o.meta.Data
	} else {
		r.Passed = append(r.Passed, o.meta)
	}
}

// setFailure says why what a task has written cannot be kept.
func (r *Result) setFailure(err error) {
	r.Status, r.Err, r.Output, r.Passed = Failed, clipText(err.Error()), nil, nil
	if _, size := errors.AsType[*sizeError](err); size {
		r.Status = TooLarge
	}
}

// isResult reports whether this is the task's result.
func (o *output) isResult() bool { return o.meta.Partition == probe.ResultPartition }

// displayName is what it is called in errors.
func (o *output) displayName() string {
	if o.isResult() {
		return "the result"
	}
	return fmt.Sprintf("the output of partition %d", o.meta.Partition)
}

// inlineLimit is how many bytes of it may travel.
func (o *output) inlineLimit() int {
	t := &o.taskCtx.attempt
	switch {
	case o.isResult() && t.MaxResult > 0:
		return t.MaxResult
	case o.isResult():
		return math.MaxInt
	case t.Context != nil:
		return min(int(t.Context.Inline), maxInlineBytes)
	}
	return maxInlineBytes
}

// sizeError says that a result is too large to travel, and may not be a file.
type sizeError struct{ text string }

func (e *sizeError) Error() string { return e.text }

// whyNoFile says why it cannot become a file, or nil.
func (o *output) whyNoFile() error {
	t := &o.taskCtx.attempt
	switch {
	case o.isResult() && !t.mayReturnFile():
		return &sizeError{tooLarge("longer", t.MaxResult)}
	case o.isResult() && t.Store == nil:
		return &sizeError{tooLarge("longer", t.MaxResult) + "; or start this worker with --cache-dir, so that it can be a file"}
	case t.Store == nil:
		return fmt.Errorf("%s: it is too large to travel with the result, and this worker keeps no files: start it with --cache-dir", o.displayName())
	}
	return nil
}

func (o *output) Write(b []byte) (int, error) {
	if o.closed || o.err != nil {
		return 0, errors.Join(o.err, os.ErrClosed)
	}
	if o.draft == nil && len(b) > o.inlineLimit()-o.buf.Len() {
		if err := o.spillToFile(); err != nil {
			return 0, err
		}
	}
	var n int
	if o.draft != nil {
		n, o.err = o.draft.Write(b)
	} else {
		n, _ = o.buf.Write(b)
	}
	o.meta.Bytes += uint64(n)
	return n, o.err
}

// spillToFile goes on in a file.
func (o *output) spillToFile() error {
	if o.err = o.whyNoFile(); o.err != nil {
		return o.err
	}
	if o.draft, o.err = o.taskCtx.attempt.Store.Create(); o.err == nil {
		_, o.err = o.draft.Write(o.buf.Bytes())
	}
	o.buf = bytes.Buffer{}
	return o.err
}

// Close completes the output.
func (o *output) Close() error {
	if o.closed {
		return nil
	}
	if o.draft == nil && o.err == nil && !o.takeInlineRoom() {
		o.err = o.spillToFile()
	}
	o.closed = true
	switch {
	case o.err != nil:
	case o.draft == nil:
		o.meta.Data = o.buf.Bytes()
	default:
		o.meta.File = true
		o.meta.Digest, o.err = o.draft.Commit()
		o.draft = nil
	}
	return o.err
}

// takeInlineRoom counts the output among those that travel, if there is room.
func (o *output) takeInlineRoom() bool {
	if o.isResult() {
		return true
	}
	w := o.taskCtx
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.inlineBytes+o.buf.Len() > maxInlineBytes {
		return false
	}
	w.inlineBytes += o.buf.Len()
	return true
}

// endOutput is called when the function has returned.
func (o *output) endOutput(counts bool) error {
	if o.draft != nil && (!o.closed || o.err != nil) {
		o.draft.Abort()
	}
	switch {
	case !counts:
		return nil
	case o.err != nil:
		return o.err
	case !o.closed:
		return fmt.Errorf("%s: the function did not close it", o.displayName())
	}
	return nil
}

// Input is an output of a task of an earlier stage.
type Input struct {
	Stage     string // of the task that made it
	Task      int    // its index in the job
	Partition int
	Bytes     int64

	taskCtx *taskContext
	passed  *probe.Passed
}

// Inputs are the outputs that were passed to a task, in the order of its inputs that name stages, then of the tasks that
// made them. One that wrote nothing into the partition is left out.
func Inputs(ctx context.Context) []Input {
	w := taskContextOf(ctx)
	if w.attempt.Context == nil {
		return nil
	}
	passed := w.attempt.Context.Inputs
	ins := make([]Input, len(passed))
	for i := range passed {
		p := &passed[i]
		ins[i] = Input{Stage: p.Stage, Task: int(p.Task), Partition: int(p.Partition), Bytes: int64(p.Bytes), taskCtx: w, passed: p}
	}
	return ins
}

// InputError says that an output that was passed to a task is nowhere to be had. A function that fails with it has failed
// for lack of input, not by itself: it is tried again, and where the worker is gone that had it, after it was made again.
type InputError struct {
	Stage     string
	Task      int
	Partition int
	Err       error

	file probe.Output
}

func (e *InputError) Error() string {
	return fmt.Sprintf("output of task %d of stage %q in partition %d: %v", e.Task, e.Stage, e.Partition, e.Err)
}

func (e *InputError) Unwrap() error { return e.Err }

// Open reads the input. If it is a file of another worker's cache, it is fetched first.
func (in *Input) Open(ctx context.Context) (io.ReadCloser, error) {
	if !in.passed.File {
		return io.NopCloser(bytes.NewReader(in.passed.Data)), nil
	}
	path, err := in.Path(ctx)
	if err != nil {
		return nil, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, in.inputError(err)
	}
	return f, nil
}

// Path is where the input is as a file, for reading only. It is there until the function returns.
func (in *Input) Path(ctx context.Context) (string, error) {
	store := in.taskCtx.attempt.Store
	if store == nil {
		return "", in.inputError(errors.New("this worker keeps no files: start it with --cache-dir"))
	}
	file := probe.File{Digest: in.passed.Digest, Bytes: in.passed.Bytes, Peers: in.passed.Peers}
	if !in.passed.File {
		draft, err := store.Create()
		if err != nil {
			return "", in.inputError(err)
		}
		if _, err := draft.Write(in.passed.Data); err != nil {
			draft.Abort()
			return "", in.inputError(err)
		}
		if file.Digest, err = draft.Commit(); err != nil {
			return "", in.inputError(err)
		}
	}
	path, release, err := store.Fetch(ctx, file)
	if err != nil {
		return "", in.inputError(err)
	}
	in.taskCtx.mu.Lock()
	ended := in.taskCtx.ended
	if !ended {
		in.taskCtx.releases = append(in.taskCtx.releases, release)
	}
	in.taskCtx.mu.Unlock()
	if ended {
		release()
		return "", errors.New("input: the task has ended")
	}
	return path, nil
}

func (in *Input) inputError(err error) error {
	return &InputError{Stage: in.Stage, Task: in.Task, Partition: in.Partition, Err: err, file: in.passed.Output}
}
