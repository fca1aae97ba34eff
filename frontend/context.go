package frontend

import (
	"cmp"
	"maps"
	"slices"

	"github.com/phoebe-sched/phoebe/frontend/estimate"
	"github.com/phoebe-sched/phoebe/probe"
)

// addContext gives a launch what its task may know and what is passed to it, and tells its worker before what its stage has in common.
func (c *ledger) addContext(t *task, w *worker, l *probe.Launch, acts []Action) []Action {
	j := t.group.job
	if len(j.stages) == 0 && j.Trace == "" && !j.Large && t.attempts == 1 || !w.Has(probe.Passing) {
		return acts
	}
	m := &probe.Context{Partition: uint32(t.spec.Partition), Attempt: uint32(t.attempts), Trace: j.Trace, Inline: maxInline, Large: j.Large}
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

// passedTo is what earlier stages have left for a task that goes to w.
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

// markCommonUnsent notes that w may not have heard yet what stages have in common.
func (c *ledger) markCommonUnsent(w *worker) {
	for _, j := range c.byID {
		for at := range j.commonSent {
			if at.w == w {
				j.commonSent[at] = false
			}
		}
	}
}

// clearCommonSent notes that w knows nothing of what stages have in common, as its link broke.
func (c *ledger) clearCommonSent(w *worker) {
	for _, j := range c.byID {
		maps.DeleteFunc(j.commonSent, func(at stageAtWorker, _ bool) bool { return at.w == w })
	}
}

// forgetCommon has workers forget what the stages of a job that is over have in common.
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

// cacheAddresses are the addresses of caches that should have a file which a task has left at a worker of this name, for w to ask.
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
