package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/phoebe-sched/phoebe/frontend/client/admin"
	"github.com/phoebe-sched/phoebe/probe/units"
)

type statusCmd struct {
	JSON     jsonFile `name:"json" placeholder:"FILE" help:"Write each frontend's answer as JSON to this file. ${jsonFile}"`
	Matrices bool     `help:"Also print each frontend's wait matrix of each worker. Default: the smallest and the largest wait only."`

	fleetFlags
}

// Help returns the text below the usage line.
func (c *statusCmd) Help() string {
	return `Shows every frontend in --connect, all other known frontends, and all workers. A frontend without
an answer is unreachable, and the last lines say why.

Columns of a frontend:
  PENDING     tasks without an outcome
  RUNNING     tasks that run, as far as the frontend knows, copies included; without tasks in workers' queues
  SPARE       slots taken by tasks that are not regular, or not covered by tokens (see phoebe tenants)
  COPIES      second attempts of late tasks since the start: how many finished first / all
  PREEMPTED   attempts stopped for regular work since the start

The line below the frontends counts jobs and tasks at all frontends, by their ends in the last minute.

Columns of a worker show what frontends last heard:
  FREE CPU, FREE MEMORY
              room for regular tasks: the room of spare tasks counts as free, because spare tasks are stopped
              for regular tasks
  SPARE CPU   part of FREE CPU that spare tasks use, of the frontends that answered; spare tasks may use the rest of
              FREE CPU, too
  LINKS       frontends with a working link to the worker / frontends that answered
  WAIT        expected wait of the smallest and of the largest long task, at the frontend with the newest data; tasks
              that the frontend has sent there itself are included
  AGE         age of these waits
  ROW, FROM   with gossip: age of the youngest row about the worker, and the frontend or worker that sent the row

A frontend without gossip asks workers for waits when it has long tasks to place, and forgets waits
older than 30 s.

Exit codes: 0 a frontend answered, 2 wrong usage, 3 no frontend answered.`
}

// statusJSON is one frontend in `phoebe status --json`.
type statusJSON struct {
	Connect      string       `json:"connect"` // the address of --connect, or of a frontend beyond
	Error        string       `json:"error,omitempty"`
	Frontend     string       `json:"frontend,omitempty"`
	Address      string       `json:"address,omitempty"`
	Version      string       `json:"version,omitempty"`
	UptimeMS     int64        `json:"uptime_ms"`
	Draining     bool         `json:"draining"`
	Jobs         int          `json:"jobs"`
	TasksPending int          `json:"tasks_pending"`
	TasksRunning int          `json:"tasks_running"`
	Spare        float64      `json:"spare"` // in slots
	Copies       int          `json:"copies"`
	CopiesWon    int          `json:"copies_won"`
	Preempted    int          `json:"preempted"`
	Workers      []workerJSON `json:"workers"`
	Members      []memberJSON `json:"members,omitempty"`
	Warning      string       `json:"warning,omitempty"`
	LastMinute   *minuteJSON  `json:"last_minute,omitempty"` // null: the frontend is of an older version
}

// memberJSON is a frontend that another frontend knows by gossip.
type memberJSON struct {
	Name      string `json:"name"`
	Address   string `json:"address"`
	Gossip    string `json:"gossip"`
	Heartbeat string `json:"heartbeat"`
}

// rowJSON is a worker's row in a frontend's gossip.
type rowJSON struct {
	AgeMicros int64    `json:"age_us"`
	From      string   `json:"from"`
	Flaws     []string `json:"flaws,omitempty"`
}

// viewJSON is a frontend's view of a worker, for placing long tasks.
type viewJSON struct {
	AgeMicros int64 `json:"age_us"` // of the waits; -1: no waits are known
	// by steps of CPU, then of memory: 1, 2, 4, 8, 12, 16, 24 and 32 of 32 parts of the worker; -1: never fits
	WaitsMicros       [][]int64 `json:"waits_us"`
	Speed             float64   `json:"speed,omitempty"`
	Files             int       `json:"files"`          // number of files in the worker's cache
	MaintenanceMicros int64     `json:"maintenance_us"` // until the worker is away; -1: nothing announced
}

// matrixSteps are the steps of a wait matrix, in 32nds of the worker.
var matrixSteps = [...]int64{1, 2, 4, 8, 12, 16, 24, 32}

// workerJSON is a frontend's view of a worker.
type workerJSON struct {
	Name           string   `json:"name"`
	Address        string   `json:"address"`
	State          string   `json:"state"`
	Error          string   `json:"error,omitempty"`
	CacheError     string   `json:"cache_error,omitempty"` // why the worker's cache takes no new files
	Host           string   `json:"host"`
	Labels         []string `json:"labels"`
	Functions      []string `json:"functions"`
	CPUMillicores  int32    `json:"cpu_millicores"`
	MemoryMiB      int32    `json:"memory_mib"`
	FreeMillicores int32    `json:"free_millicores"` // room for regular tasks: the room of spare tasks is a part
	FreeMemoryMiB  int32    `json:"free_memory_mib"`
	// used by this frontend's spare tasks, a part of the free room; absent: an older frontend does not tell
	SpareMillicores *int32   `json:"spare_millicores,omitempty"`
	SpareMemoryMiB  *int32   `json:"spare_memory_mib,omitempty"`
	Queued          int      `json:"queued"`
	Running         int      `json:"running"`
	Reservations    int      `json:"reservations"`
	Attempts        int      `json:"attempts"`
	HeardMicros     int64    `json:"heard_us_ago"`
	RTTMicros       int64    `json:"rtt_us"`
	Rack            string   `json:"rack,omitempty"`
	Row             *rowJSON `json:"row,omitempty"`
	View            viewJSON `json:"view"`
}

// Run asks all frontends, and prints their answers.
func (c *statusCmd) Run(ctx context.Context, out *streams, log *slog.Logger) error {
	write, text, err := createReports(out.out, jsonReport(c.JSON, writeDocument[[]statusJSON]))
	if err != nil {
		return err
	}
	answers, err := c.askFleet(ctx, log, admin.ClusterQuery{})
	if err != nil {
		return err
	}
	var all []statusJSON
	for _, a := range answers {
		if a.err != nil {
			all = append(all, statusJSON{Connect: a.connect, Frontend: a.name, Error: a.err.Error()})
		} else {
			all = append(all, statusOf(a.connect, a.cluster))
		}
	}
	if err := write(all); err != nil {
		return err
	}
	for i := range all {
		warning := strings.Split(all[i].Warning, "\n") // may name a flaw of a file on each line
		quoteStrings(reflect.ValueOf(warning))
		quoteStrings(reflect.ValueOf(&all[i]))
		all[i].Warning = strings.Join(warning, "\n")
	}
	if err := printStatus(text, all, sumMinutes(answers)); err != nil || !c.Matrices {
		return err
	}
	return printMatrices(text, all)
}

// statusOf converts a frontend's answer to JSON.
func statusOf(addr string, c *admin.Cluster) statusJSON {
	s := statusJSON{
		Connect: addr, Frontend: c.Frontend, Address: c.Address, Version: c.Version, UptimeMS: c.Uptime.Milliseconds(),
		Draining: c.Draining, Jobs: c.Jobs, TasksPending: c.TasksPending, TasksRunning: c.TasksRunning,
		Workers: []workerJSON{},
		Warning: c.Warning, Spare: c.Spare, Copies: c.Copies, CopiesWon: c.CopiesWon, Preempted: c.Preempted,
		LastMinute: minuteOf(c.LastMinute),
	}
	for _, m := range c.Members {
		s.Members = append(s.Members, memberJSON(m))
	}
	for _, w := range c.Workers {
		k := workerJSON{
			Name: w.Name, Address: w.Address, State: w.State, Error: w.Error, CacheError: w.CacheError,
			Host: w.Host, Labels: w.Labels, Functions: w.Functions,
			CPUMillicores: w.Capacity.CPU, MemoryMiB: w.Capacity.Memory, FreeMillicores: w.Free.CPU,
			FreeMemoryMiB: w.Free.Memory,
			Queued:        w.Queued, Running: w.Running, Reservations: w.Reservations, Attempts: w.Attempts,
			HeardMicros: w.HeardAgo.Microseconds(), RTTMicros: w.RTT.Microseconds(), Rack: w.Rack,
			Row: rowOf(w.Row), View: viewOf(&w.View),
		}
		if w.Spare != nil {
			k.SpareMillicores, k.SpareMemoryMiB = &w.Spare.CPU, &w.Spare.Memory
		}
		s.Workers = append(s.Workers, k)
	}
	return s
}

// rowOf converts a row to JSON. Nil stays nil.
func rowOf(r *admin.Row) *rowJSON {
	if r == nil {
		return nil
	}
	return &rowJSON{AgeMicros: r.Age.Microseconds(), From: r.From, Flaws: r.Flaws}
}

// viewOf converts a view to JSON. Negative times become -1.
func viewOf(v *admin.View) viewJSON {
	view := viewJSON{AgeMicros: -1, WaitsMicros: [][]int64{}, Speed: v.Speed, Files: v.Files, MaintenanceMicros: -1}
	if v.Age >= 0 {
		view.AgeMicros = v.Age.Microseconds()
	}
	if v.Maintenance >= 0 {
		view.MaintenanceMicros = v.Maintenance.Microseconds()
	}
	for _, line := range v.Waits {
		micros := make([]int64, len(line))
		for j, w := range line {
			micros[j] = w.Microseconds()
			if w < 0 {
				micros[j] = -1
			}
		}
		view.WaitsMicros = append(view.WaitsMicros, micros)
	}
	return view
}

// tableColumns returns the age and the source of the worker's row, or two dashes if r is nil.
func (r *rowJSON) tableColumns() string {
	if r == nil {
		return "-\t-"
	}
	return fmt.Sprintf("%s\t%s", microsText(r.AgeMicros), r.From)
}

// tableColumns returns the worker's smallest and largest wait, and the age of the waits.
func (v *viewJSON) tableColumns() string {
	n := len(v.WaitsMicros)
	if n == 0 {
		return units.Unknown + "\t-"
	}
	last := v.WaitsMicros[n-1]
	return fmt.Sprintf("%s..%s\t%s", waitText(v.WaitsMicros[0][0]), waitText(last[len(last)-1]),
		microsText(v.AgeMicros))
}

// microsText formats microseconds.
func microsText(us int64) string { return units.Time(time.Duration(us) * time.Microsecond) }

// waitText formats a wait in microseconds. A negative wait is "never".
func waitText(us int64) string {
	if us < 0 {
		return "never"
	}
	return microsText(us)
}

// isNewerThan reports whether v has waits, and newer waits than w.
func (v *viewJSON) isNewerThan(w *viewJSON) bool {
	return v.AgeMicros >= 0 && (w.AgeMicros < 0 || v.AgeMicros < w.AgeMicros)
}

// printMatrices prints each frontend's wait matrix of each worker.
func printMatrices(w io.Writer, all []statusJSON) error {
	for _, f := range all {
		for i := range f.Workers {
			k := &f.Workers[i]
			v := &k.View
			fmt.Fprintf(w, "\nworker %s, as %s sees it: ", k.Name, f.Frontend)
			if len(v.WaitsMicros) == 0 {
				fmt.Fprintln(w, "its waits are "+units.Unknown)
				continue
			}
			fmt.Fprintf(w, "%s old", microsText(v.AgeMicros))
			if v.Speed > 0 {
				fmt.Fprintf(w, ", speed %.2f", v.Speed)
			}
			if v.Files > 0 {
				fmt.Fprintf(w, ", %d files cached", v.Files)
			}
			if v.MaintenanceMicros >= 0 {
				fmt.Fprintf(w, ", away in %s", microsText(v.MaintenanceMicros))
			}
			fmt.Fprintln(w, "; wait by CPU (down) and memory")
			t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
			for _, part := range matrixSteps {
				fmt.Fprintf(t, "\t%dMiB", int64(k.MemoryMiB)*part/32)
			}
			fmt.Fprintln(t, "\t")
			for step, line := range v.WaitsMicros {
				fmt.Fprintf(t, "%dm", int64(k.CPUMillicores)*matrixSteps[min(step, len(matrixSteps)-1)]/32)
				for _, us := range line {
					fmt.Fprintf(t, "\t%s", waitText(us))
				}
				fmt.Fprintln(t, "\t")
			}
			if err := t.Flush(); err != nil {
				return err
			}
		}
	}
	return nil
}

// fleetWorker is a worker as all frontends see it.
type fleetWorker struct {
	workerJSON // as seen by the frontend that heard from the worker last
	links      int
	spare      int32    // millicores that spare tasks of all frontends use; -1: a frontend does not tell
	rtt        int64    // the longest, in microseconds
	row        *rowJSON // the youngest row
	view       viewJSON // the view with the youngest waits
}

// knownMember is a frontend as all frontends see it.
type knownMember struct {
	memberJSON
	knownTo int // how many frontends know it
}

// printStatus prints the tables of frontends, members and workers, and then all problems. lastMinute counts the jobs
// of all frontends; nil: not known.
func printStatus(w io.Writer, all []statusJSON, lastMinute *admin.LastMinute) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "FRONTEND\tADDRESS\tSTATE\tUPTIME\tJOBS\tPENDING\tRUNNING\tSPARE\tCOPIES\tPREEMPTED\tVERSION")
	fleet := map[string]*fleetWorker{}
	members := map[string]*knownMember{}
	answered := 0
	var broken []string
	brokenCaches := map[string]string{} // by worker's address
	for _, f := range all {
		if f.Error != "" {
			fmt.Fprintf(t, "%s\t%s\tunreachable\t-\t-\t-\t-\t-\t-\t-\t-\n", cmp.Or(f.Frontend, "-"), f.Connect)
			prefix := "frontend " + f.Connect + ": "
			broken = append(broken, prefix+strings.TrimPrefix(f.Error, prefix))
			continue
		}
		answered++
		state := "serving"
		if f.Draining {
			state = "draining"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%d\t%d\t%d\t%.4g\t%d/%d\t%d\t%s\n", f.Frontend, f.Address, state,
			units.Time(time.Duration(f.UptimeMS)*time.Millisecond), f.Jobs, f.TasksPending, f.TasksRunning,
			f.Spare, f.CopiesWon, f.Copies, f.Preempted, f.Version)
		if f.Warning != "" {
			broken = append(broken, fmt.Sprintf("frontend %s: %s", f.Frontend, f.Warning))
		}
		for _, m := range f.Members {
			if members[m.Name] == nil {
				members[m.Name] = &knownMember{memberJSON: m}
			}
			members[m.Name].knownTo++
		}
		for _, k := range f.Workers {
			seen := fleet[k.Address]
			if seen == nil {
				seen = &fleetWorker{workerJSON: k, view: k.View}
				fleet[k.Address] = seen
			}
			if k.HeardMicros < seen.HeardMicros && k.State == "up" {
				seen.workerJSON = k
			}
			if k.SpareMillicores == nil {
				seen.spare = -1
			} else if seen.spare >= 0 {
				seen.spare += *k.SpareMillicores
			}
			if k.State == "up" {
				seen.links++
			} else {
				broken = append(broken, fmt.Sprintf("link %s to %s: %s: %s", f.Frontend, k.Address, k.State, k.Error))
			}
			if k.CacheError != "" {
				brokenCaches[k.Address] = fmt.Sprintf("worker %s gets no tasks with files: %s", k.Name, k.CacheError)
			}
			seen.rtt = max(seen.rtt, k.RTTMicros)
			if k.View.isNewerThan(&seen.view) {
				seen.view = k.View
			}
			if k.Row != nil && (seen.row == nil || k.Row.AgeMicros < seen.row.AgeMicros) {
				seen.row = k.Row
			}
			if k.Row != nil && len(k.Row.Flaws) > 0 {
				broken = append(broken, fmt.Sprintf("worker %s sends absurd values to %s: %s", k.Name, f.Frontend,
					strings.Join(k.Row.Flaws, ", ")))
			}
		}
	}
	if lastMinute != nil {
		fmt.Fprintf(t, "last minute: %s\n", countsText(lastMinute))
	}
	if len(members) > 0 {
		fmt.Fprintln(t)
		fmt.Fprintln(t, "MEMBER\tADDRESS\tGOSSIP\tHEARTBEATS\tKNOWN TO")
		for _, name := range slices.Sorted(maps.Keys(members)) {
			m := members[name]
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%d/%d\n", m.Name, m.Address, m.Gossip, m.Heartbeat, m.knownTo, answered)
		}
	}
	fmt.Fprintln(t)
	gossip, columns := "", ""
	if len(members) > 0 {
		gossip = "\tROW\tFROM"
	}
	fmt.Fprintf(t, "WORKER\tADDRESS\tSTATE\tCPU\tMEMORY\tFREE CPU\tFREE MEMORY\tSPARE CPU\tQUEUED\tRUNNING\tLINKS\t"+
		"RTT\tWAIT\tAGE%s\tLABELS\n", gossip)
	anySpare := false
	for _, addr := range slices.Sorted(maps.Keys(fleet)) {
		k := fleet[addr]
		labels := strings.Join(k.Labels, ",")
		if labels == "" {
			labels = "-"
		}
		if gossip != "" {
			columns = "\t" + k.row.tableColumns()
		}
		spare := "-"
		if k.spare >= 0 {
			spare = fmt.Sprintf("%dm", k.spare)
		}
		anySpare = anySpare || k.spare > 0
		fmt.Fprintf(t, "%s\t%s\t%s\t%dm\t%dMiB\t%dm\t%dMiB\t%s\t%d\t%d\t%d/%d\t%s\t%s%s\t%s\n", k.Name, k.Address,
			k.State, k.CPUMillicores, k.MemoryMiB,
			k.FreeMillicores, k.FreeMemoryMiB, spare, k.Queued, k.Running, k.links, answered,
			microsText(k.rtt), k.view.tableColumns(), columns, labels)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if anySpare {
		fmt.Fprintln(w, "FREE is the room for regular tasks. Spare tasks use SPARE CPU of FREE CPU, and are stopped "+
			"for regular tasks.")
	}
	for _, addr := range slices.Sorted(maps.Keys(brokenCaches)) {
		broken = append(broken, brokenCaches[addr])
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
