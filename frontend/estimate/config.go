package estimate

import (
	"errors"
	"fmt"
	"time"
)

// Rates say how fast data is read, in bytes per second, by where it is.
type Rates struct {
	Memory float64 // of the worker's own host
	Disk   float64 // of the worker's own host
	Rack   float64 // from another host of the same rack
	Across float64 // from another rack, or from nobody knows where
	Origin float64 // files that no worker is known to have cached
}

// Config is what a Fleet is told once. Zero fields take the defaults that Defaults documents.
type Config struct {
	Rates Rates

	// KFail is how many times its expected time a task takes that is placed on a worker which then fails, at
	// least 1: the penalty constant of Apollo, section 3.3.
	KFail float64
	// Fresh is the age up to which a wait matrix is taken at its word. Beyond it the wait of a task that is
	// larger by one eighth of the worker is looked up, beyond twice that age two eighths, beyond four times
	// three, and so on up to the whole worker (Apollo, section 3.4, confidence).
	Fresh time.Duration
	// Jitter is the random term that keeps frontends apart, as a share of C, below 1. It is no more than the age of the
	// matrix: of a worker that was asked just now, no other frontend knows more (Apollo, section 3.4, randomization, has
	// a term in proportion to the communication interval). Negative: none.
	Jitter float64
	// Lights is how many lightly loaded workers are candidates of each task.
	Lights int
	// Significant is the share of a task's bytes from which on an input makes those that hold it candidates.
	Significant float64
	// Unknown is the run time of a task of which nothing is known.
	Unknown time.Duration

	// Lifetime is the mean time between failures of a worker that has not failed lately.
	Lifetime time.Duration
	// Grudge is the time after which a worker's failure counts for 1/e.
	Grudge time.Duration
	// Outage is how long after a worker's failure others belong to the same outage.
	Outage time.Duration
}

// Defaults fills the zero fields of c: memory 2 GB/s, disk 160 MB/s, rack 100 MB/s, across and origin 80 MB/s
// (disk and network as in Apollo, section 3.3), KFail 2, fresh for 2 s, 2 % jitter, 2 light workers, inputs
// significant from 10 %, 1 s where nothing is known, 30 days between failures, a grudge of 1 h, outages of 30 s.
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

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Validate names everything that is wrong with c, whose zero fields were filled.
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
