package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	v1 "github.com/phoebe-sched/phoebe/idl/gen/phoebe/v1"
	"github.com/phoebe-sched/phoebe/probe"
)

const (
	// A job within these limits takes a single call of Run.
	maxRunTasks    = 512
	maxRunPayloads = 1 << 20 // bytes
	maxRunEstimate = time.Second

	// maxRequest is the size in bytes of the largest new job, and of the largest addition. If a message is over 64 MiB,
	// the frontend closes its connection.
	maxRequest = 64<<20 - 64<<10
	// maxLostOwners is the number of frontends that a job may lose in a row at any time, without a new outcome.
	// If more losses go on for WithRetryFor (30 s), the job itself may bring the frontends down.
	maxLostOwners = 8
	// minPoll is the shortest time of a poll after connections broke.
	minPoll = 10 * time.Millisecond
	// maxBreaks bounds how often in a row the client asks a frontend again after the connection broke.
	maxBreaks = 8
	// partingTimeout bounds the time to cancel a job that is no longer wanted.
	partingTimeout = time.Second
)

var (
	errMissingTasks = errors.New("the frontend's answer lacks outcomes of some tasks")
	errEmptyAnswer  = errors.New("the frontend sent an empty answer")
	errNoneAnswers  = errors.New("no frontend answers")
)

// isLarge reports whether Run submits the job instead of making a single call.
func isLarge(job *Job) bool {
	if len(job.Stages) > 0 || job.Mode == EstimateMode {
		return true // after the loss of the frontend, the results so far are worth keeping
	}
	if job.isShared() {
		return true // the other processes ask for events
	}
	bytes := 0
	for i := range job.Tasks {
		t := &job.Tasks[i]
		bytes += len(t.Payload)
		// With Submit, the cursor of Events tells the frontend which results of Once tasks have arrived.
		if t.Estimate >= maxRunEstimate || t.Once {
			return true
		}
	}
	return len(job.Tasks) > maxRunTasks || bytes > maxRunPayloads
}

// session is the state of a job on its way from frontend to frontend. A single goroutine owns the session.
type session struct {
	c                *Client
	job              v1.Job   // the next request's job
	shape            jobShape // of the stages
	tasks            []v1.Task
	began            time.Time
	submittedAt      time.Time               // when a process first submitted the job, as far as known
	sharedOutcomes   []*v1.Outcome           // shared job: the latest outcomes, for the other processes at a new owner
	sharedBytes      int                     // of the results in sharedOutcomes
	follows          bool                    // another process submitted the job
	deadline         time.Duration           // Job.Deadline, from began; zero: none
	due              time.Duration           // Job.Due, from began; zero: none
	window           int64                   // Job.Window, in bytes
	madeOutputs      []*v1.Made              // outputs of ended tasks, for a new owner
	unwanted         map[int32]bool          // tasks cancelled by CancelTasks; guarded by the mutex of Running
	done             []bool                  // by task: has an outcome
	unfinished       int                     // number of tasks without an outcome
	failed           bool                    // some task ended without a result
	firstFailure     *TaskError              // job with stages: the first failure that arrived, except cancelled tasks
	ranAt            map[stageWorker]int     // job with stages: number of results by stage and worker
	frontend         *frontend               // the frontend asked last
	handle           v1.Handle               // the last frontend's answer; before the answer, the best guess
	mayBeOwned       bool                    // some frontend may have the job
	lastOwner        string                  // if mayBeOwned: name or address of the last possible owner
	resubmissions    int32                   // number of resubmissions
	pausedUntil      map[*frontend]time.Time // do not ask the frontend before; nil: no frontend to avoid
	askedAt          time.Time               // start of the last call of Run or Submit
	unreachableSince time.Time               // when the search for a frontend with workers began; zero: found
	lostOwners       int                     // number of owners lost since the last outcome
	firstLostAt      time.Time               // if lostOwners is not 0: when the first owner was lost
	resumeAt         time.Time               // do not ask any frontend before
	pollFor          time.Duration           // longest time of the next poll: shorter after the connection broke
	breaks           int                     // number of polls in a row whose connections broke
	shortSince       time.Time               // since when polls find no connection; zero: the last poll had one
	lastErr          error                   // of the last failed call; nil: none
	// Takes an addition back, after a refusal of the job with an addition that no frontend has confirmed. It reports
	// whether there was such an addition. nil: there is none.
	retractAddition func(*RefusedError) bool
}

// stageWorker names a stage and a worker that has run tasks of the stage.
type stageWorker struct{ stage, worker string }

// newSession makes the session of a job. It returns a RefusedError for mistakes that a frontend cannot report: unknown
// words for policy, mode, class or pass, and a job too large for one message.
func (c *Client) newSession(ctx context.Context, job Job) (*session, error) {
	policy, err := job.Policy.toWire()
	if err != nil {
		return nil, err
	}
	mode, err := job.Mode.toWire()
	if err != nil {
		return nil, err
	}
	class, err := job.Class.toWire()
	if err != nil {
		return nil, err
	}
	hasNewID := job.Key == "" && job.ID == ""
	switch {
	case job.Key != "" && job.ID != "":
		return nil, &RefusedError{Reason: Invalid, Message: "the job has an ID and a Key: give one of them"}
	case job.Key != "":
		job.ID = probe.KeyedJobID(job.Tenant, job.Key).String()
	case hasNewID:
		job.ID = NewJobID()
	}
	n := len(job.Tasks)
	s := &session{
		c: c, began: time.Now(), submittedAt: time.Now(),
		pollFor: c.cfg.pollFor, deadline: job.Deadline, due: job.Due, window: job.Window,
		done: make([]bool, n), unfinished: n, shape: jobShape{}.withStages(job.Stages),
		job: v1.Job{
			Id: job.ID, Tenant: job.Tenant, Priority: job.Priority, DeadlineUs: toMicros(job.Deadline),
			JobClass: class, Mode: mode, Policy: policy, ProbeRatio: job.ProbeRatio,
			Constraint: job.Constraint.toWire(), Phases: job.Phases, Traceparent: traceparentOf(ctx),
			Tasks: make([]*v1.Task, n), Open: job.Open, LargeResults: job.LargeResults, Stages: wireStages(job.Stages),
			Shared: job.isShared(), GraceUs: toMicros(job.Grace),
		},
		handle: v1.Handle{Job: job.ID},
	}
	if job.Key != "" || len(job.Stored) > 0 { // another process may have submitted the job, and its frontend may be lost
		s.resubmissions = 1
		s.job.Resubmission = &v1.Resubmission{Count: 1, AgeUs: 1, Tasks: int32(n)}
	}
	if job.Due != 0 {
		due := toMicros(job.Due)
		s.job.DueUs = &due
	}
	if s.tasks, err = wireTasks(job.Tasks, 0, s.shape); err != nil {
		return nil, err
	}
	size, needy := 0, len(job.Stages) > 0
	for i := range job.Tasks {
		s.job.Tasks[i] = &s.tasks[i]
		size += len(job.Tasks[i].Payload) + len(job.Tasks[i].Function)
		needy = needy || len(job.Tasks[i].Inputs)+len(job.Tasks[i].Files) > 0
	}
	if needy || size > c.cfg.maxRequest/2 {
		size = s.job.BLength() // the exact encoded size
	}
	if err := s.leaveOutStored(&job, hasNewID); err != nil {
		return nil, err
	}
	if size > c.cfg.maxRequest {
		return nil, &RefusedError{Reason: TooLarge, Message: fmt.Sprintf(
			"the job takes %d bytes, and one job may take at most %d: split it", size, c.cfg.maxRequest)}
	}
	return s, nil
}

// leaveOutStored leaves the tasks of Job.Stored out of the request.
func (s *session) leaveOutStored(job *Job, hasNewID bool) error {
	if len(job.Stored) == 0 {
		return nil
	}
	if hasNewID || len(job.Stages) > 0 {
		return &RefusedError{Reason: Invalid, Message: "job.stored: only for jobs with Key or ID, and without stages"}
	}
	for _, i := range job.Stored {
		if i < 0 || i >= len(s.done) {
			return &RefusedError{Reason: Invalid, Message: fmt.Sprintf("job.stored: there is no task %d", i)}
		}
		if !s.done[i] {
			s.done[i] = true
			s.unfinished--
		}
	}
	s.listUnfinished()
	return nil
}

// listUnfinished makes the next request one of the unfinished tasks, each with its index.
func (s *session) listUnfinished() {
	s.job.Tasks = s.job.Tasks[:0]
	for i := range s.tasks {
		if !s.done[i] {
			s.tasks[i].Index = int32(i)
			s.job.Tasks = append(s.job.Tasks, &s.tasks[i])
		}
	}
}

// wireStages converts stages for a request.
func wireStages(stages []Stage) []*v1.Stage {
	var list []*v1.Stage
	for _, s := range stages {
		list = append(list, &v1.Stage{Name: s.Name, After: s.After, Along: s.Along, Common: s.Common})
	}
	return list
}

// jobShape tells which partitions the stages of a job have.
type jobShape struct {
	partitions map[string]int32    // number of tasks of each stage
	along      map[string][]string // Stage.Along of each stage
}

// withStages returns a copy of the shape with more stages. Without any stage, both maps are nil.
func (j jobShape) withStages(stages []Stage) jobShape {
	next := jobShape{maps.Clone(j.partitions), maps.Clone(j.along)}
	if next.partitions == nil && len(stages) > 0 {
		next = jobShape{make(map[string]int32, len(stages)), make(map[string][]string, len(stages))}
	}
	for _, s := range stages {
		next.along[s.Name] = s.Along
	}
	return next
}

// whyNotAlong says why a task may not wait for its listed partitions: no stage along has one of them. "": the task may.
func (j jobShape) whyNotAlong(t *Task) string {
	for _, p := range t.Along {
		stages := j.along[t.Stage]
		has := func(stage string) bool { return p >= 0 && p < int(j.partitions[stage]) }
		if !slices.ContainsFunc(stages, has) {
			return fmt.Sprintf("there is no partition %d in the stages %q along which stage %q goes",
				p, stages, t.Stage)
		}
	}
	return ""
}

// wireTasks converts tasks for a request. It gives each task of a stage the stage's next partition number, and adds the
// task to the stage's count in shape. The index of the first task is first.
func wireTasks(tasks []Task, first int, shape jobShape) ([]v1.Task, error) {
	list := make([]v1.Task, len(tasks))
	for i := range tasks {
		if err := tasks[i].fillWire(&list[i]); err != nil {
			return nil, err
		}
		if stage := tasks[i].Stage; stage != "" && shape.partitions != nil {
			list[i].Partition = shape.partitions[stage]
			shape.partitions[stage]++
		}
	}
	for i := range tasks {
		if why := shape.whyNotAlong(&tasks[i]); why != "" {
			return nil, &RefusedError{Reason: Invalid, Message: fmt.Sprintf("task %d: %s", first+i, why)}
		}
	}
	return list, nil
}

// runJob runs the job by a call of Run, and writes the outcomes into outs, by task. If the call is cut off, runJob
// submits the job, because a cause that cuts silent connections would cut the next Run, too.
func (s *session) runJob(ctx context.Context, outs []Outcome) error {
	for !s.mayBeOwned {
		if err := s.chooseFrontend(ctx); err != nil {
			return err
		}
		var resp *v1.RunResponse
		f, req := s.frontend, v1.RunRequest{Caller: s.c.cfg.wireCaller(), Job: &s.job}
		cl := s.newJobCall()
		err := f.makeCall(ctx, cl, 0, func(ctx context.Context) (err error) {
			resp, err = f.rpc.Run(ctx, &req)
			return err
		})
		s.noteReached(cl)
		if err == nil && resp == nil {
			err = &callError{addr: f.addr, err: errEmptyAnswer, sent: true, answered: true}
		}
		if err == nil {
			for _, o := range resp.Outcomes {
				if s.acceptOutcome(o) {
					outs[o.Task].fillFrom(o)
				}
			}
			if s.unfinished == 0 {
				return nil
			}
			err = &callError{addr: f.addr, err: errMissingTasks, sent: true}
		}
		if err := s.handleFailure(ctx, err); err != nil {
			return err
		}
	}
	if err := s.submitJob(ctx); err != nil {
		return err
	}
	r := newRunning(s)
	r.onEnd = func(error) {}
	r.wantsAll = true
	r.endJob(r.poll(ctx))
	for _, o := range r.outcomes {
		outs[o.Task] = o
	}
	return r.err
}

// submitJob submits the unfinished tasks, and tries the frontends one by one until a frontend accepts.
func (s *session) submitJob(ctx context.Context) error {
	for {
		if err := s.chooseFrontend(ctx); err != nil {
			return err
		}
		var resp *v1.SubmitResponse
		parts, err := s.jobInParts()
		for i, part := range parts {
			if resp, err = s.submitPart(ctx, part); err != nil {
				if refused, is := err.(*RefusedError); is && refused.Reason == Invalid && i < len(parts)-1 {
					refused.Message = "the frontend takes no jobs in parts, upgrade it: " + refused.Message
					refused.RetryAfter = s.c.cfg.backoffMax // another frontend may take them
				}
				break
			}
		}
		if err == nil {
			s.handle, s.mayBeOwned, s.lastErr = *resp.Handle, true, nil
			if first := time.Now().Add(-fromMicros(resp.AgeUs)); first.Before(s.submittedAt) {
				s.submittedAt = first
			}
			s.job.Tasks = nil // prepareJob lists the tasks of the next request
			return nil
		}
		if err := s.handleFailure(ctx, err); err != nil {
			return err
		}
	}
}

// submitPart submits a part of the job, or the whole job, to the chosen frontend.
func (s *session) submitPart(ctx context.Context, part *v1.Job) (resp *v1.SubmitResponse, err error) {
	f, req := s.frontend, v1.SubmitRequest{Caller: s.c.cfg.wireCaller(), Job: part}
	cl := s.newJobCall()
	if part.Resubmission != nil && part.Resubmission.Part > 0 {
		cl.owner = s.c.processes.findOrAdd(s.handle.Owner) // has the parts before
	}
	if s.setTimeLeft(time.Now()); part != &s.job {
		part.DeadlineUs, part.DueUs = s.job.DeadlineUs, s.job.DueUs
	}
	err = f.makeCall(ctx, cl, s.c.cfg.rpcTimeout, func(ctx context.Context) (err error) {
		resp, err = f.rpc.Submit(ctx, &req)
		return err
	})
	s.noteReached(cl)
	if err == nil && (resp == nil || resp.Handle == nil) {
		err = &callError{addr: f.addr, err: errEmptyAnswer, sent: true, answered: true}
	}
	return resp, err
}

// jobInParts returns the job as one request, or in parts if a resubmission is too large for one request: an open job
// may have grown beyond the size. The first part has no tasks, so that a frontend that knows no parts refuses the part.
func (s *session) jobInParts() ([]*v1.Job, error) {
	limit := s.c.cfg.maxRequest
	if s.job.Resubmission == nil || s.job.BLength() <= limit {
		return []*v1.Job{&s.job}, nil
	}
	base := v1.Job{Id: s.job.Id, Tenant: s.job.Tenant}
	var parts []*v1.Job
	addPart := func(job v1.Job, r v1.Resubmission, tasks []*v1.Task) {
		r.Part = int32(len(parts))
		job.Resubmission, job.Tasks = &r, tasks
		parts = append(parts, &job)
	}
	brief := v1.Resubmission{PreviousOwner: s.lastOwner, Count: s.resubmissions}
	addPart(base, brief, []*v1.Task{})
	whole := s.job
	whole.Tasks = nil
	roomLeft, from := limit-base.BLength()-brief.BLength(), 0
	size := 0
	for i, t := range s.job.Tasks {
		n := t.BLength()
		if size+n > roomLeft {
			addPart(base, brief, s.job.Tasks[from:i])
			from, size = i, 0
		}
		size += n
	}
	if size+whole.BLength() > limit {
		addPart(base, brief, s.job.Tasks[from:])
		from = len(s.job.Tasks)
	}
	addPart(whole, *s.job.Resubmission, s.job.Tasks[from:])
	for _, part := range parts {
		part.Resubmission.Parts = int32(len(parts))
	}
	if n := whole.BLength(); n > limit {
		return nil, &RefusedError{Reason: TooLarge, Message: fmt.Sprintf(
			"the job's stages and outputs take %d bytes, and one call may take at most %d: put less into Common",
			n, limit)}
	}
	return parts, nil
}

// setTimeLeft sets deadline and due of the next request. After the first try, they are the times left.
func (s *session) setTimeLeft(now time.Time) {
	if s.deadline > 0 && s.lastErr != nil {
		s.job.DeadlineUs = max(toMicros(s.deadline-now.Sub(s.began)), 1)
	}
	if s.due > 0 && s.lastErr != nil {
		due := max(toMicros(s.due-now.Sub(s.began)), 1)
		s.job.DueUs = &due
	}
}

// deadlineSlack is the time after a job's deadline until the client gives up waiting for a frontend's answer. The
// frontend ends the job at the deadline by itself.
const deadlineSlack = time.Second

// callUntil returns the end of a call about the job, unless bytes move then; zero: none.
func (s *session) callUntil() time.Time {
	if s.deadline <= 0 {
		return time.Time{}
	}
	return time.Now().Add(max(s.deadline-time.Since(s.began), 0) + deadlineSlack)
}

// newJobCall returns a call that submits the job. If there are several frontends, the search for a connection to the
// first may take at most half of the time that retryFor leaves. So there is time for another frontend.
func (s *session) newJobCall() *call {
	now := time.Now()
	timeLeft := s.c.cfg.retryFor
	if !s.unreachableSince.IsZero() {
		timeLeft = max(s.unreachableSince.Add(timeLeft).Sub(now), 0)
	}
	if len(s.c.roster.Load().allFrontends()) > 1 {
		timeLeft = max(timeLeft/2, s.c.cfg.backoffMin)
	}
	s.askedAt = now
	return &call{newJob: true, until: s.callUntil(), findBy: now.Add(timeLeft)}
}

// noteReached notes the name of the frontend that may have received the job.
func (s *session) noteReached(cl *call) {
	if cl.reached != nil {
		s.handle.Owner = cl.reached.name
	}
}

// acceptOutcome notes a task's outcome, and reports false if the task already had an outcome or does not exist.
func (s *session) acceptOutcome(o *v1.Outcome) bool {
	if o.Task < 0 || int(o.Task) >= len(s.done) || s.done[o.Task] {
		return false
	}
	s.done[o.Task] = true
	s.unfinished--
	s.lostOwners = 0
	if s.job.Shared {
		s.keepShared(o)
	}
	if o.Kind != v1.OutcomeKind_RESULT {
		s.failed = true
	}
	mayRunAgain := len(s.job.Stages) > 0 && s.noteStageOutcome(o)
	if t := &s.tasks[o.Task]; !mayRunAgain { // an open job may get tasks without end
		t.Payload, t.Inputs, t.Files, t.Constraint = nil, nil, nil, nil
	}
	return true
}

// maxSharedBytes bounds the results that a shared job keeps for the other processes. The number was chosen.
const maxSharedBytes = 16 << 20

// keepShared keeps an outcome for the other processes of a shared job. The caller of Run or Submit owns the result, so
// keepShared copies the result.
func (s *session) keepShared(o *v1.Outcome) {
	kept := *o
	kept.Result_ = slices.Clone(o.Result_)
	s.sharedOutcomes = append(s.sharedOutcomes, &kept)
	for s.sharedBytes += len(kept.Result_); s.sharedBytes > maxSharedBytes; s.sharedOutcomes = s.sharedOutcomes[1:] {
		s.sharedBytes -= len(s.sharedOutcomes[0].Result_)
	}
}

// noteStageOutcome notes everything that a new owner must know of an outcome in a job with stages. It reports whether
// the task may run again, because a file with its output may be lost.
func (s *session) noteStageOutcome(o *v1.Outcome) (mayRunAgain bool) {
	switch {
	case o.Kind == v1.OutcomeKind_RESULT:
		if s.ranAt == nil {
			s.ranAt = map[stageWorker]int{}
		}
		s.ranAt[stageWorker{s.tasks[o.Task].Stage, o.Worker}]++
		if len(o.Outputs) > 0 {
			t := &s.tasks[o.Task]
			made := &v1.Made{Stage: t.Stage, Task: o.Task, Partition: t.Partition, Worker: o.Worker, Outputs: o.Outputs}
			if slices.ContainsFunc(o.Outputs, func(o *v1.Output) bool { return o.Sha256 != nil }) {
				made.Spec, mayRunAgain = t, true
			}
			s.madeOutputs = append(s.madeOutputs, made)
		}
	case s.firstFailure == nil && !s.unwanted[o.Task]:
		s.firstFailure = taskError(o)
	}
	return mayRunAgain
}

// chooseFrontend picks the next frontend to ask, among the seeds, or also among the members if all seeds are down. It
// waits until a frontend may be asked. It returns an error if the client gives up.
func (s *session) chooseFrontend(ctx context.Context) error {
	start := int(s.c.nextStart.Add(1) & math.MaxInt32)
	for {
		if err := s.whyUnwanted(ctx); err != nil {
			return s.giveUp(s.addFailure(err, s.lastErr))
		}
		now := time.Now()
		if pause := s.resumeAt.Sub(now); pause > 0 {
			s.sleepWhileWanted(ctx, pause)
			continue
		}
		if s.deadline > 0 && s.lastErr != nil && now.Sub(s.began) >= s.deadline {
			return s.giveUp(s.newDeadlineError())
		}
		r := s.c.roster.Load()
		if !s.unreachableSince.IsZero() && now.Sub(s.unreachableSince) >= s.c.cfg.retryFor {
			refused, is := s.lastErr.(*RefusedError)
			switch {
			case is && s.mayRetract(refused):
				continue
			case is:
				return s.giveUp(refused)
			}
			return s.giveUp(fmt.Errorf("none of %d frontends answered for %v: %w",
				len(r.allFrontends()), s.c.cfg.retryFor, cmp.Or(s.lastErr, s.c.whyNoneAnswers())))
		}
		best, soonest := s.pickLeastBusy(r.seeds, start, now)
		if best == nil && !slices.ContainsFunc(r.seeds, func(f *frontend) bool { return !f.isDown() }) {
			var sooner time.Time
			if best, sooner = s.pickLeastBusy(s.awakeMembers(r), start, now); soonest.IsZero() ||
				!sooner.IsZero() && sooner.Before(soonest) {
				soonest = sooner
			}
		}
		if soonest.IsZero() { // no frontend: names are not looked up yet, or have no address
			soonest = now.Add(s.c.cfg.backoffMin)
			if best == nil && s.unreachableSince.IsZero() {
				s.unreachableSince = now
			}
		}
		if best != nil {
			s.prepareJob(best, now)
			return nil
		}
		wait := soonest.Sub(now)
		if !s.unreachableSince.IsZero() {
			wait = min(wait, s.unreachableSince.Add(s.c.cfg.retryFor).Sub(now))
		}
		if !s.mayBeOwned && s.deadline > 0 {
			timeLeft := s.began.Add(s.deadline).Sub(now)
			if timeLeft <= 0 {
				return s.giveUp(s.newDeadlineError())
			}
			wait = min(wait, timeLeft)
		}
		timer := time.NewTimer(wait + rand.N(wait/8+1))
		select {
		case <-timer.C:
		case <-ctx.Done():
		case <-s.c.closing:
		}
		timer.Stop()
	}
}

// awakeMembers returns the members, without those that a moment ago answered no ping. A ping behind a balancer tells
// of the frontend, and the frontend's own address leads to the same silence.
func (s *session) awakeMembers(r *roster) []*frontend {
	return slices.DeleteFunc(slices.Clone(r.members), func(f *frontend) bool {
		return s.c.processes.wasSilent(f.addr, s.c.cfg.backoffMax)
	})
}

// addFailure adds the failure of a call to the reason why the job is no longer wanted. nil: there is no failure.
func (s *session) addFailure(why, failure error) error {
	if failure == nil {
		return why
	}
	if s.mayBeOwned {
		failure = hideRefusal(failure)
	}
	return fmt.Errorf("%w; the last call failed: %w", why, failure)
}

// pickLeastBusy picks the frontend with the fewest calls under way. It skips frontends that failed a moment ago or
// asked for a pause. Frontends with equally few calls take turns, from index start on. If best is nil, soonest is the
// first moment at which a frontend may be asked; zero: fs is empty.
func (s *session) pickLeastBusy(fs []*frontend, start int, now time.Time) (best *frontend, soonest time.Time) {
	least := 0
	for i := range fs {
		f := fs[(start+i)%len(fs)]
		calls, from := f.loadAndPause()
		if until := s.pausedUntil[f]; until.After(from) {
			from = until
		}
		switch {
		case from.After(now):
			if soonest.IsZero() || from.Before(soonest) {
				soonest = from
			}
		case best == nil || calls < least:
			best, least = f, calls
		}
	}
	return best, soonest
}

// newDeadlineError returns the error of a job that no frontend finished within its deadline.
func (s *session) newDeadlineError() error {
	if s.mayBeOwned {
		return fmt.Errorf("%w: not finished within %v, and the frontend that had the job was lost: %w",
			context.DeadlineExceeded, s.deadline, hideRefusal(s.lastErr))
	}
	return fmt.Errorf("%w: no frontend took the job within %v: %w",
		context.DeadlineExceeded, s.deadline, cmp.Or(s.lastErr, s.c.whyNoneAnswers()))
}

// prepareJob makes s.job the next request to f. If another frontend may have the job, the request is a resubmission of
// the unfinished tasks.
func (s *session) prepareJob(f *frontend, now time.Time) {
	if s.mayBeOwned {
		s.resubmissions++
		s.job.Resubmission = &v1.Resubmission{
			PreviousOwner: s.lastOwner, Count: s.resubmissions, AgeUs: toMicros(now.Sub(s.submittedAt)),
			Made: s.madeOutputs, Tasks: int32(len(s.tasks)), Outcomes: s.sharedOutcomes,
		}
		for where, n := range s.ranAt {
			s.job.Resubmission.Ran = append(s.job.Resubmission.Ran,
				&v1.StageRun{Stage: where.stage, Worker: where.worker, Tasks: int32(n)})
		}
		s.listUnfinished()
		s.c.cfg.log.Debug("job moves", "job", s.job.Id, "frontend", f.addr, "tasks", s.unfinished, "err", s.lastErr)
	}
	s.setTimeLeft(now)
	s.frontend = f
	s.handle.Owner = f.addr
}

// handleFailure decides how the job goes on after a failed call. If the job goes to another frontend, or to the same
// frontend later, handleFailure returns nil. If the client gives up, handleFailure returns the job's error.
func (s *session) handleFailure(ctx context.Context, err error) error {
	before := s.lastErr
	s.lastErr = err
	var refused *RefusedError
	var fail *callError
	switch {
	case errors.As(err, new(*LateRefusalError)):
		s.noteMayOwn()
		return s.giveUp(err)
	case errors.As(err, &refused):
		if refused.Reason != NoWorker {
			s.unreachableSince = time.Time{}
		} else if s.unreachableSince.IsZero() {
			s.unreachableSince = time.Now()
		}
		switch {
		case refused.Reason == Overloaded && s.c.cfg.refusalsFinal && !s.mayBeOwned:
			return s.giveUp(refused)
		case refused.Reason == Draining: // the next frontend may have the same address, behind a balancer
		case refused.Reason == UnknownJob || refused.Reason == OwnerLost:
			return s.noteOwnerLost() // the call was forwarded to a previous owner
		case refused.RetryAfter > 0:
			s.pauseFrontend(refused.RetryAfter)
		case refused.Reason == Overloaded:
			s.pauseFrontend(s.c.cfg.backoffMax)
		default:
			if s.mayRetract(refused) {
				return nil
			}
			return s.giveUp(refused)
		}
		if hook := s.c.cfg.refusalHook; hook != nil {
			hook(ctx, refused)
		}
	case errors.As(err, &fail):
		if stop := s.whyUnwanted(ctx); stop != nil {
			s.mayBeOwned = s.mayBeOwned || fail.sent
			return s.giveUp(s.addFailure(stop, before))
		}
		if fail.answered {
			s.mayBeOwned = true
			return s.giveUp(fail)
		}
		if fail.sent {
			return s.noteOwnerLost()
		}
		if errors.Is(fail.err, errLeaves) {
			s.unreachableSince = time.Time{} // a draining frontend is a frontend
		} else if s.unreachableSince.IsZero() {
			s.unreachableSince = s.askedAt
		}
	}
	return nil
}

// noteOwnerLost notes that a frontend may have the job, but the client cannot reach the job there. From the second loss
// in a row on, the job waits before it goes to the next frontend, longer each time. If more than maxLostOwners are lost
// in a row, over more than the time of WithRetryFor, the client gives up.
func (s *session) noteOwnerLost() error {
	s.noteMayOwn()
	s.unreachableSince = time.Time{}
	now := time.Now()
	if s.lostOwners++; s.lostOwners == 1 {
		s.firstLostAt = now
		return nil
	}
	if lasted := now.Sub(s.firstLostAt); s.lostOwners > maxLostOwners && lasted >= s.c.cfg.retryFor {
		return s.giveUp(fmt.Errorf("%d frontends in a row were lost within %v while they had the job: %w",
			s.lostOwners, lasted.Round(time.Millisecond), hideRefusal(s.lastErr)))
	}
	s.resumeAt = now.Add(s.c.cfg.backoffAfter(s.lostOwners - 2))
	return nil
}

// noteMayOwn notes that the last frontend may have the job, but the client cannot reach the job there.
func (s *session) noteMayOwn() {
	s.mayBeOwned, s.lastOwner = true, s.handle.Owner
}

// pauseFrontend keeps the job from asking the last frontend again before d has passed.
func (s *session) pauseFrontend(d time.Duration) {
	if s.pausedUntil == nil {
		s.pausedUntil = map[*frontend]time.Time{}
	}
	s.pausedUntil[s.frontend] = time.Now().Add(d)
}

// whyUnwanted returns why the job is no longer wanted: the cause of ctx's end, or ErrClosed. If the job is wanted, it
// returns nil.
func (s *session) whyUnwanted(ctx context.Context) error {
	if ctx.Err() != nil {
		return contextError(ctx)
	}
	select {
	case <-s.c.closing:
		return ErrClosed
	default:
		return nil
	}
}

// mayRetract reports whether the job can go on without an addition, after its refusal. Then the addition's Extend
// fails, and the search for a frontend begins again.
func (s *session) mayRetract(refused *RefusedError) bool {
	if s.retractAddition == nil || !s.retractAddition(refused) {
		return false
	}
	s.unreachableSince = time.Time{}
	return true
}

// giveUp returns the job's error: err if err is a RefusedError and no frontend may have the job, else an
// UnfinishedError with err. If some frontend may have the job, giveUp also cancels the job there, in the background.
func (s *session) giveUp(err error) error {
	if _, refused := err.(*RefusedError); refused && !s.mayBeOwned {
		return err
	}
	if s.mayBeOwned {
		err = hideRefusal(err)
	}
	if s.mayBeOwned && !errors.Is(err, ErrLeft) {
		f, h := s.frontend, s.handle
		s.c.background.Go(func() { s.c.cancelQuickly(f, &h, nil, "the client gave up") })
	}
	return s.unfinishedError(err)
}

// cancelQuickly cancels an unwanted job, or some of its tasks, within partingTimeout. If cancelQuickly fails, the
// frontend cancels the job later, after some time without a poll.
func (c *Client) cancelQuickly(f *frontend, h *v1.Handle, tasks []int32, why string) {
	ctx, cancel := context.WithTimeout(context.Background(), partingTimeout)
	defer cancel()
	_, err := c.cancelAt(ctx, f, h, tasks, why, true)
	if err != nil {
		c.cfg.log.Debug("job left behind", "job", h.Job, "frontend", f.addr, "err", err)
	}
}

// callAbout makes a call about a job. If h names the owner, the call is for the owner.
func (c *Client) callAbout(h *v1.Handle, parting bool) *call {
	cl := &call{parting: parting}
	if h.Owner != "" {
		cl.owner = c.processes.findOrAdd(h.Owner)
	}
	return cl
}

// cancelAt asks f to cancel tasks of a job, or the whole job if tasks is empty. It returns the number of cancelled
// tasks.
func (c *Client) cancelAt(
	ctx context.Context, f *frontend, h *v1.Handle, tasks []int32, why string, parting bool,
) (int, error) {
	var resp *v1.CancelResponse
	err := f.makeCall(ctx, c.callAbout(h, parting), c.cfg.rpcTimeout, func(ctx context.Context) (err error) {
		if len(tasks) > 0 {
			resp, err = f.rpc.CancelTasks(ctx,
				&v1.CancelTasksRequest{Caller: c.cfg.wireCaller(), Handle: h, Tasks: tasks, Reason: why})
		} else {
			resp, err = f.rpc.Cancel(ctx, &v1.CancelRequest{Caller: c.cfg.wireCaller(), Handle: h, Reason: why})
		}
		return err
	})
	if err != nil {
		return 0, err
	}
	if resp == nil {
		return 0, &callError{addr: f.addr, err: errEmptyAnswer}
	}
	return int(resp.Cancelled), nil
}
