package client

import (
	"context"
	"fmt"
	"io"
	"iter"

	"github.com/phoebe-sched/phoebe/idl/typed"
)

// JobOption changes the job of a Call, Map or Stream before its submission. The job has a task for each argument, and
// must keep these tasks in their order:
//
//	client.Map(ctx, c, Area, ins, func(job *client.Job) { job.Tenant = "etl" })
type JobOption func(*Job)

// Result is a task's result in Stream. Task is the position of its argument.
type Result[Out any] struct {
	Value Out // the zero value if the task failed
	Outcome
}

// NewTask returns a task that calls f with in, for jobs of several functions or stages. Read the result by f.DecodeOut.
func NewTask[In, Out any](f typed.Func[In, Out], in In) (Task, error) {
	payload, err := f.EncodeIn(in)
	if err != nil {
		return Task{}, fmt.Errorf("call %s: %w", f.Name, err)
	}
	return Task{Function: f.Name, Payload: payload}, nil
}

// Call runs f once with the argument in, and returns the result. Errors are as of [Client.Run]. If the function
// returned an error of a type in f.Errors, errors.As finds the error inside the *TaskError.
func Call[In, Out any](
	ctx context.Context, c *Client, f typed.Func[In, Out], in In, opts ...JobOption,
) (out Out, err error) {
	outs, err := Map(ctx, c, f, []In{in}, opts...)
	if len(outs) > 0 {
		out = outs[0]
	}
	return out, err
}

// Map runs f once for each of ins, all in one job, and returns the results in the order of ins. The error is nil only
// if all tasks have results. Otherwise the error is as of [Client.Run], and tasks without a result have zero values.
// If a frontend refused the job, there are no values. Stream tells the error of each task.
func Map[In, Out any](
	ctx context.Context, c *Client, f typed.Func[In, Out], ins []In, opts ...JobOption,
) ([]Out, error) {
	job, err := newTypedJob(f, ins, opts)
	if err != nil || len(ins) == 0 {
		return nil, err
	}
	outcomes, err := c.Run(ctx, job)
	if err != nil && len(outcomes) == 0 {
		return nil, err
	}
	outs := make([]Out, len(ins))
	for i := range outcomes { // the tasks in Job.Stored have none
		var taskErr error
		if outs[outcomes[i].Task], taskErr = readTyped(ctx, c, f, &outcomes[i]); err == nil {
			err = taskErr
		}
	}
	return outs, err
}

// Stream runs f once for each of ins, all in one job, and yields the results as the tasks end. The error beside a
// result is the error of its task, as of Call. If the job itself fails, the last pair has Task -1, and the job's error.
// If you leave the loop, the rest of the job is cancelled.
func Stream[In, Out any](
	ctx context.Context, c *Client, f typed.Func[In, Out], ins []In, opts ...JobOption,
) iter.Seq2[Result[Out], error] {
	return func(yield func(Result[Out], error) bool) {
		failJob := func(err error) { yield(Result[Out]{Outcome: Outcome{Task: -1, Err: err}}, err) }
		job, err := newTypedJob(f, ins, opts)
		if err != nil {
			failJob(err)
			return
		}
		if len(ins) == 0 {
			return
		}
		ctx, cancel := context.WithCancel(ctx)
		defer cancel() // cancels the unfinished tasks
		running, err := c.Submit(ctx, job)
		if err != nil {
			failJob(err)
			return
		}
		for o, err := range running.Results() {
			r := Result[Out]{Outcome: o}
			if o.Task >= 0 {
				r.Value, err = readTyped(ctx, c, f, &r.Outcome)
			}
			if !yield(r, err) {
				return
			}
		}
	}
}

// newTypedJob returns the job that calls f for each of ins.
func newTypedJob[In, Out any](f typed.Func[In, Out], ins []In, opts []JobOption) (Job, error) {
	job := Job{Tasks: make([]Task, len(ins))}
	for i, in := range ins {
		var err error
		if job.Tasks[i], err = NewTask(f, in); err != nil {
			return Job{}, fmt.Errorf("argument %d: %w", i, err)
		}
	}
	for _, o := range opts {
		o(&job)
	}
	if len(job.Tasks) != len(ins) || job.Open {
		return Job{}, &RefusedError{Reason: Invalid, Message: fmt.Sprintf(
			"the options of a call of %s made a job of %d tasks from %d arguments, open: %v: use Submit for such a job",
			f.Name, len(job.Tasks), len(ins), job.Open)}
	}
	return job, nil
}

// readTyped returns the value of an outcome. If f.Errors has the type of the function's error, the outcome's
// TaskError gets the error. An unreadable result becomes the outcome's error.
func readTyped[In, Out any](ctx context.Context, c *Client, f typed.Func[In, Out], o *Outcome) (out Out, err error) {
	if failed, is := o.Err.(*TaskError); is && failed.Code != "" {
		failed.Cause = f.DecodeError(failed.Code, failed.Detail)
	}
	if o.Err != nil {
		return out, o.Err
	}
	data := o.Result
	if o.File.SHA256 != "" {
		data, o.Err = c.readAll(ctx, *o)
	}
	if o.Err == nil {
		if out, err = f.DecodeOut(data); err != nil {
			o.Err = fmt.Errorf("task %d: result of %s: %w", o.Task, f.Name, err)
		}
	}
	return out, o.Err
}

// readAll returns a result that was too large to travel with its outcome.
func (c *Client) readAll(ctx context.Context, o Outcome) ([]byte, error) {
	r, err := c.Open(ctx, o)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(r)
}
