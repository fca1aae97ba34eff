package sim

import (
	"math/rand/v2"

	"github.com/phoebe-sched/phoebe/frontend"
)

// rival is a scheduler to compare ours with, over the same workers and the same network. A new one is a file with a
// type that implements scheduler, and a line here. It gets the events of a frontend.Core, but for what comes of
// faults, and answers with its actions: of those, Send and Done count, and Refused ends the run.
type rival struct {
	name    string
	central bool // there is one of it, however many frontends there are
	instant bool // messages take no time, and are none
	make    func(cfg *Config, speeds []float64, f frontend.Config, rng *rand.Rand) scheduler
}

var rivals = []rival{
	{name: "omniscient", central: true, instant: true, make: newOmniscient},
	{name: "centralized", central: true, make: newCentralized},
	{name: "eagle", central: true, instant: true, make: newEagle},
	{name: "eagle-fifo", central: true, instant: true, make: newEagleFIFO},
}
