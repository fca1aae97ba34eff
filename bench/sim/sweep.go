package sim

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
)

// Sweep is a Config with several policies, loads and probe ratios. Each combination runs on the same jobs: at one
// load the jobs arrive at the same moments, and at every load the n-th job has the same tasks.
type Sweep struct {
	Config      // Policy, Load, ProbeRatio and Progress are not used
	Policies    []Policy
	Loads       []float64
	ProbeRatios []float64
}

// Run carries out all runs, as many at a time as there are processors to use. The results are ordered by load,
// then probe ratio, then policy, in the order given. A policy without probes runs once for all probe ratios.
//
// If progress is not nil, one goroutine at a time calls progress now and then with the share done of all runs,
// from 0 to 1. If ctx ends before, Run returns the error, and the results of the runs that had begun.
func (s *Sweep) Run(ctx context.Context, progress func(share float64)) ([]*Result, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	interrupted := ctx
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)

	var configs []Config
	runOf := make([]int, 0, len(s.Policies)*len(s.Loads)*len(s.ProbeRatios)) // of each result, its index in configs
	for _, load := range s.Loads {
		first := len(configs)
		for i, ratio := range s.ProbeRatios {
			for k, policy := range s.Policies {
				if i > 0 && !policy.usesProbeRatio() {
					runOf = append(runOf, first+k)
					continue
				}
				cfg := s.Config
				cfg.Policy, cfg.Load, cfg.ProbeRatio = policy, load, ratio
				runOf = append(runOf, len(configs))
				configs = append(configs, cfg)
			}
		}
	}

	var mu sync.Mutex
	shares := make([]float64, len(configs))
	results, errs := make([]*Result, len(configs)), make([]error, len(configs))
	next := 0
	var wg sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(configs)) {
		wg.Go(func() {
			for {
				mu.Lock()
				i := next
				next++
				mu.Unlock()
				if i >= len(configs) || ctx.Err() != nil {
					return
				}
				configs[i].Progress = func(share float64) {
					if progress == nil {
						return
					}
					mu.Lock()
					defer mu.Unlock()
					shares[i] = share
					sum := 0.0
					for _, share := range shares {
						sum += share
					}
					progress(sum / float64(len(shares)))
				}
				results[i], errs[i] = Run(ctx, configs[i])
				if errs[i] != nil {
					errs[i] = fmt.Errorf("%s at load %g: %w", configs[i].Policy.Name, configs[i].Load, errs[i])
					cancel(errs[i])
					return
				}
				configs[i].Progress(1)
			}
		})
	}
	wg.Wait()
	err := context.Cause(ctx)
	if err != nil && interrupted.Err() == nil {
		return nil, err
	}
	var all []*Result
	for i, run := range runOf {
		if results[run] == nil {
			continue
		}
		r := *results[run]
		r.ProbeRatio = s.ProbeRatios[i/len(s.Policies)%len(s.ProbeRatios)]
		all = append(all, &r)
	}
	return all, err
}

// Validate joins all errors of s.
func (s *Sweep) Validate() error {
	var problems []error
	if len(s.Policies) == 0 || len(s.Loads) == 0 || len(s.ProbeRatios) == 0 {
		return errors.New("name at least one policy, a load and a probe ratio")
	}
	seen := map[string]bool{}
	for _, load := range s.Loads {
		for _, ratio := range s.ProbeRatios {
			for _, policy := range s.Policies {
				cfg := s.Config
				cfg.Policy, cfg.Load, cfg.ProbeRatio = policy, load, ratio
				if err := cfg.Validate(); err != nil && !seen[err.Error()] {
					seen[err.Error()] = true
					problems = append(problems, err)
				}
			}
		}
	}
	return errors.Join(problems...)
}
