package sim

import (
	"math/rand/v2"

	"github.com/phoebe-sched/phoebe/frontend"
)

// rival is a scheduler to compare phoebe with, over the same workers and the same network. To add a rival, write
// a file with a type that implements brain, and add a line here. The brain hears of jobs and of free slots, and
// answers with starts of tasks. The rival's hand does the rest (hand.go).
type rival struct {
	name    string
	central bool // a single scheduler, whatever the number of frontends
	instant bool // messages take no time, and are not counted
	reads   bool // tasks may have inputs
	pays    bool // decisions may take time
	make    func(cfg *Config, speeds []float64, f frontend.Config, rng *rand.Rand) scheduler
}

var rivals = []rival{
	{name: "omniscient", central: true, instant: true, make: newOmniscient},
	{name: "centralized", central: true, pays: true, make: newCentralized},
	{name: "centralized-ahead", central: true, pays: true, make: newCentralizedAhead},
	{name: "centralized-heartbeat", central: true, pays: true, make: newCentralizedHeartbeat},
	{name: "eagle", central: true, instant: true, make: newEagle},
	{name: "eagle-fifo", central: true, instant: true, make: newEagleFIFO},
	{name: "single-path", central: true, instant: true, pays: true, make: newSinglePath},
	{name: "multi-path", central: true, instant: true, pays: true, make: newMultiPath},
	{name: "two-level", central: true, instant: true, pays: true, make: newTwoLevel},
	{name: "shared-state", central: true, instant: true, pays: true, make: newSharedState(false, false)},
	{name: "shared-state-coarse", central: true, instant: true, pays: true, make: newSharedState(true, false)},
	{name: "shared-state-gang", central: true, instant: true, pays: true, make: newSharedState(false, true)},
	{name: "shared-state-coarse-gang", central: true, instant: true, pays: true, make: newSharedState(true, true)},
	{name: "delay-fifo", central: true, instant: true, reads: true, make: newDelaying(false)},
	{name: "delay-fair", central: true, instant: true, reads: true, make: newDelaying(true)},
}
