package estimate

import (
	"errors"
	"fmt"
	"time"
)

// Rates are the speeds at which tasks read data, in bytes per second, by the place of the data.
type Rates struct {
	Memory float64 // of the worker's own host
	Disk   float64 // of the worker's own host
	Rack   float64 // from another host of the same rack
	Across float64 // from another rack, or from an unknown place
	Origin float64 // files in no worker's known cache
}

// Config configures a Fleet. Defaults fills its zero fields.
type Config struct {
	// Rates are the rates at the start. Unless FixedRates is set, the fleet learns the rates from the tasks.
	Rates      Rates
	FixedRates bool

	// KFail is the penalty constant of Apollo, section 3.3, at least 1: if a worker fails, its task takes KFail
	// times the expected time.
	KFail float64
	// Fresh is the age up to which a wait matrix is trusted. For an older matrix, the wait of a larger task is
	// looked up (Apollo, section 3.4, confidence). Up to twice the age, the task is larger by an eighth of the
	// worker; up to four times, by two eighths; up to eight times, by three. The limit is the whole worker.
	Fresh time.Duration
	// Jitter bounds the random term in the choice, as a share of C, below 1. The term makes frontends choose
	// different workers. It is also bounded by the age of the matrix: if a frontend asked a worker just now, no
	// other frontend knows more. In Apollo (section 3.4, randomization) the term is proportional to the
	// communication interval. Negative: no random term.
	Jitter float64
	// Lights is the number of lightly loaded workers among the candidates of each task.
	Lights int
	// Significant is the share of a task's bytes from which an input counts: then the workers with the input are
	// candidates.
	Significant float64
	// Unknown is the assumed run time of a task without any hint or history.
	Unknown time.Duration

	// Lifetime is the mean time between failures of a worker without recent failures.
	Lifetime time.Duration
	// Grudge is the age at which a worker's failure counts for 1/e.
	Grudge time.Duration
	// Outage is the time after a worker's failure in which further failures belong to the same outage.
	Outage time.Duration
}

// Defaults fills the zero fields of c. Rates: memory 2 GB/s, disk 160 MB/s, rack 100 MB/s, across and origin 80
// MB/s (disk and network as in Apollo, section 3.3). KFail 2, Fresh 2 s, Jitter 2 %, Lights 2, Significant 10 %,
// Unknown 1 s, Lifetime 30 days, Grudge 1 h, Outage 30 s.
func (c Config) Defaults() Config {
	setDefault(&c.Rates.Memory, 2e9)
	setDefault(&c.Rates.Disk, 160e6)
	setDefault(&c.Rates.Rack, 100e6)
	setDefault(&c.Rates.Across, 80e6)
	setDefault(&c.Rates.Origin, 80e6)
	setDefault(&c.KFail, 2)
	setDefault(&c.Fresh, 2*time.Second)
	setDefault(&c.Jitter, 0.02)
	setDefault(&c.Lights, 2)
	setDefault(&c.Significant, 0.1)
	setDefault(&c.Unknown, time.Second)
	setDefault(&c.Lifetime, 30*24*time.Hour)
	setDefault(&c.Grudge, time.Hour)
	setDefault(&c.Outage, 30*time.Second)
	return c
}

// setDefault sets a zero field to value.
func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Validate returns all errors of c, joined. Call Defaults first.
func (c Config) Validate() error {
	var errs []error
	positive := func(name string, v float64) {
		if !(v > 0) {
			errs = append(errs, fmt.Errorf("%s must be above 0, is %v", name, v))
		}
	}
	positive("rate memory", c.Rates.Memory)
	positive("rate disk", c.Rates.Disk)
	positive("rate rack", c.Rates.Rack)
	positive("rate across", c.Rates.Across)
	positive("rate origin", c.Rates.Origin)
	positive("fresh", c.Fresh.Seconds())
	positive("unknown", c.Unknown.Seconds())
	positive("lifetime", c.Lifetime.Seconds())
	positive("grudge", c.Grudge.Seconds())
	positive("outage", c.Outage.Seconds())
	if !(c.KFail >= 1) {
		errs = append(errs, fmt.Errorf("kfail must be at least 1, is %v", c.KFail))
	}
	if !(c.Jitter < 1) {
		errs = append(errs, fmt.Errorf("jitter must be below 1, is %v", c.Jitter))
	}
	if c.Lights < 1 || c.Lights > maxLights {
		errs = append(errs, fmt.Errorf("lights must be from 1 to %d, is %d", maxLights, c.Lights))
	}
	if !(c.Significant > 0 && c.Significant <= 1) {
		errs = append(errs, fmt.Errorf("significant must be above 0 and at most 1, is %v", c.Significant))
	}
	return errors.Join(errs...)
}
