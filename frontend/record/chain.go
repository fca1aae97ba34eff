package record

import (
	"time"

	"github.com/phoebe-sched/phoebe/frontend"
)

// Stages returns the names of a job's stages, and for each stage the numbers of the stages before it.
func Stages(job *frontend.Job) (names []string, after [][]int) {
	numbers := make(map[string]int, len(job.Stages))
	for i := range job.Stages {
		numbers[job.Stages[i].Name] = i
		names = append(names, job.Stages[i].Name)
	}
	after = make([][]int, len(job.Stages))
	for i := range job.Stages {
		for _, name := range job.Stages[i].After {
			if k, known := numbers[name]; known { // else the core refuses the job
				after[i] = append(after[i], k)
			}
		}
	}
	return names, after
}

// Chain finds the longest chain of runs of a job's tasks. A chain has a run for each stage on its way, and each
// stage waits for the stage before. The zero Chain is for a job without stages.
type Chain struct {
	longest time.Duration // run of a job without stages
	stages  []chainStage
}

// chainStage is a stage, the stages before it, and its longest run.
type chainStage struct {
	after   []int
	longest time.Duration
}

// NewChain makes the chain of a job. Each element of after lists the numbers of the stages before a stage. There
// are no cycles.
func NewChain(after [][]int) Chain {
	c := Chain{stages: make([]chainStage, len(after))}
	for i := range after {
		c.stages[i].after = after[i]
	}
	return c
}

// Grow adds stages behind the present stages.
func (c *Chain) Grow(after [][]int) {
	for i := len(c.stages); i < len(after); i++ {
		c.stages = append(c.stages, chainStage{after: after[i]})
	}
}

// NoteRun notes the run of a task.
func (c *Chain) NoteRun(stage int, run time.Duration) {
	longest := &c.longest
	if stage < len(c.stages) {
		longest = &c.stages[stage].longest
	}
	*longest = max(*longest, run)
}

// Longest returns the length of the longest chain.
func (c *Chain) Longest() time.Duration {
	if len(c.stages) == 0 {
		return c.longest
	}
	longest, known := c.longest, make([]bool, len(c.stages))
	chains := make([]time.Duration, len(c.stages))
	var upTo func(i int) time.Duration
	upTo = func(i int) time.Duration {
		if !known[i] {
			known[i] = true
			for _, k := range c.stages[i].after {
				chains[i] = max(chains[i], upTo(k))
			}
			chains[i] += c.stages[i].longest
		}
		return chains[i]
	}
	for i := range c.stages {
		longest = max(longest, upTo(i))
	}
	return longest
}
