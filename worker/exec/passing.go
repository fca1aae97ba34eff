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

// Store is the file cache of a worker. It holds outputs too large to travel with results and tasks.
type Store interface {
	// Create begins a file.
	Create() (Draft, error)
	// Fetch returns the path of a file, and fetches the file from peers if necessary. The file stays until the
	// caller calls release. The error is fs.ErrNotExist if no peer has the file.
	Fetch(ctx context.Context, f probe.File) (path string, release func(), err error)
	// IsDiskFailure reports whether err, of the store or a Draft, comes from a failing disk.
	IsDiskFailure(err error) bool
}

// Draft is a file while its task writes it. The writer must call Commit or Abort.
type Draft interface {
	io.Writer
	// Commit completes the file, and returns its digest and path. The file stays until the caller calls release.
	Commit() (digest [32]byte, path string, release func(), err error)
	Abort()
}

const (
	// maxInlineBytes bounds the output bytes that travel with a task's result. A job without stages has a limit of
	// 0 (Context.Inline), because no task takes its outputs.
	maxInlineBytes = 256 << 10
	// maxPartitions bounds the outputs of a task.
	maxPartitions = probe.ResultPartition
)

// output is a function's output for a partition. It stays in memory while it is small enough to travel.
type output struct {
	taskCtx *taskContext
	meta    probe.Output
	buf     bytes.Buffer
	draft   Draft
	closed  bool
	err     error
}

// Output opens the function's output for a partition of later stages. Inputs of later stages name this task's stage
// and the partition to read the output. An output counts if the function closes it and returns without an error. A
// function may open each partition once.
//
// A small output travels with the result. A larger output becomes a file in the worker's cache, so it needs a
// worker with a cache.
func Output(ctx context.Context, partition int) (io.WriteCloser, error) {
	if partition < 0 || partition >= maxPartitions {
		return nil, fmt.Errorf("output: partition %d: count them from 0 to %d", partition, maxPartitions-1)
	}
	return taskContextOf(ctx).beginOutput(uint32(partition))
}

// ResultWriter opens the task's result for writing, as an alternative to returning the result. A written result need
// not be in memory as a whole. The result counts if the function closes the writer and returns an empty result
// without an error.
//
// A small result travels like any other. A larger result becomes a file in the worker's cache. So it needs a worker
// with a cache and a client that sets Job.LargeResults and reads the result by Client.Open.
func ResultWriter(ctx context.Context) (io.WriteCloser, error) {
	return taskContextOf(ctx).beginOutput(probe.ResultPartition)
}

// beginOutput opens the output of a partition, or the result. It fails for a second output of a partition.
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

// mayReturnFile reports whether the attempt's result may be a file.
func (t *Attempt) mayReturnFile() bool { return t.Context != nil && t.Context.Large }

// newResultOutput returns an output for a result of unknown size, outside the outputs that a function has opened.
func newResultOutput(t *Attempt) *output {
	return &output{taskCtx: newTaskContext(t), meta: probe.Output{Partition: probe.ResultPartition}}
}

// setResult makes o the task's result. If o failed, the task fails.
func (r *Result) setResult(o *output) {
	if err := o.endOutput(true); err != nil {
		r.setFailure(err)
		r.noteDisk(&o.taskCtx.attempt, err)
		return
	}
	r.addOutput(o)
}

// addOutput adds o, which has ended well, to the result.
func (r *Result) addOutput(o *output) {
	if o.isResult() && !o.meta.File {
		r.Output = o.meta.Data
	} else {
		r.Passed = append(r.Passed, o.meta)
	}
}

// setFailure makes the task fail with err, and drops its output.
func (r *Result) setFailure(err error) {
	r.Status, r.Err, r.Output, r.Passed = Failed, clipText(err.Error()), nil, nil
	if _, size := errors.AsType[*sizeError](err); size {
		r.Status = TooLarge
	}
}

// noteDisk notes the cause of a failed task, if err comes from a failing disk.
func (r *Result) noteDisk(t *Attempt, err error) {
	if t.Store != nil && t.Store.IsDiskFailure(err) {
		r.DiskFailed, r.Retry = true, Elsewhere
	}
}

// isResult reports whether o is the task's result.
func (o *output) isResult() bool { return o.meta.Partition == probe.ResultPartition }

// displayName names o in errors.
func (o *output) displayName() string {
	if o.isResult() {
		return "the result"
	}
	return fmt.Sprintf("the output of partition %d", o.meta.Partition)
}

// inlineLimit returns how many bytes of o may travel with the result.
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

// sizeError means: a result is too large to travel and may not be a file.
type sizeError struct{ text string }

func (e *sizeError) Error() string { return e.text }

// whyNoFile returns why o cannot become a file, or nil if it can.
func (o *output) whyNoFile() error {
	t := &o.taskCtx.attempt
	switch {
	case o.isResult() && !t.mayReturnFile():
		return &sizeError{tooLargeText("longer", t.MaxResult)}
	case o.isResult() && t.Store == nil:
		return &sizeError{tooLargeText("longer", t.MaxResult) + "; or start this worker with --cache-dir to allow a file"}
	case t.Store == nil:
		return fmt.Errorf(
			"%s is too large to travel with the result: start this worker with --cache-dir, so that it may be a file",
			o.displayName())
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

// spillToFile moves o from memory into a file of the worker's cache. Later writes go to the file.
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
		var release func()
		if o.meta.Digest, _, release, o.err = o.draft.Commit(); o.err == nil {
			release()
		}
		o.draft = nil
	}
	return o.err
}

// takeInlineRoom reserves room for o among the bytes that travel with the result. It returns false if there is no
// room.
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

// endOutput ends o when the function has returned. An unfinished file is aborted. If the task succeeded otherwise,
// endOutput returns an error if o failed or is still open.
func (o *output) endOutput(taskSucceeded bool) error {
	if o.draft != nil && (!o.closed || o.err != nil) {
		o.draft.Abort()
	}
	switch {
	case !taskSucceeded:
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
	Stage     string // stage of the task that wrote the output
	Task      int    // index in the job of the task that wrote the output
	Partition int
	Bytes     int64

	taskCtx *taskContext
	passed  *probe.Passed
}

// Inputs returns the outputs passed to a task, in the order of the stages in the task's Inputs. Outputs of the same
// stage are in the order of their tasks. A task that wrote nothing into the partition is left out.
func Inputs(ctx context.Context) []Input {
	w := taskContextOf(ctx)
	if w.attempt.Context == nil {
		return nil
	}
	passed := w.attempt.Context.Inputs
	ins := make([]Input, len(passed))
	for i := range passed {
		p := &passed[i]
		ins[i] = Input{
			Stage: p.Stage, Task: int(p.Task), Partition: int(p.Partition), Bytes: int64(p.Bytes), taskCtx: w,
			passed: p,
		}
	}
	return ins
}

// InputError means: an output passed to a task cannot be read. A function that returns an InputError fails for lack
// of input, not by itself. The scheduler retries its task. If the worker with the output is gone, the output is
// made again first.
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

// Open opens the input for reading. If the input is a file of another worker's cache, Open fetches the file first.
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

// Path returns the path of the input as a file, for reading only. The file stays until the function returns.
func (in *Input) Path(ctx context.Context) (string, error) {
	store := in.taskCtx.attempt.Store
	if store == nil {
		return "", in.inputError(errors.New("this worker keeps no files: start the worker with --cache-dir"))
	}
	path, release, err := in.storeFile(ctx, store)
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

// storeFile makes the input a file of the store: it fetches the file, or writes an input that came with the task.
func (in *Input) storeFile(ctx context.Context, store Store) (path string, release func(), err error) {
	if in.passed.File {
		return store.Fetch(ctx, probe.File{Digest: in.passed.Digest, Bytes: in.passed.Bytes, Peers: in.passed.Peers})
	}
	draft, err := store.Create()
	if err != nil {
		return "", nil, err
	}
	if _, err := draft.Write(in.passed.Data); err != nil {
		draft.Abort()
		return "", nil, err
	}
	_, path, release, err = draft.Commit()
	return path, release, err
}

func (in *Input) inputError(err error) error {
	return &InputError{Stage: in.Stage, Task: in.Task, Partition: in.Partition, Err: err, file: in.passed.Output}
}
