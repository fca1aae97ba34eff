package main

import (
	"cmp"
	"context"
	"encoding/json"
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

	"github.com/phoebe-sched/phoebe/frontend/client"
	"github.com/phoebe-sched/phoebe/probe/identity"
)

type doctorCmd struct {
	JSON bool `name:"json" help:"Print the findings as JSON. Default: text."`

	clientFlags
}

// Help says what is looked at.
func (c *doctorCmd) Help() string {
	return `Asks every frontend in --connect, and every one that these know by gossip, and looks at: frontends that do not answer,
their certificates and one's own, versions, clocks, limits of open files and advertised addresses, who knows whom by gossip, links to workers that do
not work, and the ports for gossip and heartbeats. A problem is printed with its remedy; a note may be as it should be,
as when this machine is not to reach a port.

Exit codes: 0 no problem was found, 1 some were, 2 wrong usage, 3 no frontend answered.`
}

// finding is something that is not as it should be.
type finding struct {
	Note    bool   `json:"note"` // it may well be as it should be
	Where   string `json:"where"`
	Problem string `json:"problem"`
	Remedy  string `json:"remedy"`
}

// Run asks and tells.
func (c *doctorCmd) Run(ctx context.Context, out *streams, log *slog.Logger) error {
	ctx, cancel := context.WithTimeout(ctx, c.RetryFor)
	defer cancel()
	findings := c.ownKeys()
	answers, err := c.askAll(ctx, log, client.ClusterQuery{})
	asked := c.Connect
	if err == nil {
		asked = nil
		for _, a := range answers {
			asked = append(asked, a.connect)
		}
	}
	findings = append(findings, c.shownKeys(ctx, asked)...)
	switch {
	case err != nil && len(findings) == 0:
		return err
	case err != nil:
		findings = append(findings, finding{Where: strings.Join(c.Connect, ", "), Problem: err.Error(), Remedy: "See to what is said above first."})
	}
	findings = append(findings, diagnose(answers)...)
	findings = append(findings, closedPorts(ctx, answers)...)
	if err := c.print(out.out, answers, findings); err != nil {
		return err
	}
	if slices.ContainsFunc(findings, func(f finding) bool { return !f.Note }) {
		return &exitError{code: exitFailed}
	}
	return nil
}

// ownKeys tells what is wrong with --tls-dir.
func (c *doctorCmd) ownKeys() []finding {
	if c.TLSDir == "" {
		return nil
	}
	return ofKeys("keys in "+c.TLSDir, identity.Examine(c.TLSDir, identity.Client|identity.Frontend|identity.Operator, time.Now()))
}

// shownKeys tells what is wrong with the certificates of frontends. What else keeps these from answering they are asked for anyway.
func (c *doctorCmd) shownKeys(ctx context.Context, addrs []string) (findings []finding) {
	keys, err := c.keys()
	if err != nil || keys == nil {
		return nil
	}
	for _, addr := range addrs {
		flaws, _ := keys.Examine(ctx, addr, identity.Frontend, time.Now())
		findings = append(findings, ofKeys("frontend "+addr, flaws)...)
	}
	return findings
}

func ofKeys(where string, flaws []identity.Flaw) (findings []finding) {
	for _, f := range flaws {
		findings = append(findings, finding{f.Soon, where, f.Problem, f.Remedy})
	}
	return findings
}

func (c *doctorCmd) print(w io.Writer, answers []answer, findings []finding) error {
	if c.JSON {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(slices.Concat([]finding{}, findings)) // an empty list is one, too
	}
	for _, f := range findings {
		kind := "problem"
		if f.Note {
			kind = "note"
		}
		if _, err := fmt.Fprintf(w, "%s: %s: %s\n  %s\n", kind, f.Where, f.Problem, f.Remedy); err != nil {
			return err
		}
	}
	frontends := heard(answers)
	workers := map[string]bool{}
	for _, f := range frontends {
		for _, k := range f.said.Workers {
			workers[k.Address] = true
		}
	}
	_, err := fmt.Fprintf(w, "asked %d frontends, which know %d workers: %d findings\n", len(frontends), len(workers), len(findings))
	return err
}

// askAll asks the frontends that --connect names, and then those that they know.
func (c *clientFlags) askAll(ctx context.Context, log *slog.Logger, q client.ClusterQuery) ([]answer, error) {
	answers, err := c.askThose(ctx, log, q)
	if err != nil {
		return nil, err
	}
	more, err := c.ask(ctx, log, unasked(answers), q)
	return append(answers, more...), err
}

// unasked are the frontends that others know and nobody has asked.
func unasked(answers []answer) []string {
	asked, known := map[string]bool{}, map[string]bool{}
	for _, a := range answers {
		asked[a.connect] = true
		if a.err != nil {
			continue
		}
		asked[a.said.Address] = true
		for _, m := range a.said.Members {
			known[m.Address] = m.Address != ""
		}
	}
	maps.DeleteFunc(known, func(addr string, dial bool) bool { return !dial || asked[addr] })
	return slices.Sorted(maps.Keys(known))
}

// heard are the answers of different frontends: behind a balancer, two may be of one.
func heard(answers []answer) (all []answer) {
	for _, a := range answers {
		if a.err == nil && !slices.ContainsFunc(all, func(b answer) bool { return b.said.Address == a.said.Address && b.said.Frontend == a.said.Frontend }) {
			all = append(all, a)
		}
	}
	return all
}

// diagnose tells what is wrong by what frontends say.
func diagnose(answers []answer) (findings []finding) {
	problem := func(where, remedy, format string, args ...any) {
		findings = append(findings, finding{Where: where, Problem: fmt.Sprintf(format, args...), Remedy: remedy})
	}
	for _, a := range answers {
		if a.err != nil {
			problem("frontend "+a.connect, "Start it, or see whether its host, a firewall or the secret is in the way; then take its address out of --connect if it is gone for good.",
				"does not answer: %s", strings.TrimPrefix(a.err.Error(), "frontend "+a.connect+": "))
		}
	}
	all := heard(answers)
	for _, a := range all {
		f, where := a.said, "frontend "+a.said.Frontend
		if f.Warning != "" {
			problem(where, "See to what it says itself: until then it goes on with what it has.", "%s", f.Warning)
		}
		if f.Draining {
			findings = append(findings, finding{true, where, "drains: it takes no more jobs", "Nothing, if it is to end. Else start it again."})
		}
		if loopback(f.Address) && !loopback(a.connect) {
			problem(where, "Set --advertise to the address by which others reach it.", "tells others to reach it at %s, which is each machine's own", f.Address)
		}
		if need := f.MaxClients + 2*len(f.Workers) + spareFiles; f.FileLimit > 0 && f.FileLimit < need {
			problem(where, fmt.Sprintf("Raise the limit of open files (LimitNOFILE=%d in its unit, ulimit -n) or lower --max-clients.", need),
				"may have %d files open, and needs %d for %d clients and %d workers", f.FileLimit, need, f.MaxClients, len(f.Workers))
		}
		for _, k := range f.Workers {
			if k.Row != nil && len(k.Row.Flaws) > 0 {
				problem("worker "+k.Name, "Upgrade it to the version of the others; if it has that, report the defect.", "tells %s something absurd: %s", f.Frontend, strings.Join(k.Row.Flaws, ", "))
			}
		}
	}
	findings = append(findings, versions(all)...)
	findings = append(findings, clocks(all)...)
	findings = append(findings, strangers(all)...)
	return append(findings, links(all)...)
}

// versions tells of frontends that are not of the same version.
func versions(all []answer) []finding {
	of := map[string][]string{}
	for _, a := range all {
		of[a.said.Version] = append(of[a.said.Version], a.said.Frontend)
	}
	if len(of) < 2 {
		return nil
	}
	var texts []string
	for _, v := range slices.Sorted(maps.Keys(of)) {
		texts = append(texts, fmt.Sprintf("%s at %s", v, strings.Join(of[v], ", ")))
	}
	return []finding{{false, "frontends", "run different versions: " + strings.Join(texts, "; "), "Finish the upgrade, one process after the other; workers, too."}}
}

// maxSkew is how far clocks may be apart. Scheduling compares no clocks of two machines; who reads logs does.
const maxSkew = time.Second

// clocks tells of frontends whose clocks are certainly far from that of this machine.
func clocks(all []answer) (findings []finding) {
	for _, a := range all {
		if a.said.Clock.Unix() <= 0 {
			continue // an old version
		}
		ahead, behind := a.said.Clock.Sub(a.got), a.sent.Sub(a.said.Clock) // at least
		if skew := max(ahead, behind); skew > maxSkew {
			way := "ahead of"
			if behind > ahead {
				way = "behind"
			}
			findings = append(findings, finding{false, "frontend " + a.said.Frontend, fmt.Sprintf("its clock is %v %s that of this machine", skew.Round(time.Millisecond), way),
				"Have both set their clocks by NTP (timedatectl tells): logs cannot be compared, and a worker that restarts with an earlier clock is taken for an old one."})
		}
	}
	return findings
}

// strangers tells of frontends that do not know each other.
func strangers(all []answer) (findings []finding) {
	for _, a := range all {
		for _, b := range all {
			if b.said.Frontend == a.said.Frontend || len(a.said.Members) == 0 && len(b.said.Members) == 0 ||
				slices.ContainsFunc(a.said.Members, func(m client.Member) bool { return m.Name == b.said.Frontend }) {
				continue
			}
			findings = append(findings, finding{false, "frontend " + a.said.Frontend, "does not know frontend " + b.said.Frontend + " by gossip",
				"Give both --gossip, name either in the other's --join, with the same secret, and let TCP and UDP through between their gossip ports."})
		}
	}
	return findings
}

// links tells of workers that not all frontends reach.
func links(all []answer) (findings []finding) {
	type seen struct {
		name    string
		up      int
		unknown []string // frontends that know nothing of it
		broken  []string // why links to it do not work
	}
	workers := map[string]*seen{}
	for _, a := range all {
		for _, k := range a.said.Workers {
			if workers[k.Address] == nil {
				workers[k.Address] = &seen{}
			}
		}
	}
	for addr, w := range workers {
		for _, a := range all {
			at := slices.IndexFunc(a.said.Workers, func(k client.Worker) bool { return k.Address == addr })
			if at < 0 {
				w.unknown = append(w.unknown, a.said.Frontend)
				continue
			}
			k := a.said.Workers[at]
			w.name = cmp.Or(w.name, k.Name)
			if k.State == "up" || k.State == "draining" {
				w.name, w.up = k.Name, w.up+1
			} else {
				w.broken = append(w.broken, fmt.Sprintf("%s (%s: %s)", a.said.Frontend, k.State, cmp.Or(k.Error, "no answer yet")))
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
				findings = append(findings, finding{false, where, "has the name of the one at " + other, "Give each worker a --name of its own: jobs that ask for a worker by name get either."})
			}
			names[w.name] = addr
		}
		switch {
		case len(w.broken) > 0 && w.up == 0:
			findings = append(findings, finding{false, where, "no frontend has a link to it: " + strings.Join(w.broken, ", "),
				"Start it, or see why it is unreachable (its host, a firewall, --listen and --advertise, the secret, its version); if it is gone for good, take it out of --workers."})
		case len(w.broken) > 0:
			findings = append(findings, finding{false, where, "some frontends have no link to it: " + strings.Join(w.broken, ", "),
				"Let these frontends through to its port, and see that it takes as many links as there are frontends (--max-links)."})
		}
		if len(w.unknown) > 0 {
			findings = append(findings, finding{false, where, "is not known to " + strings.Join(w.unknown, ", "),
				"Give these frontends --gossip and --join, or the same --workers as the others."})
		}
	}
	return findings
}

// loopback tells whether addr leads each machine to itself.
func loopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && (ip.IsLoopback() || ip.IsUnspecified())
}

// closedPorts tells of ports for gossip and heartbeats that this machine does not reach.
func closedPorts(ctx context.Context, answers []answer) (findings []finding) {
	where := map[string]string{}
	for _, a := range heard(answers) {
		for _, m := range a.said.Members {
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
			conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
			if errs[i] = err; err == nil {
				errs[i] = conn.Close()
			}
		})
	}
	dials.Wait()
	for i, addr := range addrs {
		if errs[i] != nil {
			findings = append(findings, finding{true, where[addr], fmt.Sprintf("this machine does not reach it: %v", errs[i]),
				"Nothing, if this machine runs neither frontends nor workers. Else let it through."})
		}
	}
	return findings
}
