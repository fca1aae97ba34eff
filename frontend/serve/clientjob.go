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

// clientJob is a job as the shell keeps it: the client's view, with the outcomes to be fetched. Server.mu guards
// it.
type clientJob struct {
	// Fields touched for each task lie together.
	unfinished   int                // tasks without an outcome
	bytes        int                // of results in outcomes, or of the answer
	countedBytes int                // the part of bytes counted in the server's sums
	receipts     []frontend.Receipt // of outcomes, until their workers may forget the results
	isRun        bool               // the client called Run and gets all outcomes at once; else Events fetches them
	wantsPhases  bool
	// The caller whose call for events was written to the audit log last; nil: none, or there is no log.
	auditedEvents *callerIdentity
	paused        bool // no more tasks start, because too many results are unfetched
	// The answer to a Run, with all outcomes except those in outcomes. nil: the job was not given to Run, or the
	// answer is too large.
	runAnswer *frame.RunAnswer
	changed   chan struct{} // closed when there is news; nil while no call waits
	timing    jobTiming

	id           probe.JobID
	openNumber   uint64        // number among the jobs under way; 0: not under way
	totalTasks   int           // all tasks ever, ended ones included
	deadline     time.Duration // from receipt; 0: none
	hasOnceTasks bool          // some task may start only once
	receivedAt   time.Time
	waitingRuns  []waitingRun // calls of Run that wait for the job to end

	slab       []v1.Outcome  // room for outcomes to come
	outcomes   []*v1.Outcome // in order of arrival, from cursor baseCursor on
	baseCursor int64

	// A shared job has several clients. If a client has fetched an outcome, the job keeps the outcome for the others.
	isShared          bool
	fetched           int           // number of fetched outcomes, at the head of outcomes; bytes leaves them out
	fetchedBytes      int           // size of the fetched outcomes
	countedFetched    int           // the part of fetchedBytes counted in Server.fetchedBytes
	firstSubmittedAt  time.Time     // here or at another frontend, as far as the clients know
	grace             time.Duration // how long the job goes on without a call of Events
	submitterPolledAt time.Time     // last call of Events by a client that submitted the job, not by a follower

	refused  *frontend.RefusedError
	extended frontend.Extended // the answer to the last Extend
	moved    bool

	tooLargeBytes int  // bytes of the results that were too many for Run, and were dropped
	ended         bool // every outcome is in
	endedAt       time.Time
	polledAt      time.Time     // time of the last call of Events; of a Run, of a call that waits; zero: none yet
	waitingPolls  []*clientConn // connections of the Events calls that wait; nil: not a client's
	inEndedList   bool          // in Server.endedJobs, and may be forgotten
}

func newClientJob(job *frontend.Job, phases bool, now time.Time) *clientJob {
	return &clientJob{
		id: job.ID, totalTasks: job.TotalTasks(), deadline: job.Deadline, wantsPhases: phases, receivedAt: now,
		polledAt: now, submitterPolledAt: now, unfinished: len(job.Tasks),
		hasOnceTasks: slices.ContainsFunc(job.Tasks, func(t frontend.Task) bool { return !t.Retryable }),
		receipts:     make([]frontend.Receipt, 0, len(job.Tasks)),
	}
}

var outcomeKinds = [...]v1.OutcomeKind{
	frontend.Result: v1.OutcomeKind_RESULT, frontend.Failed: v1.OutcomeKind_FAILED,
	frontend.Cancelled: v1.OutcomeKind_CANCELLED, frontend.DeadlineExceeded: v1.OutcomeKind_DEADLINE_EXCEEDED,
}

var failureReasons = [...]v1.FailureReason{
	frontend.TaskError: v1.FailureReason_TASK_ERROR, frontend.Timeout: v1.FailureReason_TIMEOUT,
	frontend.Lost: v1.FailureReason_LOST, frontend.Poison: v1.FailureReason_POISON,
	frontend.NoWorker: v1.FailureReason_NO_WORKER, frontend.TooLarge: v1.FailureReason_RESULT_TOO_LARGE,
	frontend.Panic: v1.FailureReason_PANIC, frontend.Infrastructure: v1.FailureReason_INFRASTRUCTURE,
	frontend.NoInput: v1.FailureReason_NO_INPUT, frontend.StageFailed: v1.FailureReason_STAGE_FAILED,
}

// outcomeScratch is room for an outcome that is encoded and not kept.
type outcomeScratch struct {
	outcome v1.Outcome
	usage   v1.Usage
}

// addOutcome adds an outcome. maxRunResult bounds the result bytes of a Run's answer. A larger answer is dropped.
func (r *clientJob) addOutcome(o *frontend.Outcome, maxRunResult int, s *outcomeScratch) {
	r.unfinished--
	r.receipts = append(r.receipts, o.Receipt)
	if r.isRun {
		r.bytes += len(o.Result)
		for i := range o.Outputs {
			r.bytes += len(o.Outputs[i].Data)
		}
	}
	switch {
	case r.isRun && r.bytes > maxRunResult:
		r.runAnswer, r.outcomes, r.tooLargeBytes = nil, nil, r.bytes
	case r.isRun && !r.wantsPhases: // with phases, the time of delivery is not known yet
		s.outcome = v1.Outcome{}
		r.fillOutcome(&s.outcome, &s.usage, o)
		r.runAnswer.Add(&s.outcome)
	default:
		if len(r.slab) == 0 {
			r.slab = make([]v1.Outcome, min(r.unfinished+1, 100))
		}
		out := &r.slab[0]
		r.slab = r.slab[1:]
		r.fillOutcome(out, &v1.Usage{}, o)
		r.outcomes = append(r.outcomes, out)
		if !r.isRun {
			r.bytes += outcomeBytes(out)
		}
	}
	r.notifyWaiters()
}

// endLateTasks gives an outcome to tasks added to a job after its end. The client had added the tasks at a peer, or
// the call was on its way.
func (s *Server) endLateTasks(r *clientJob, tasks []frontend.Task) {
	kind := v1.OutcomeKind_CANCELLED
	if r.deadline > 0 && r.endedAt.Sub(r.receivedAt) >= r.deadline {
		kind = v1.OutcomeKind_DEADLINE_EXCEEDED
	}
	totalTasks := r.totalTasks
	for i := range tasks {
		if index := int(tasks[i].Index); index >= totalTasks {
			r.totalTasks = max(r.totalTasks, index+1)
			r.outcomes = append(r.outcomes, &v1.Outcome{Task: int32(index), Kind: kind, Failure: &v1.Failure{
				Reason: v1.FailureReason_TASK_ERROR, Message: "the job had ended when this task was added to it",
			}})
			r.bytes += outcomeBytes(r.outcomes[len(r.outcomes)-1])
		}
	}
	r.notifyWaiters()
	s.countUnread(r)
}

// fillOutcome makes out from o. use is room for the usage, if the worker measured any.
func (r *clientJob) fillOutcome(out *v1.Outcome, use *v1.Usage, o *frontend.Outcome) {
	out.Task = int32(o.Task)
	out.Kind = outcomeKinds[o.Kind]
	out.Worker = o.Worker
	out.Attempts = int32(o.Attempts)
	out.RunUs = o.Run.Microseconds()
	out.Usage = fillUsage(use, &o.Usage)
	switch o.Kind {
	case frontend.Result:
		if out.Result_ = o.Result; out.Result_ == nil {
			out.Result_ = []byte{}
		}
		if o.File != nil {
			out.ResultFile = outputToAPI(o.File)
		}
	case frontend.Failed:
		out.Failure = &v1.Failure{Reason: failureReasons[o.Failure], Message: o.Message, RetryWhere: v1.Retry(o.Retry),
			Detail: o.Detail}
		if code := o.Code; code != "" { // the core lends o only for this step
			out.Failure.Code = &code
		}
	default:
		out.Failure = &v1.Failure{Reason: v1.FailureReason_TASK_ERROR, Message: o.Message}
		if o.Message == "" {
			out.Failure = nil
		}
	}
	for i := range o.Outputs {
		out.Outputs = append(out.Outputs, outputToAPI(&o.Outputs[i]))
	}
	if r.wantsPhases {
		p := &o.Phases
		out.Phases = &v1.Phases{
			SampledUs: p.Sampled.Microseconds(), QueuedUs: p.Queued.Microseconds(), ReadyUs: p.Ready.Microseconds(),
			BoundUs: p.Bound.Microseconds(), StartedUs: p.Started.Microseconds(), FinishedUs: p.Finished.Microseconds(),
		}
		out.Copies = int32(o.CountCopies())
		for _, end := range o.RetriedAfter() {
			out.Retried = append(out.Retried, v1.AttemptEnd(end))
		}
	}
}

func outputToAPI(o *probe.Output) *v1.Output {
	out := &v1.Output{Partition: int32(o.Partition), Bytes: int64(o.Bytes), Data: o.Data}
	if o.File {
		digest := hex.EncodeToString(o.Digest[:])
		out.Sha256 = &digest
	} else if out.Data == nil {
		out.Data = []byte{}
	}
	return out
}

// outcomeBytes estimates the size of an outcome: its data, and 64 bytes for the rest (chosen, and not measured).
func outcomeBytes(o *v1.Outcome) int {
	n := 64 + len(o.Result_)
	for _, out := range o.Outputs {
		n += 64 + len(out.Data)
	}
	if f := o.Failure; f != nil {
		n += len(f.Message) + len(f.Detail)
	}
	return n
}

// countUnread counts the result bytes that the client of a submitted job has yet to fetch. A job may have at most
// as many unfetched bytes as all jobs together leave free. Beyond the limit, no more tasks of the job start until
// the client has fetched about half. So a job with a reading client always goes on.
func (s *Server) countUnread(r *clientJob) {
	added := r.bytes - r.countedBytes
	s.unreadBytes += added
	r.countedBytes = r.bytes
	if r.inEndedList {
		s.endedJobs.bytes += added
	}
	free, paused := max(s.cfg.MaxUnread-s.unreadBytes, 0), r.paused
	switch {
	case r.bytes > free:
		paused = true
	case 2*r.bytes <= free:
		paused = false
	}
	if paused != r.paused && !r.ended {
		r.paused = paused
		s.laterEvents = append(s.laterEvents, frontend.Unread{Job: r.id, Full: paused})
	}
}

// notifyWaiters wakes the calls of Events that wait for outcomes of r.
func (r *clientJob) notifyWaiters() {
	if r.changed != nil {
		close(r.changed)
		r.changed = nil
	}
}

// lastCursor is the cursor behind the last outcome.
func (r *clientJob) lastCursor() int64 {
	if r.isRun {
		return math.MaxInt64 // peekOutcomes forgets nothing
	}
	return r.baseCursor + int64(len(r.outcomes))
}

// isAwaited reports whether a call of Run or Events waits for the job, and its client has not hung up. A job lives
// as long as one of its clients.
func (r *clientJob) isAwaited() bool {
	return slices.ContainsFunc(r.waitingPolls, func(c *clientConn) bool { return !c.isGone() }) ||
		slices.ContainsFunc(r.waitingRuns, func(a waitingRun) bool { return !a.isGone() })
}

// fetchOutcomes takes outcomes from the cursor on: up to most outcomes, and up to maxEventsBytes. If isAck, the client
// acknowledges all outcomes before the cursor: delivered holds the receipts, and only a shared job keeps the outcomes.
// done says: no outcome will follow.
func (r *clientJob) fetchOutcomes(cursor int64, most int, isAck bool, now time.Time) (batch []*v1.Outcome, next int64,
	delivered []frontend.Receipt, done bool) {
	from := int(min(max(max(cursor, 0)-r.baseCursor, 0), int64(len(r.outcomes))))
	if isAck && from > r.fetched {
		delivered = r.noteFetched(from)
		from = r.fetched
	}
	size := 0
	for _, o := range r.outcomes[from:] {
		if size += outcomeBytes(o); len(batch) == most || len(batch) > 0 && size > maxEventsBytes {
			break
		}
		batch = append(batch, o)
		if p := o.Phases; r.wantsPhases && p != nil && p.DeliveredUs == 0 { // nil: the outcome came with a submission
			p.DeliveredUs = now.Sub(r.receivedAt).Microseconds()
		}
	}
	from += len(batch)
	return batch, r.baseCursor + int64(from), delivered, r.ended && from == len(r.outcomes)
}

// noteFetched notes that a client has the first n outcomes, and returns the receipts for the workers. Only a shared job
// keeps the outcomes. If a shared job has tasks that may start only once, noteFetched returns no receipts: workers
// remember the results until the frontend forgets the job. A client of such a job may resubmit tasks whose outcomes
// only another client has.
func (r *clientJob) noteFetched(n int) (delivered []frontend.Receipt) {
	for _, o := range r.outcomes[r.fetched:n] {
		size := outcomeBytes(o)
		r.bytes -= size
		r.fetchedBytes += size
	}
	if newly := min(n-r.fetched, len(r.receipts)); !r.isShared || !r.hasOnceTasks {
		delivered, r.receipts = r.receipts[:newly], r.receipts[newly:]
	}
	if r.fetched = n; !r.isShared {
		r.dropFetched(n)
	}
	return delivered
}

// dropFetched drops the oldest n fetched outcomes.
func (r *clientJob) dropFetched(n int) {
	for i, o := range r.outcomes[:n] {
		r.fetchedBytes -= outcomeBytes(o)
		r.outcomes[i] = nil
	}
	r.outcomes = r.outcomes[n:]
	r.fetched -= n
	r.baseCursor += int64(n)
}

// maxFetchedBytes bounds the fetched outcomes of all shared jobs. The number was chosen, and not measured.
const maxFetchedBytes = 64 << 20

// countFetched adds the fetched outcomes of r to the server's sum. If the sum would pass maxFetchedBytes, r drops its
// oldest fetched outcomes.
func (s *Server) countFetched(r *clientJob) {
	for r.fetched > 0 && s.fetchedBytes+r.fetchedBytes-r.countedFetched > maxFetchedBytes {
		r.dropFetched(1)
	}
	s.fetchedBytes += r.fetchedBytes - r.countedFetched
	r.countedFetched = r.fetchedBytes
}

// shareJob makes r a job of several clients. A resubmission brings the outcomes that the submitting client has, for the
// other clients.
func (s *Server) shareJob(r *clientJob, in *v1.Job) {
	r.isShared = true
	if in.Resubmission != nil {
		r.outcomes = slices.Clone(in.Resubmission.Outcomes)
	}
	r.fetched = len(r.outcomes)
	for _, o := range r.outcomes {
		r.fetchedBytes += outcomeBytes(o)
	}
	s.countFetched(r)
}

// peekOutcomes is fetchOutcomes for a job given to Run. The outcomes stay with the answer to Run.
func (r *clientJob) peekOutcomes(cursor int64, most int) (batch []*v1.Outcome, next int64, done bool) {
	all := r.outcomes
	if r.runAnswer != nil && (r.ended || !r.wantsPhases) {
		all = r.runAnswer.Outcomes()
	}
	from := min(max(cursor, 0), int64(len(all)))
	next = min(from+int64(most), int64(len(all)))
	return all[from:next], next, r.ended && next == int64(len(all))
}

// maxEventsBytes bounds the result bytes in an answer to Events. A single larger outcome passes. The number was chosen.
const maxEventsBytes = 4 << 20

// endedList holds ended jobs, oldest first, for clients with a repeated question.
type endedList struct {
	list  []*clientJob
	bytes int
}

// Bounds of the ended jobs that are kept. If a submitted job's outcomes were all fetched, or a Run was answered,
// the job is kept only in case the client missed the answer. The numbers were chosen, and not measured.
const (
	keepEndedFor  = 30 * time.Second
	maxEndedBytes = 16 << 20
	maxEndedJobs  = 1000 // jobs
)

// endJob notes that a job has ended.
func (s *Server) endJob(id probe.JobID) {
	r := s.jobs[id]
	if r == nil {
		return
	}
	r.ended, r.endedAt = true, time.Now()
	s.recorder.openJobs.removeJob(r)
	r.notifyWaiters()
	if r.isRun {
		s.answerRuns(r)
	}
	if r.moved { // the frontend that has the job claims the results
		s.dropReceipts(r)
	} else {
		s.countJob(r)
	}
	if r.isRun || r.moved {
		s.addToEnded(r)
	}
}

// forgetJob drops a job and its receipts.
func (s *Server) forgetJob(r *clientJob) {
	if s.jobs[r.id] == r {
		delete(s.jobs, r.id)
	}
	s.unreadBytes -= r.countedBytes
	s.fetchedBytes -= r.countedFetched
	r.countedBytes, r.countedFetched = 0, 0
	if r.isShared && r.ended && !r.moved && r.fetched == len(r.outcomes) && len(r.receipts) > 0 {
		s.laterEvents = append(s.laterEvents, frontend.Delivered{Receipts: r.receipts})
		r.receipts = nil
	}
	s.dropReceipts(r)
}

// dropReceipts gives up the receipts of results that may not have arrived. The results stay at the workers, for a
// peer to claim.
func (s *Server) dropReceipts(r *clientJob) {
	if len(r.receipts) > 0 {
		s.laterEvents = append(s.laterEvents, frontend.Dropped{Receipts: r.receipts})
		r.receipts = nil
	}
}

// arrivesWithin is the longest travel time of an answer to its client, as a rule. After this time the workers may
// forget the results. If an answer travels longer and is lost with the frontend, the tasks run again. Tasks that
// may start only once must not run again. For such tasks the client has to confirm the answer, by the next cursor.
const arrivesWithin = 100 * time.Millisecond

// sentAnswer is a job whose outcomes were all put into an answer.
type sentAnswer struct {
	job    *clientJob
	sentAt time.Time
}

// noteAnswered notes that all outcomes of an ended job were put into an answer.
func (s *Server) noteAnswered(r *clientJob, now time.Time) {
	if !r.hasOnceTasks && len(r.receipts) > 0 {
		s.sentAnswers = append(s.sentAnswers, sentAnswer{r, now})
	}
}

// noteNextCall takes the last answer to a client's Run as arrived, because the client makes its next call on the
// same connection.
func (s *Server) noteNextCall(client *clientConn) {
	if r := s.jobs[client.lastAnswered]; r != nil && r.isRun && !r.hasOnceTasks {
		s.ackReceipts(r)
	}
}

// ackReceipts lets the workers forget the results of r, because the client has them.
func (s *Server) ackReceipts(r *clientJob) {
	if receipts := r.receipts; len(receipts) > 0 {
		r.receipts = nil
		s.stepLocked(frontend.Delivered{Receipts: receipts})
	}
}

// ackArrived takes answers older than arrivesWithin as arrived. A call takes up to most answers, so each step
// does a few.
func (s *Server) ackArrived(now time.Time, most int) {
	for ; most > 0 && len(s.sentAnswers) > 0 && now.Sub(s.sentAnswers[0].sentAt) >= arrivesWithin; most-- {
		r := s.sentAnswers[0].job
		s.sentAnswers[0] = sentAnswer{}
		s.sentAnswers = s.sentAnswers[1:]
		s.ackReceipts(r)
	}
}

// ackFromWorker acknowledges all results of a leaving worker. The worker waits for the acknowledgements.
func (s *Server) ackFromWorker(key frontend.Worker) {
	var list []frontend.Receipt
	collectFrom := func(r *clientJob) {
		for i, receipt := range r.receipts {
			if receipt.Worker == key {
				list = append(list, receipt)
				r.receipts[i] = frontend.Receipt{}
			}
		}
	}
	for _, r := range s.jobs {
		collectFrom(r)
	}
	s.laterEvents = append(s.laterEvents, frontend.Delivered{Receipts: list})
}

// settleReceipts gives up all receipts as the server ends. Results count as delivered if the client has the answer, or
// the answer is on its way. If some task of a job may start only once, the job's results stay at the workers.
func (s *Server) settleReceipts() {
	for _, r := range s.jobs {
		if r.hasOnceTasks {
			s.dropReceipts(r)
		} else {
			s.laterEvents = append(s.laterEvents, frontend.Delivered{Receipts: r.receipts})
			r.receipts = nil
		}
	}
}

// addToEnded puts an ended job among the jobs that may be forgotten.
func (s *Server) addToEnded(r *clientJob) {
	r.inEndedList = true
	s.endedJobs.list = append(s.endedJobs.list, r)
	s.endedJobs.bytes += r.bytes
	s.forgetEnded(r.endedAt)
}

// forgetEnded forgets the oldest ended jobs that exceed the bounds.
func (s *Server) forgetEnded(now time.Time) {
	e := &s.endedJobs
	n := 0
	for ; n < len(e.list); n++ {
		r := e.list[n]
		if len(e.list)-n <= maxEndedJobs && e.bytes <= maxEndedBytes && now.Sub(r.endedAt) < keepEndedFor {
			break
		}
		e.bytes -= r.bytes
		s.forgetJob(r)
		e.list[n] = nil
	}
	e.list = e.list[n:]
}

// sweepJobs cancels jobs without a client, and forgets jobs that ended long ago.
func (s *Server) sweepJobs() {
	s.mu.Lock()
	defer s.unlockAndFlush()
	s.sweepJobsLocked(time.Now())
}

// sweepAfterPause sweeps jobs if the process was stopped for longer than the client grace. Clients may have taken jobs
// elsewhere meanwhile. The mutex is held.
func (s *Server) sweepAfterPause(now time.Time) {
	if now.Sub(s.sweptAt) > s.cfg.ClientGrace {
		s.sweepJobsLocked(now)
	}
}

func (s *Server) sweepJobsLocked(now time.Time) {
	s.sweptAt = now
	s.ackArrived(now, math.MaxInt)
	for id, r := range s.jobs {
		switch {
		case r.isRun && !r.ended:
			if now.Sub(r.receivedAt) > time.Second && now.Sub(r.polledAt) > s.cfg.ClientGrace && !r.isAwaited() {
				s.log.Info("client is gone, its job is cancelled", "job", id.String())
				s.metrics.clientsLost.Inc()
				s.stepLocked(frontend.Cancel{Job: id, Reason: "its client closed the connection"})
				s.forgetJob(r) // if the client comes back, its job must not seem cancelled by the client
			}
		case !r.isRun && now.Sub(r.polledAt) > r.grace && !r.isAwaited():
			if !r.ended {
				s.log.Info("client has not asked for events, its job is cancelled", "job", id.String())
				s.metrics.clientsLost.Inc()
				s.stepLocked(
					frontend.Cancel{Job: id, Reason: fmt.Sprintf("its client has not asked for %v", r.grace)})
			}
			s.forgetJob(r)
		}
	}
	s.forgetEnded(now)
}
