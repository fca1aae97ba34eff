package exec

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/phoebe-sched/phoebe/probe"
)

// Store is the files of a worker: what does not travel with results and tasks is kept there.
type Store interface {
	// Create begins a file.
	Create() (Draft, error)
	// Fetch returns where a file is, which it fetches from peers if it has to. It stays there until release is called.
	Fetch(ctx context.Context, f probe.File) (path string, release func(), err error)
}

// Draft is a file that is being written. Commit or Abort must follow.
type Draft interface {
	io.Writer
	Commit() (digest [32]byte, err error)
	Abort()
}

const (
	// maxRides is how many bytes of outputs travel with a task's result; 0 of a job without stages: nobody is there to take them.
	maxRides = 256 << 10
	// mostPartitions bounds the outputs of a task.
	mostPartitions = 1 << 16
)

// output is what a function writes into a partition: in memory, until that is too much to travel.
type output struct {
	work   *work
	made   probe.Output
	buf    bytes.Buffer
	draft  Draft
	closed bool
	err    error
}

// Output is where a function leaves what it makes for a partition of later stages: their inputs with this task's stage and
// this partition read it. It counts if the function returns without an error and has closed it. A partition is written once.
//
// What is small travels with the result. The rest becomes a file of the worker's cache, and needs one.
func Output(ctx context.Context, partition int) (io.WriteCloser, error) {
	w := workOf(ctx)
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.over:
		return nil, errors.New("output: the task has ended")
	case partition < 0 || partition >= mostPartitions:
		return nil, fmt.Errorf("output: partition %d: count them from 0 to %d", partition, mostPartitions-1)
	}
	for _, o := range w.outputs {
		if int(o.made.Partition) == partition {
			return nil, fmt.Errorf("output: partition %d was begun before: write it once", partition)
		}
	}
	o := &output{work: w, made: probe.Output{Partition: uint32(partition)}}
	w.outputs = append(w.outputs, o)
	return o, nil
}

// inline is how many bytes of an output may travel.
func (w *work) inline() int {
	if c := w.attempt.Context; c != nil {
		return min(int(c.Inline), maxRides)
	}
	return maxRides
}

func (o *output) Write(b []byte) (int, error) {
	if o.closed || o.err != nil {
		return 0, errors.Join(o.err, os.ErrClosed)
	}
	if o.draft == nil && o.buf.Len()+len(b) > o.work.inline() {
		if err := o.spill(); err != nil {
			return 0, err
		}
	}
	var n int
	if o.draft != nil {
		n, o.err = o.draft.Write(b)
	} else {
		n, _ = o.buf.Write(b)
	}
	o.made.Bytes += uint64(n)
	return n, o.err
}

// spill goes on in a file.
func (o *output) spill() error {
	store := o.work.attempt.Store
	if store == nil {
		o.err = fmt.Errorf("output of partition %d: it is too large to travel with the result, and this worker keeps no files: start it with --cache-dir", o.made.Partition)
		return o.err
	}
	if o.draft, o.err = store.Create(); o.err == nil {
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
	if o.draft == nil && o.err == nil && !o.rides() {
		o.err = o.spill()
	}
	o.closed = true
	switch {
	case o.err != nil:
	case o.draft == nil:
		o.made.Data = o.buf.Bytes()
	default:
		o.made.File = true
		o.made.Digest, o.err = o.draft.Commit()
		o.draft = nil
	}
	return o.err
}

// rides counts the output among those that travel, if there is room.
func (o *output) rides() bool {
	w := o.work
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.rides+o.buf.Len() > maxRides {
		return false
	}
	w.rides += o.buf.Len()
	return true
}

// end is called when the function has returned.
func (o *output) end(counts bool) error {
	if o.draft != nil && (!o.closed || o.err != nil) {
		o.draft.Abort()
	}
	switch {
	case !counts:
		return nil
	case o.err != nil:
		return o.err
	case !o.closed:
		return fmt.Errorf("output of partition %d: the function did not close it", o.made.Partition)
	}
	return nil
}

// Input is an output of a task of an earlier stage.
type Input struct {
	Stage     string // of the task that made it
	Task      int    // its index in the job
	Partition int
	Bytes     int64

	work   *work
	passed *probe.Passed
}

// Inputs are the outputs that were passed to a task, in the order of its inputs that name stages, then of the tasks that
// made them. One that wrote nothing into the partition is left out.
func Inputs(ctx context.Context) []Input {
	w := workOf(ctx)
	if w.attempt.Context == nil {
		return nil
	}
	passed := w.attempt.Context.Inputs
	ins := make([]Input, len(passed))
	for i := range passed {
		p := &passed[i]
		ins[i] = Input{Stage: p.Stage, Task: int(p.Task), Partition: int(p.Partition), Bytes: int64(p.Bytes), work: w, passed: p}
	}
	return ins
}

// InputError says that an output that was passed to a task is nowhere to be had. A function that fails with it has failed
// for lack of input, not by itself.
type InputError struct {
	Stage     string
	Task      int
	Partition int
	Err       error
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
		return nil, in.lost(err)
	}
	return f, nil
}

// Path is where the input is as a file, for reading only. It is there until the function returns.
func (in *Input) Path(ctx context.Context) (string, error) {
	store := in.work.attempt.Store
	if store == nil {
		return "", in.lost(errors.New("this worker keeps no files: start it with --cache-dir"))
	}
	file := probe.File{Digest: in.passed.Digest, Bytes: in.passed.Bytes, Peers: in.passed.Peers}
	if !in.passed.File {
		draft, err := store.Create()
		if err != nil {
			return "", in.lost(err)
		}
		if _, err := draft.Write(in.passed.Data); err != nil {
			draft.Abort()
			return "", in.lost(err)
		}
		if file.Digest, err = draft.Commit(); err != nil {
			return "", in.lost(err)
		}
	}
	path, release, err := store.Fetch(ctx, file)
	if err != nil {
		return "", in.lost(err)
	}
	in.work.mu.Lock()
	over := in.work.over
	if !over {
		in.work.held = append(in.work.held, release)
	}
	in.work.mu.Unlock()
	if over {
		release()
		return "", errors.New("input: the task has ended")
	}
	return path, nil
}

func (in *Input) lost(err error) error {
	return &InputError{Stage: in.Stage, Task: in.Task, Partition: in.Partition, Err: err}
}
