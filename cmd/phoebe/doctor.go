package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/phoebe-sched/phoebe/frontend/client/admin"
	"github.com/phoebe-sched/phoebe/probe/identity"
)

type doctorCmd struct {
	JSON jsonFile `name:"json" placeholder:"FILE" help:"Write the findings as JSON to this file. ${jsonFile}"`

	fleetFlags
}

// Help returns the text below the usage line.
func (c *doctorCmd) Help() string {
	return `Asks every frontend in --connect, and through these all other known frontends. All are asked at
the same time, and each has --retry-for to answer. Checks that frontends answer; their certificates
and the caller's own; versions, clocks, limits of open files and advertised addresses; who knows whom
by gossip; links to workers and their caches; and the ports for gossip and heartbeats. Each problem is
printed with its remedy. A note may be intended: for instance, this machine need not reach a port.

Exit codes: 0 no problem found, 1 problems found, 2 wrong usage, 3 no frontend answered.`
}

// finding is a problem of the fleet, or a note.
type finding struct {
	Note    bool   `json:"note"` // may be intended
	Where   string `json:"where"`
	Problem string `json:"problem"`
	Remedy  string `json:"remedy"`
}

// Run asks the frontends, and prints the findings.
func (c *doctorCmd) Run(ctx context.Context, out *streams, log *slog.Logger) error {
	write, text, err := createReports(out.out, jsonReport(c.JSON, writeDocument[[]finding]))
	if err != nil {
		return err
	}
	findings := c.checkOwnKeys()
	answers, err := c.askFleet(ctx, log, admin.ClusterQuery{})
	asked := c.Connect
	if err == nil {
		asked = nil
		for _, a := range answers {
			asked = append(asked, a.connect)
		}
	}
	findings = append(findings, c.checkShownKeys(ctx, asked)...)
	switch {
	case err != nil && len(findings) == 0:
		return err
	case err != nil:
		findings = append(findings, finding{Where: strings.Join(c.Connect, ", "), Problem: err.Error(),
			Remedy: "Mend the problems above first."})
	}
	findings = append(findings, diagnoseFleet(answers)...)
	findings = append(findings, findClosedPorts(ctx, c.RetryFor, answers)...)
	err = errors.Join(printFindings(text, answers, findings),
		write(append([]finding{}, findings...))) // JSON [] without findings, not null
	if err != nil {
		return err
	}
	if slices.ContainsFunc(findings, func(f finding) bool { return !f.Note }) {
		return &exitError{code: exitFailed}
	}
	return nil
}

// checkOwnKeys returns the problems of the keys in --tls-dir.
func (c *doctorCmd) checkOwnKeys() []finding {
	if c.TLSDir == "" {
		return nil
	}
	return keyFindings("keys in "+c.TLSDir,
		identity.Examine(c.TLSDir, identity.Client|identity.Frontend|identity.Operator,
			time.Now()))
}

// checkShownKeys returns the problems of the certificates that frontends show. Errors of the connection are left
// out: the question to the frontend will meet them, too.
func (c *doctorCmd) checkShownKeys(ctx context.Context, addrs []string) (findings []finding) {
	keys, err := c.openKeys()
	if err != nil || keys == nil {
		return nil
	}
	flaws := make([][]identity.Flaw, len(addrs))
	var examined sync.WaitGroup
	for i, addr := range addrs {
		examined.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, c.RetryFor)
			defer cancel()
			flaws[i], _ = keys.Examine(ctx, addr, identity.Frontend, time.Now())
		})
	}
	examined.Wait()
	for i, addr := range addrs {
		findings = append(findings, keyFindings("frontend "+addr, flaws[i])...)
	}
	return findings
}

// keyFindings turns flaws of keys into findings. A flaw that is still to come becomes a note.
func keyFindings(where string, flaws []identity.Flaw) (findings []finding) {
	for _, f := range flaws {
		findings = append(findings, finding{f.Soon, where, f.Problem, f.Remedy})
	}
	return findings
}

// printFindings prints the findings, and how many frontends and workers were seen.
func printFindings(w io.Writer, answers []answer, findings []finding) error {
	for _, f := range findings {
		kind := "problem"
		if f.Note {
			kind = "note"
		}
		if _, err := fmt.Fprintf(w, "%s: %s: %s\n  %s\n", kind, f.Where, f.Problem, f.Remedy); err != nil {
			return err
		}
	}
	frontends := distinctAnswers(answers)
	workers := map[string]bool{}
	for _, f := range frontends {
		for _, k := range f.cluster.Workers {
			workers[k.Address] = true
		}
	}
	_, err := fmt.Fprintf(w, "asked %d frontends, which know %d workers: %d findings\n", len(frontends), len(workers),
		len(findings))
	return err
}

// diagnoseFleet returns the problems that show in the frontends' answers.
func diagnoseFleet(answers []answer) (findings []finding) {
	problem := func(where, remedy, format string, args ...any) {
		findings = append(findings, finding{Where: where, Problem: fmt.Sprintf(format, args...), Remedy: remedy})
	}
	for _, a := range answers {
		switch {
		case a.isGone:
			findings = append(findings, finding{true, "frontend " + cmp.Or(a.name, a.connect), a.err.Error(),
				"None, if it was ended on purpose. Else start it, or check its host and the firewall."})
		case a.err != nil:
			problem("frontend "+a.connect,
				"Start it, or check its host, the firewall and the secret. If it is gone, remove it from --connect.",
				"does not answer: %s", strings.TrimPrefix(a.err.Error(), "frontend "+a.connect+": "))
		}
	}
	all := distinctAnswers(answers)
	brokenCaches := map[string]bool{} // by worker's address
	for _, a := range all {
		f, where := a.cluster, "frontend "+a.cluster.Frontend
		if f.Warning != "" {
			problem(where, "Mend what it says. Until then, it keeps the state that it has.", "%s", f.Warning)
		}
		if f.Draining {
			findings = append(findings, finding{true, where, "drains: it takes no more jobs",
				"None, if it shall end. Else start it again."})
		}
		if isLoopback(f.Address) && !isLoopback(a.connect) {
			problem(where, "Set --advertise to the address where others reach it.",
				"advertises %s, an address that on each machine means the machine itself", f.Address)
		}
		if need := f.MaxClients + 2*len(f.Workers) + otherFiles; f.FileLimit > 0 && f.FileLimit < need {
			problem(where, fmt.Sprintf(
				"Raise the limit of open files (LimitNOFILE=%d in its unit, ulimit -n) or lower --max-clients.", need),
				"may open %d files, and needs %d for %d clients and %d workers", f.FileLimit, need, f.MaxClients,
				len(f.Workers))
		}
		for _, k := range f.Workers {
			if k.CacheError != "" && !brokenCaches[k.Address] {
				brokenCaches[k.Address] = true
				problem("worker "+k.Name, "Mend the disk or the folder. The worker tries to write each second, and "+
					"then gets tasks with files again.", "gets no tasks with files: %s", k.CacheError)
			}
			if k.Row != nil && len(k.Row.Flaws) > 0 {
				problem("worker "+k.Name,
					"Upgrade it to the version of the other processes. If the versions are equal, report the defect.",
					"sends absurd values to %s: %s", f.Frontend, strings.Join(k.Row.Flaws, ", "))
			}
		}
	}
	findings = append(findings, compareFrontendVersions(all)...)
	findings = append(findings, compareClocks(all)...)
	findings = append(findings, findStrangers(all)...)
	return append(findings, checkLinks(all)...)
}

// compareFrontendVersions returns a finding if frontends run different versions.
func compareFrontendVersions(all []answer) []finding {
	byVersion := map[string][]string{}
	for _, a := range all {
		byVersion[a.cluster.Version] = append(byVersion[a.cluster.Version], a.cluster.Frontend)
	}
	if len(byVersion) < 2 {
		return nil
	}
	var texts []string
	for _, v := range slices.Sorted(maps.Keys(byVersion)) {
		texts = append(texts, fmt.Sprintf("%s at %s", v, strings.Join(byVersion[v], ", ")))
	}
	return []finding{{false, "frontends", "run different versions: " + strings.Join(texts, "; "),
		"Finish the upgrade, one process after the other, of workers too."}}
}

// maxSkew bounds the difference of two clocks. Scheduling never compares the clocks of two machines, but readers of
// logs do.
const maxSkew = time.Second

// compareClocks reports frontends with a clock that certainly differs by more than maxSkew from this machine's
// clock. The answer takes time, so ahead and behind are lower bounds.
func compareClocks(all []answer) (findings []finding) {
	for _, a := range all {
		if a.cluster.Clock.Unix() <= 0 {
			continue // a version without a clock
		}
		ahead, behind := a.cluster.Clock.Sub(a.receivedAt), a.sentAt.Sub(a.cluster.Clock) // lower bounds
		if skew := max(ahead, behind); skew > maxSkew {
			way := "ahead of"
			if behind > ahead {
				way = "behind"
			}
			findings = append(findings, finding{false, "frontend " + a.cluster.Frontend,
				fmt.Sprintf("its clock is %v %s this machine's clock", skew.Round(time.Millisecond), way),
				"Set both clocks by NTP (see timedatectl). Otherwise logs mislead, and a worker restarted with an " +
					"earlier clock counts as old."})
		}
	}
	return findings
}

// findStrangers reports frontends that do not know each other.
func findStrangers(all []answer) (findings []finding) {
	for _, a := range all {
		for _, b := range all {
			if b.cluster.Frontend == a.cluster.Frontend || len(a.cluster.Members) == 0 && len(b.cluster.Members) == 0 ||
				slices.ContainsFunc(a.cluster.Members,
					func(m admin.Member) bool { return m.Name == b.cluster.Frontend }) {
				continue
			}
			findings = append(findings, finding{false, "frontend " + a.cluster.Frontend,
				"does not know frontend " + b.cluster.Frontend + " by gossip",
				"Give both --gossip, --join and the same secret. Let TCP and UDP through between the gossip ports."})
		}
	}
	return findings
}

// checkLinks reports workers without a link from each frontend, and workers with equal names.
func checkLinks(all []answer) (findings []finding) {
	type seen struct {
		name    string
		up      int
		unknown []string // frontends that do not know the worker
		broken  []string // frontends without a working link, with the reason
	}
	workers := map[string]*seen{}
	for _, a := range all {
		for _, k := range a.cluster.Workers {
			if workers[k.Address] == nil {
				workers[k.Address] = &seen{}
			}
		}
	}
	for addr, w := range workers {
		for _, a := range all {
			at := slices.IndexFunc(a.cluster.Workers, func(k admin.Worker) bool { return k.Address == addr })
			if at < 0 {
				w.unknown = append(w.unknown, a.cluster.Frontend)
				continue
			}
			k := a.cluster.Workers[at]
			w.name = cmp.Or(w.name, k.Name)
			if k.State == "up" || k.State == "draining" {
				w.name, w.up = k.Name, w.up+1
			} else {
				w.broken = append(w.broken, fmt.Sprintf("%s (%s: %s)", a.cluster.Frontend, k.State,
					cmp.Or(k.Error, "no answer yet")))
			}
		}
	}
	names := map[string]string{}
	for _, addr := range slices.Sorted(maps.Keys(workers)) {
		w := workers[addr]
		where := "worker " + addr
		if w.name != addr {
			where = fmt.Sprintf("worker %s at %s", w.name, addr)
			if other := names[w.name]; other != "" {
				findings = append(findings, finding{false, where, "has the same name as the one at " + other,
					"Give each worker its own --name: jobs that ask for a worker by name get either worker."})
			}
			names[w.name] = addr
		}
		switch {
		case len(w.broken) > 0 && w.up == 0:
			findings = append(findings,
				finding{false, where, "no frontend has a link to it: " + strings.Join(w.broken, ", "),
					"Start it, or check its host, firewall, --listen, --advertise, secret and version. If it is gone, " +
						"remove it from --workers."})
		case len(w.broken) > 0:
			findings = append(findings,
				finding{false, where, "some frontends have no link to it: " + strings.Join(w.broken, ", "),
					"Let these frontends through to its port. --max-links must be the number of frontends or more."})
		}
		if len(w.unknown) > 0 {
			findings = append(findings, finding{false, where, "is not known to " + strings.Join(w.unknown, ", "),
				"Give these frontends --gossip and --join, or the same --workers as the other frontends."})
		}
	}
	return findings
}

// isLoopback reports whether addr means, on each machine, the machine itself.
func isLoopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && (ip.IsLoopback() || ip.IsUnspecified())
}

// findClosedPorts reports ports for gossip and heartbeats out of reach of this machine. Each port has patience to
// answer.
func findClosedPorts(ctx context.Context, patience time.Duration, answers []answer) (findings []finding) {
	where := map[string]string{}
	for _, a := range distinctAnswers(answers) {
		for _, m := range a.cluster.Members {
			if m.Gossip != "" {
				where[m.Gossip] = fmt.Sprintf("gossip port of frontend %s", m.Name)
			}
			if m.Heartbeat != "" {
				where[m.Heartbeat] = fmt.Sprintf("heartbeat port of frontend %s", m.Name)
			}
		}
	}
	addrs := slices.Sorted(maps.Keys(where))
	errs := make([]error, len(addrs))
	var dials sync.WaitGroup
	for i, addr := range addrs {
		dials.Go(func() {
			conn, err := (&net.Dialer{Timeout: patience}).DialContext(ctx, "tcp", addr)
			if errs[i] = err; err == nil {
				errs[i] = conn.Close()
			}
		})
	}
	dials.Wait()
	for i, addr := range addrs {
		if errs[i] != nil {
			findings = append(findings,
				finding{true, where[addr], fmt.Sprintf("this machine does not reach it: %v", errs[i]),
					"None, if this machine runs neither frontends nor workers. Else let it through."})
		}
	}
	return findings
}
