package sim

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/phoebe-sched/phoebe/bench"
	"github.com/phoebe-sched/phoebe/frontend"
	"github.com/phoebe-sched/phoebe/worker"
)

// TestExplore runs what PHOEBE_SIM asks for and prints a table: words key=value, where policy, load, durations
// and probe-ratio take several values divided by commas (of durations: by semicolons). A policy may have
// some of its parts turned round: phoebe-sticky, late-binding+overlap.
//
//	PHOEBE_SIM='policy=phoebe,late-binding load=0.5,0.8 durations=fixed:10ms;task-exp:10ms' \
//	  go test ./bench/sim -run TestExplore -v
func TestExplore(t *testing.T) {
	text := os.Getenv("PHOEBE_SIM")
	if text == "" {
		t.Skip("PHOEBE_SIM is not set")
	}
	cfg := Config{Frontends: 2, Workers: 10, Slots: 4, TasksPerJob: 10, Delay: 30 * time.Microsecond, Jobs: 20_000, WarmupJobs: 2_000, Seed: 1}
	policies, loads, laws, ratios := []string{"phoebe", "late-binding"}, []string{"0.8"}, []string{"fixed:10ms"}, []string{"2"}
	warm, seeds, verbose := -1, 1, false
	for _, word := range strings.Fields(text) {
		key, value, _ := strings.Cut(word, "=")
		var err error
		switch key {
		case "policy":
			policies = strings.Split(value, ",")
		case "load":
			loads = strings.Split(value, ",")
		case "durations":
			laws = strings.Split(value, ";")
		case "probe-ratio":
			ratios = strings.Split(value, ",")
		case "frontends":
			cfg.Frontends, err = strconv.Atoi(value)
		case "workers":
			cfg.Workers, err = strconv.Atoi(value)
		case "slots":
			cfg.Slots, err = strconv.Atoi(value)
		case "tasks":
			cfg.TasksPerJob, err = strconv.Atoi(value)
		case "jobs":
			cfg.Jobs, err = strconv.Atoi(value)
		case "warmup":
			warm, err = strconv.Atoi(value)
		case "seed":
			cfg.Seed, err = strconv.ParseUint(value, 10, 64)
		case "seeds":
			seeds, err = strconv.Atoi(value)
		case "delay":
			cfg.Delay, err = time.ParseDuration(value)
		case "jitter":
			cfg.Jitter, err = time.ParseDuration(value)
		case "order":
			cfg.Order, err = worker.ParseOrder(value)
		case "estimates":
			cfg.NoEstimates = value == "none"
		case "codec":
			cfg.Codec = value == "true"
		case "stats":
			verbose = true
		default:
			err = fmt.Errorf("unknown")
		}
		if err != nil {
			t.Fatalf("%s: %v", word, err)
		}
	}
	if cfg.WarmupJobs = cfg.Jobs / 10; warm >= 0 {
		cfg.WarmupJobs = warm
	}
	out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(out, "durations\tload\tratio\tpolicy\tp50 ms\tp99 ms\tomni p50\tomni p99\tp50/omni\tp99/omni\tmean/omni\tmsg/task\tutil\twall\t")
	for _, law := range laws {
		var err error
		if cfg.Durations, err = bench.ParseDurations(law); err != nil {
			t.Fatal(err)
		}
		for _, load := range loads {
			cfg.Load, _ = strconv.ParseFloat(load, 64)
			for _, ratio := range ratios {
				cfg.ProbeRatio, _ = strconv.ParseFloat(ratio, 64)
				for _, name := range policies {
					if cfg.Policy, err = variant(name); err != nil {
						t.Fatal(err)
					}
					for seed := range seeds {
						cfg := cfg
						cfg.Seed += uint64(seed)
						began := time.Now()
						r, err := Run(cfg)
						if err != nil {
							t.Fatal(err)
						}
						p50, p99 := r.RatioOmniscient()
						fmt.Fprintf(out, "%s\t%s\t%s\t%s\t%.2f\t%.2f\t%.2f\t%.2f\t%.3f\t%.3f\t%.3f\t%.1f\t%.3f\t%.1fs\t\n", law, load, ratio, name,
							r.ResponseMS.P50, r.ResponseMS.P99, r.OmniscientMS.P50, r.OmniscientMS.P99, p50, p99,
							r.ResponseMS.Mean/r.OmniscientMS.Mean, r.MessagesPerTask, r.Utilisation, time.Since(began).Seconds())
						if verbose {
							out.Flush()
							fmt.Printf("%+v\n%+v\n", r.Frontends, r.WorkerSum)
						}
					}
				}
			}
		}
	}
	out.Flush()
}

// variant is a policy with some of its parts turned on (+) or off (-).
func variant(text string) (frontend.Policy, error) {
	parts := map[string]func(*frontend.Policy) *bool{
		"cancel":   func(p *frontend.Policy) *bool { return &p.Cancel },
		"ride":     func(p *frontend.Policy) *bool { return &p.RideAlong },
		"informed": func(p *frontend.Policy) *bool { return &p.Informed },
		"sticky":   func(p *frontend.Policy) *bool { return &p.Sticky },
		"overlap":  func(p *frontend.Policy) *bool { return &p.Overlap },
		"bundle":   func(p *frontend.Policy) *bool { return &p.Bundle },
		"resample": func(p *frontend.Policy) *bool { return &p.Resample },
	}
	name := text
	var policy frontend.Policy
	for _, known := range frontend.Policies {
		if strings.HasPrefix(text, known.Name) {
			policy, name = known, known.Name
		}
	}
	if policy.Name == "" {
		return frontend.ParsePolicy(text)
	}
	for rest := text[len(name):]; rest != ""; {
		sign := rest[0]
		end := strings.IndexAny(rest[1:], "+-") + 1
		if end == 0 {
			end = len(rest)
		}
		field := parts[rest[1:end]]
		if field == nil {
			return policy, fmt.Errorf("policy %q: unknown part %q", text, rest[1:end])
		}
		*field(&policy) = sign == '+'
		rest = rest[end:]
	}
	policy.Name = text
	return policy, nil
}
