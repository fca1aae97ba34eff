package serve

import (
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/phoebe-sched/phoebe/frontend"
	"github.com/phoebe-sched/phoebe/frontend/frame"
	"github.com/phoebe-sched/phoebe/idl/gen/phoebe/v1"
	"github.com/phoebe-sched/phoebe/probe"
)

// record is what the shell keeps of a job: the outcomes that have not been fetched. Server.mu guards it.
type record struct {
	// What is touched for each task lies together.
	left     int                // tasks without an outcome
	bytes    int                // of results in outcomes, or of the answer
	counted  int                // of these, in the server's sums
	receipts []frontend.Receipt // of outcomes, until their workers may forget the results
	run      bool               // Run waits for the whole of it; else Events fetches it
	phases   bool
	full     bool             // no more tasks of it are to start, as they are too many
	answer   *frame.RunAnswer // of a Run, with the outcomes, but for those in outcomes; nil: not of a Run, or too large
	changed  chan struct{}    // closed when there is something new; nil while nobody waits
	timed    timed

	id       probe.JobID
	number   uint64        // among those under way; 0: it is none of them
	had      int           // so many tasks, in all
	deadline time.Duration // from receipt; 0: none
	once     bool          // some task of it may start only once
	received time.Time
	askers   []asker // of a Run, until it is over

	slab     []v1.Outcome  // room for the outcomes that are to come
	outcomes []*v1.Outcome // in the order in which they came, from cursor base on
	base     int64

	refused  *frontend.RefusedError
	extended frontend.Extended // the answer to the last Extend
	moved    bool

	tooLarge int  // bytes of the results that were too many for Run, and were dropped
	over     bool // every outcome is in
	endedAt  time.Time
	polled   time.Time   // when Events last asked
	polls    int         // Events calls that wait
	kept     bool        // among the ended ones that may be forgotten
	client   *clientConn // from which Run, or Events lately, was called
}

func newRecord(job *frontend.Job, phases bool, now time.Time) *record {
	return &record{
		id: job.ID, had: job.InAll(), deadline: job.Deadline, phases: phases, received: now, polled: now, left: len(job.Tasks),
		once:     slices.ContainsFunc(job.Tasks, func(t frontend.Task) bool { return !t.Retryable }),
		receipts: make([]frontend.Receipt, 0, len(job.Tasks)),
	}
}

var kinds = [...]v1.OutcomeKind{
	frontend.Result: v1.OutcomeKind_RESULT, frontend.Failed: v1.OutcomeKind_FAILED,
	frontend.Cancelled: v1.OutcomeKind_CANCELLED, frontend.DeadlineExceeded: v1.OutcomeKind_DEADLINE_EXCEEDED,
}

var failures = [...]v1.FailureReason{
	frontend.TaskError: v1.FailureReason_TASK_ERROR, frontend.Timeout: v1.FailureReason_TIMEOUT,
	frontend.Lost: v1.FailureReason_LOST, frontend.Poison: v1.FailureReason_POISON,
	frontend.NoWorker: v1.FailureReason_NO_WORKER, frontend.TooLarge: v1.FailureReason_RESULT_TOO_LARGE,
	frontend.Panic: v1.FailureReason_PANIC, frontend.Infrastructure: v1.FailureReason_INFRASTRUCTURE,
	frontend.NoInput: v1.FailureReason_NO_INPUT, frontend.StageFailed: v1.FailureReason_STAGE_FAILED,
}

// scratch is an outcome that is encoded and not kept.
type scratch struct {
	outcome v1.Outcome
	usage   v1.Usage
}

// done adds an outcome. A Run answers with results of at most so many bytes.
func (r *record) done(o *frontend.Outcome, mostOfRun int, s *scratch) {
	r.left--
	r.receipts = append(r.receipts, o.Receipt)
	if r.run {
		r.bytes += len(o.Result)
		for i := range o.Outputs {
			r.bytes += len(o.Outputs[i].Data)
		}
	}
	switch {
	case r.run && r.bytes > mostOfRun:
		r.answer, r.outcomes, r.tooLarge = nil, nil, r.bytes
	case r.run && !r.phases: // else it is not known yet when they are delivered
		s.outcome = v1.Outcome{}
		r.fill(&s.outcome, &s.usage, o)
		r.answer.Add(&s.outcome)
	default:
		if len(r.slab) == 0 {
			r.slab = make([]v1.Outcome, min(r.left+1, 100))
		}
		out := &r.slab[0]
		r.slab = r.slab[1:]
		r.fill(out, &v1.Usage{}, o)
		r.outcomes = append(r.outcomes, out)
		if !r.run {
			r.bytes += weight(out)
		}
	}
	r.notify()
}

// endLate gives those tasks an outcome that were added to a job at another frontend, or on the way here, and came when it had ended.
func (s *Server) endLate(r *record, tasks []frontend.Task) {
	kind := v1.OutcomeKind_CANCELLED
	if r.deadline > 0 && r.endedAt.Sub(r.received) >= r.deadline {
		kind = v1.OutcomeKind_DEADLINE_EXCEEDED
	}
	had := r.had
	for i := range tasks {
		if index := int(tasks[i].Index); index >= had {
			r.had = max(r.had, index+1)
			r.outcomes = append(r.outcomes, &v1.Outcome{Task: int32(index), Kind: kind, Failure: &v1.Failure{
				Reason: v1.FailureReason_TASK_ERROR, Message: "the job had ended when this task was added to it",
			}})
			r.bytes += weight(r.outcomes[len(r.outcomes)-1])
		}
	}
	r.notify()
	s.weigh(r)
}

// fill makes out of o; what was used, if that is known, is in use.
func (r *record) fill(out *v1.Outcome, use *v1.Usage, o *frontend.Outcome) {
	out.Task = int32(o.Task)
	out.Kind = kinds[o.Kind]
	out.Worker = o.Worker
	out.Attempts = int32(o.Attempts)
	out.RunUs = o.Run.Microseconds()
	out.Usage = usageIn(use, &o.Usage)
	switch o.Kind {
	case frontend.Result:
		if out.Result_ = o.Result; out.Result_ == nil {
			out.Result_ = []byte{}
		}
		if o.File != nil {
			out.ResultFile = outputOf(o.File)
		}
	case frontend.Failed:
		out.Failure = &v1.Failure{Reason: failures[o.Failure], Message: o.Message, RetryWhere: v1.Retry(o.Retry), Detail: o.Detail}
		if code := o.Code; code != "" { // o is lent
			out.Failure.Code = &code
		}
	default:
		out.Failure = &v1.Failure{Reason: v1.FailureReason_TASK_ERROR, Message: o.Message}
		if o.Message == "" {
			out.Failure = nil
		}
	}
	for i := range o.Outputs {
		out.Outputs = append(out.Outputs, outputOf(&o.Outputs[i]))
	}
	if r.phases {
		p := &o.Phases
		out.Phases = &v1.Phases{
			SampledUs: p.Sampled.Microseconds(), QueuedUs: p.Queued.Microseconds(), ReadyUs: p.Ready.Microseconds(),
			BoundUs: p.Bound.Microseconds(), StartedUs: p.Started.Microseconds(), FinishedUs: p.Finished.Microseconds(),
		}
	}
}

func outputOf(o *probe.Output) *v1.Output {
	out := &v1.Output{Partition: int32(o.Partition), Bytes: int64(o.Bytes), Data: o.Data}
	if o.File {
		digest := hex.EncodeToString(o.Digest[:])
		out.Sha256 = &digest
	} else if out.Data == nil {
		out.Data = []byte{}
	}
	return out
}

// weight is how many bytes an outcome has, about.
func weight(o *v1.Outcome) int {
	n := 64 + len(o.Result_)
	for _, out := range o.Outputs {
		n += 64 + len(out.Data)
	}
	if f := o.Failure; f != nil {
		n += len(f.Message) + len(f.Detail)
	}
	return n
}

// weigh counts what the client of a submitted job has yet to fetch. A job has at most as much of it as all of them leave free: then
// no more of its tasks start, until its client has fetched about half of that. One whose client reads goes on in any case.
func (s *Server) weigh(r *record) {
	more := r.bytes - r.counted
	s.unread += more
	r.counted = r.bytes
	if r.kept {
		s.ended.bytes += more
	}
	free, full := max(s.cfg.MaxKept-s.unread, 0), r.full
	switch {
	case r.bytes > free:
		full = true
	case 2*r.bytes <= free:
		full = false
	}
	if full != r.full && !r.over {
		r.full = full
		s.later = append(s.later, frontend.Unread{Job: r.id, Full: full})
	}
}

func (r *record) notify() {
	if r.changed != nil {
		close(r.changed)
		r.changed = nil
	}
}

// fetch takes up to most outcomes, or maxAnswer bytes of them, from the cursor on; those before it are
// forgotten, as the client has them. It reports whether there will be no more.
func (r *record) fetch(cursor int64, most int, now time.Time) (batch []*v1.Outcome, next int64, had []frontend.Receipt, done bool) {
	if skip := min(cursor-r.base, int64(len(r.outcomes))); skip > 0 {
		n := min(int(skip), len(r.receipts))
		had, r.receipts = r.receipts[:n], r.receipts[n:]
		for i, o := range r.outcomes[:skip] {
			r.bytes -= weight(o)
			r.outcomes[i] = nil
		}
		r.outcomes = r.outcomes[skip:]
		r.base += skip
	}
	size := 0
	for _, o := range r.outcomes {
		if size += weight(o); len(batch) == most || len(batch) > 0 && size > maxAnswer {
			break
		}
		batch = append(batch, o)
		if r.phases && o.Phases.DeliveredUs == 0 {
			o.Phases.DeliveredUs = now.Sub(r.received).Microseconds()
		}
	}
	next = r.base + int64(len(batch))
	return batch, next, had, r.over && len(batch) == len(r.outcomes)
}

// peek is fetch for a job that was given to Run: its outcomes stay with its answer.
func (r *record) peek(cursor int64, most int) (batch []*v1.Outcome, next int64, done bool) {
	all := r.outcomes
	if r.answer != nil && (r.over || !r.phases) {
		all = r.answer.Outcomes()
	}
	from := min(max(cursor, 0), int64(len(all)))
	next = min(from+int64(most), int64(len(all)))
	return all[from:next], next, r.over && next == int64(len(all))
}

// maxAnswer is how many bytes of results one answer to Events carries, unless a single one is larger.
const maxAnswer = 4 << 20

// endedList is the records of jobs that have ended, oldest first, kept for clients who ask again.
type endedList struct {
	list  []*record
	bytes int
}

// Bounds of what is kept of jobs that have ended. A submitted job whose outcomes were all fetched, or whose Run
// was answered, is only kept for a client that did not get the answer.
const (
	keepEnded      = 30 * time.Second
	keepEndedBytes = 16 << 20
	keepEndedMost  = 1000 // records
)

// endRecord notes that a job is over.
func (s *Server) endRecord(id probe.JobID) {
	r := s.jobs[id]
	if r == nil {
		return
	}
	r.over, r.endedAt = true, time.Now()
	s.recorder.open.remove(r)
	r.notify()
	if r.run {
		s.endRun(r)
	}
	if r.moved { // whoever has the job claims them
		s.drop(r)
	} else {
		s.countJob(r)
	}
	if r.run || r.moved {
		s.keep(r)
	}
}

// forget lets go of a job's record.
func (s *Server) forget(r *record) {
	if s.jobs[r.id] == r {
		delete(s.jobs, r.id)
	}
	s.unread -= r.counted
	r.counted = 0
	s.drop(r)
}

// drop leaves the results that are not known to have arrived to their workers, and to whoever claims them.
func (s *Server) drop(r *record) {
	if len(r.receipts) > 0 {
		s.later = append(s.later, frontend.Dropped{Receipts: r.receipts})
		r.receipts = nil
	}
}

// arriveFor is how long an answer takes to its client at most, as a rule. If it took longer, and was lost with its
// frontend, the tasks run again. Those that may start only once must not: for them there has to be an answer by the
// client, which is its next cursor.
const arriveFor = 100 * time.Millisecond

// answered is a record of which all outcomes were put into an answer.
type answered struct {
	record *record
	at     time.Time
}

// answer notes that all outcomes of an ended job were put into an answer.
func (s *Server) answer(r *record, now time.Time) {
	if !r.once && len(r.receipts) > 0 {
		s.answered = append(s.answered, answered{r, now})
	}
}

// goesOn takes the last answer to a client's Run for one that has arrived: it makes its next call on the same connection.
func (s *Server) goesOn(client *clientConn) {
	if r := s.jobs[client.answered]; r != nil && !r.once {
		s.deliver(r)
	}
}

// deliver lets the workers forget the results of r: the client has them.
func (s *Server) deliver(r *record) {
	if receipts := r.receipts; len(receipts) > 0 {
		r.receipts = nil
		s.stepLocked(frontend.Delivered{Receipts: receipts})
	}
}

// arrived takes the answers that have arrived by now, up to so many: each step does a few.
func (s *Server) arrived(now time.Time, most int) {
	for ; most > 0 && len(s.answered) > 0 && now.Sub(s.answered[0].at) >= arriveFor; most-- {
		r := s.answered[0].record
		s.answered[0] = answered{}
		s.answered = s.answered[1:]
		s.deliver(r)
	}
}

// collect acknowledges all results of a worker that leaves: it waits for that.
func (s *Server) collect(key frontend.Worker) {
	var list []frontend.Receipt
	of := func(r *record) {
		for i, receipt := range r.receipts {
			if receipt.Worker == key {
				list = append(list, receipt)
				r.receipts[i] = frontend.Receipt{}
			}
		}
	}
	for _, r := range s.jobs {
		of(r)
	}
	s.later = append(s.later, frontend.Delivered{Receipts: list})
}

// settle lets go of all results that clients have, or will have when their answers have arrived. It is for the end.
func (s *Server) settle() {
	for _, r := range s.jobs {
		if r.once {
			s.drop(r)
		} else {
			s.later = append(s.later, frontend.Delivered{Receipts: r.receipts})
			r.receipts = nil
		}
	}
}

// keep puts the record of an ended job among those that may be forgotten.
func (s *Server) keep(r *record) {
	r.kept = true
	s.ended.list = append(s.ended.list, r)
	s.ended.bytes += r.bytes
	s.forgetEnded(r.endedAt)
}

func (s *Server) forgetEnded(now time.Time) {
	e := &s.ended
	n := 0
	for ; n < len(e.list); n++ {
		r := e.list[n]
		if len(e.list)-n <= keepEndedMost && e.bytes <= keepEndedBytes && now.Sub(r.endedAt) < keepEnded {
			break
		}
		e.bytes -= r.bytes
		s.forget(r)
		e.list[n] = nil
	}
	e.list = e.list[n:]
}

// sweepJobs cancels the jobs whose clients are gone, and forgets those that ended long ago.
func (s *Server) sweepJobs() {
	s.mu.Lock()
	defer s.unlock()
	s.sweepLocked(time.Now())
}

func (s *Server) sweepLocked(now time.Time) {
	s.swept = now
	s.arrived(now, math.MaxInt)
	for id, r := range s.jobs {
		switch {
		case r.run && !r.over:
			if now.Sub(r.received) > time.Second && r.client != nil && r.client.hungUp() {
				s.log.Info("client is gone, its job is cancelled", "job", id.String())
				s.metrics.clientsLost.Inc()
				s.stepLocked(frontend.Cancel{Job: id, Reason: "its client closed the connection"})
				s.forget(r) // should the client come back, it did not cancel anything
			}
		case !r.run && now.Sub(r.polled) > s.cfg.ClientGrace && (r.polls == 0 || r.client != nil && r.client.hungUp()):
			if !r.over {
				s.log.Info("client has not asked for events, its job is cancelled", "job", id.String())
				s.metrics.clientsLost.Inc()
				s.stepLocked(frontend.Cancel{Job: id, Reason: fmt.Sprintf("its client has not asked for %v", s.cfg.ClientGrace)})
			}
			s.forget(r)
		}
	}
	s.forgetEnded(now)
}
