package frontend

import (
	"cmp"
	"maps"
	"slices"

	"github.com/phoebe-sched/phoebe/frontend/estimate"
	"github.com/phoebe-sched/phoebe/probe"
)

// addContext adds a Context to a launch: names, attempt number, and the outputs passed to the task. If the stage has
// a common payload that w was not sent yet, a Common goes before the launch. If w cannot pass outputs, nothing is
// added. A first attempt needs no Context if its job has no stages, no trace and no large results.
func (c *ledger) addContext(t *task, w *worker, l *probe.Launch, acts []Action) []Action {
	j := t.group.job
	if len(j.stages) == 0 && j.Trace == "" && !j.Large && t.attempts == 1 || !w.Has(probe.Passing) {
		return acts
	}
	m := &probe.Context{
		Partition: uint32(t.spec.Partition), Attempt: uint32(t.attempts),
		Trace: j.Trace, Inline: maxInline, Large: j.Large,
	}
	l.Context = m
	if len(j.stages) == 0 {
		return acts
	}
	s, number := &j.stages[t.group.stageIndex], t.group.stageIndex
	m.Stage, m.Inline, m.Inputs = j.Stages[number].Name, uint32(s.inlineBytes), c.passedTo(t, w)
	if common := j.Stages[number].Common; len(common) > 0 {
		m.Common = uint32(number) + 1
		if !j.commonSent[stageAtWorker{w, number}] {
			if j.commonSent == nil {
				j.commonSent = map[stageAtWorker]bool{}
			}
			j.commonSent[stageAtWorker{w, number}] = true
			acts = append(acts, Send{Worker: w.Key, Msg: probe.Common{Job: j.ID, Number: m.Common, Payload: common}})
		}
	}
	return acts
}

// passedTo returns the outputs of earlier stages that are passed to t at w. If an output is a file at another worker,
// it comes with the addresses of caches that should have the file.
func (c *ledger) passedTo(t *task, w *worker) []probe.Passed {
	var passed []probe.Passed
	for i := range t.spec.Inputs {
		in := &t.spec.Inputs[i]
		if in.Pass == NotPassed {
			continue
		}
		for _, m := range t.outputsFor(in) {
			p := probe.Passed{Stage: in.Stage, Task: m.task, Output: *m.output}
			if p.File && m.worker != w.Welcome().Worker {
				p.Peers = c.cacheAddresses(m.worker, FileID(p.Digest), w)
			}
			passed = append(passed, p)
		}
	}
	return passed
}

// markCommonUnsent notes that w may lack common payloads. They are sent again before the next launches. The entries
// stay, because w may have some of the payloads, and still gets a Forget at the end of the job.
func (c *ledger) markCommonUnsent(w *worker) {
	for _, j := range c.byID {
		for at := range j.commonSent {
			if at.w == w {
				j.commonSent[at] = false
			}
		}
	}
}

// clearCommonSent notes that w has no common payloads, because the link broke.
func (c *ledger) clearCommonSent(w *worker) {
	for _, j := range c.byID {
		maps.DeleteFunc(j.commonSent, func(at stageAtWorker, _ bool) bool { return at.w == w })
	}
}

// forgetCommon tells workers to forget the common payloads of an ended job.
func (c *ledger) forgetCommon(j *job, acts []Action) []Action {
	var ws []*worker
	for at := range j.commonSent {
		if at.w.Linked() && !slices.Contains(ws, at.w) {
			ws = append(ws, at.w)
		}
	}
	slices.SortFunc(ws, func(a, b *worker) int { return cmp.Compare(a.Key, b.Key) })
	for _, w := range ws {
		acts = append(acts, Send{Worker: w.Key, Msg: probe.Forget{Job: j.ID}})
	}
	j.commonSent = nil
	return acts
}

// cacheAddresses returns the addresses of caches that should have a file, for w to fetch the file from. The cache of
// the worker called name comes first, because a task left the file there.
func (c *ledger) cacheAddresses(name string, id estimate.FileID, w *worker) (addresses []string) {
	for _, key := range c.view.Fleet().WorkersNamed(name) {
		if x := c.workers[key]; x.Welcome().Worker == name && x.Linked() && x.Welcome().Cache != "" {
			addresses = append(addresses, x.Welcome().Cache)
		}
	}
	for _, peer := range c.view.Peers(id, w.Worker) {
		if !slices.Contains(addresses, peer) {
			addresses = append(addresses, peer)
		}
	}
	return addresses[:min(len(addresses), probe.MaxPeers)]
}
