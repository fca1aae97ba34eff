package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/phoebe-sched/phoebe/frontend/client"
)

type statusCmd struct {
	JSON bool `name:"json" help:"Print what each frontend says as JSON. Default: tables."`

	clientFlags
}

// Help explains the columns.
func (c *statusCmd) Help() string {
	return `Shows every frontend in --connect and every worker that one of them knows. What a frontend says of a worker is
what it last heard; LINKS is how many of the frontends that answered have a working link to it.

Exit codes: 0 some frontend answered, 2 wrong usage, 3 none did.`
}

// statusJSON is one frontend in `phoebe status --json`.
type statusJSON struct {
	Connect      string       `json:"connect"` // the address that was asked
	Error        string       `json:"error,omitempty"`
	Frontend     string       `json:"frontend,omitempty"`
	Address      string       `json:"address,omitempty"`
	Version      string       `json:"version,omitempty"`
	UptimeMS     int64        `json:"uptime_ms"`
	Draining     bool         `json:"draining"`
	Jobs         int          `json:"jobs"`
	TasksPending int          `json:"tasks_pending"`
	TasksRunning int          `json:"tasks_running"`
	Workers      []workerJSON `json:"workers"`
}

// workerJSON is a worker as one frontend sees it.
type workerJSON struct {
	Name           string   `json:"name"`
	Address        string   `json:"address"`
	State          string   `json:"state"`
	Error          string   `json:"error,omitempty"`
	Host           string   `json:"host"`
	Labels         []string `json:"labels"`
	Functions      []string `json:"functions"`
	CPUMillicores  int32    `json:"cpu_millicores"`
	MemoryMiB      int32    `json:"memory_mib"`
	FreeMillicores int32    `json:"free_millicores"`
	FreeMemoryMiB  int32    `json:"free_memory_mib"`
	Queued         int      `json:"queued"`
	Running        int      `json:"running"`
	Reservations   int      `json:"reservations"`
	Attempts       int      `json:"attempts"`
	HeardMicros    int64    `json:"heard_us_ago"`
	RTTMicros      int64    `json:"rtt_us"`
}

// Run asks all frontends at once.
func (c *statusCmd) Run(ctx context.Context, out *streams, log *slog.Logger) error {
	ctx, cancel := context.WithTimeout(ctx, c.RetryFor)
	defer cancel()
	all := make([]statusJSON, len(c.Connect))
	errs := make([]error, len(c.Connect))
	var asked sync.WaitGroup
	for i, addr := range c.Connect {
		cl, err := c.dial(log, []string{addr})
		if err != nil {
			return err
		}
		asked.Go(func() {
			defer cl.Close()
			said, err := cl.Cluster(ctx)
			if err != nil {
				all[i], errs[i] = statusJSON{Connect: addr, Error: err.Error()}, err
				return
			}
			all[i] = statusOf(addr, said)
		})
	}
	asked.Wait()
	if !slices.Contains(errs, nil) {
		return &exitError{exitUnavailable, fmt.Errorf("no frontend answers: %w", errors.Join(errs...))}
	}
	if c.JSON {
		e := json.NewEncoder(out.out)
		e.SetIndent("", "  ")
		return e.Encode(all)
	}
	return printStatus(out.out, all)
}

func statusOf(addr string, c *client.Cluster) statusJSON {
	s := statusJSON{
		Connect: addr, Frontend: c.Frontend, Address: c.Address, Version: c.Version, UptimeMS: c.Uptime.Milliseconds(),
		Draining: c.Draining, Jobs: c.Jobs, TasksPending: c.TasksPending, TasksRunning: c.TasksRunning, Workers: []workerJSON{},
	}
	for _, w := range c.Workers {
		s.Workers = append(s.Workers, workerJSON{
			Name: w.Name, Address: w.Address, State: w.State, Error: w.Error, Host: w.Host, Labels: w.Labels, Functions: w.Functions,
			CPUMillicores: w.Capacity.CPU, MemoryMiB: w.Capacity.Memory, FreeMillicores: w.Free.CPU, FreeMemoryMiB: w.Free.Memory,
			Queued: w.Queued, Running: w.Running, Reservations: w.Reservations, Attempts: w.Attempts,
			HeardMicros: w.HeardAgo.Microseconds(), RTTMicros: w.RTT.Microseconds(),
		})
	}
	return s
}

// fleetWorker is a worker as all frontends see it.
type fleetWorker struct {
	workerJSON // of the frontend that heard from it last
	links      int
	rtt        int64 // the longest, in microseconds
}

func printStatus(w io.Writer, all []statusJSON) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "FRONTEND\tADDRESS\tSTATE\tUPTIME\tJOBS\tPENDING\tRUNNING\tVERSION")
	fleet := map[string]*fleetWorker{}
	answered := 0
	var broken []string
	for _, f := range all {
		if f.Error != "" {
			fmt.Fprintf(t, "-\t%s\tunreachable\t-\t-\t-\t-\t-\n", f.Connect)
			broken = append(broken, fmt.Sprintf("frontend %s: %s", f.Connect, f.Error))
			continue
		}
		answered++
		state := "serving"
		if f.Draining {
			state = "draining"
		}
		uptime := time.Duration(f.UptimeMS) * time.Millisecond
		fmt.Fprintf(t, "%s\t%s\t%s\t%v\t%d\t%d\t%d\t%s\n", f.Frontend, f.Address, state, uptime.Round(time.Second), f.Jobs, f.TasksPending, f.TasksRunning, f.Version)
		for _, k := range f.Workers {
			seen := fleet[k.Address]
			if seen == nil {
				seen = &fleetWorker{workerJSON: k}
				fleet[k.Address] = seen
			}
			if k.HeardMicros < seen.HeardMicros && k.State == "up" {
				seen.workerJSON = k
			}
			if k.State == "up" {
				seen.links++
			} else {
				broken = append(broken, fmt.Sprintf("link %s to %s: %s: %s", f.Frontend, k.Address, k.State, k.Error))
			}
			seen.rtt = max(seen.rtt, k.RTTMicros)
		}
	}
	fmt.Fprintln(t)
	fmt.Fprintln(t, "WORKER\tADDRESS\tSTATE\tCPU\tMEMORY\tFREE CPU\tFREE MEMORY\tQUEUED\tRUNNING\tLINKS\tRTT\tLABELS")
	for _, addr := range slices.Sorted(maps.Keys(fleet)) {
		k := fleet[addr]
		labels := strings.Join(k.Labels, ",")
		if labels == "" {
			labels = "-"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%dm\t%dMiB\t%dm\t%dMiB\t%d\t%d\t%d/%d\t%v\t%s\n", k.Name, k.Address, k.State, k.CPUMillicores, k.MemoryMiB,
			k.FreeMillicores, k.FreeMemoryMiB, k.Queued, k.Running, k.links, answered, time.Duration(k.rtt)*time.Microsecond, labels)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for i, b := range broken {
		if i == 0 {
			fmt.Fprintln(w)
		}
		if _, err := fmt.Fprintln(w, b); err != nil {
			return err
		}
	}
	return nil
}
