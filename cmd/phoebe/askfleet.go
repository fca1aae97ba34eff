package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/phoebe-sched/phoebe/frontend/client/admin"
)

// fleetFlags are the flags of commands whose answer holds for all frontends.
type fleetFlags struct {
	Only string `placeholder:"NAME" help:"Only the frontend with this name or address. Default: all frontends."`

	clientFlags
}

// answer is a frontend's view of the fleet, or the error of a frontend without an answer.
type answer struct {
	connect            string // the address of --connect, or the address of the frontend in another frontend's answer
	name               string // of a frontend beyond --connect; empty: not known
	cluster            *admin.Cluster
	err                error
	isGone             bool // err says that gossip has lost the frontend
	sentAt, receivedAt time.Time
}

// isOf reports whether the answer comes from the frontend at addr, or the error concerns this frontend.
func (a *answer) isOf(addr string) bool {
	return a.connect == addr || a.err == nil && a.cluster.Address == addr
}

// askOne asks a frontend through the client. patience bounds the time for the answer.
func askOne(ctx context.Context, cl *admin.Client, patience time.Duration, connect string,
	q admin.ClusterQuery) answer {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	a := answer{connect: connect, sentAt: time.Now()}
	a.cluster, a.err = cl.ClusterPage(ctx, q)
	a.receivedAt = time.Now()
	return a
}

// askFleet asks all frontends of the fleet. The frontends in --connect are asked first, and their answers name the
// others. The frontend that named another frontend passes the question on, because this machine may not reach addresses
// behind a balancer. askFleet waits up to --retry-for. An answer may hold the error of its frontend. If no frontend
// answers, the error has exit code 3. With --only, askFleet asks a single frontend.
func (c *fleetFlags) askFleet(ctx context.Context, log *slog.Logger, q admin.ClusterQuery) ([]answer, error) {
	if c.Only != "" {
		return c.askOnly(ctx, log, q)
	}
	clients, err := c.dialEach(log)
	if err != nil {
		return nil, err
	}
	var running sync.WaitGroup
	defer func() {
		running.Wait()
		closeEach(clients)
	}()
	type reply struct {
		answer
		through *admin.Client
	}
	replies := make(chan reply)
	asked := map[string]bool{}
	ask := func(cl *admin.Client, to answer, q admin.ClusterQuery) {
		asked[to.connect] = true
		running.Go(func() {
			a := askOne(ctx, cl, c.RetryFor, to.connect, q)
			a.name = to.name
			replies <- reply{a, cl}
		})
	}
	for i, cl := range clients {
		ask(cl, answer{connect: c.Connect[i]}, q)
	}
	var answers, gone []answer
	for waiting := len(clients); waiting > 0; waiting-- {
		r := <-replies
		answers = append(answers, r.answer)
		if r.err != nil {
			continue
		}
		asked[r.cluster.Address] = true
		for _, other := range r.cluster.Others {
			to := answer{connect: other.Address, name: other.Name}
			switch {
			case asked[other.Address]:
			case other.Err != "":
				to.err, to.isGone = errors.New(other.Err), true
				gone = append(gone, to)
			default:
				forwarded := q
				forwarded.Frontend = other.Address
				ask(r.through, to, forwarded)
				waiting++
			}
		}
	}
	return sortAnswers(answers, gone, c.Connect)
}

// sortAnswers brings answers into the order of --connect, and then into the order of addresses. It adds the gone
// frontends without an answer. If a frontend answered, sortAnswers leaves out further answers and errors of the
// frontend at addresses beyond --connect.
func sortAnswers(answers, gone []answer, connect []string) ([]answer, error) {
	for _, g := range gone {
		if !slices.ContainsFunc(answers, func(a answer) bool { return a.isOf(g.connect) }) {
			answers = append(answers, g)
		}
	}
	rank := func(a answer) int {
		if i := slices.Index(connect, a.connect); i >= 0 {
			return i
		}
		return len(connect)
	}
	slices.SortStableFunc(answers, func(a, b answer) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.connect, b.connect))
	})
	var errs []error
	var list []answer
	for _, a := range answers {
		isKnown := func(b answer) bool {
			return b.err == nil && (a.err != nil && b.isOf(a.connect) ||
				a.err == nil && b.isOf(a.cluster.Address) && b.cluster.Frontend == a.cluster.Frontend)
		}
		if slices.Contains(connect, a.connect) || !slices.ContainsFunc(list, isKnown) {
			list, errs = append(list, a), append(errs, a.err)
		}
	}
	if slices.ContainsFunc(list, func(a answer) bool { return a.err == nil }) {
		return list, nil
	}
	return nil, &exitError{exitUnavailable, fmt.Errorf("no frontend answers: %w", errors.Join(errs...))}
}

// askOnly asks the frontend of --only, through any frontend of --connect.
func (c *fleetFlags) askOnly(ctx context.Context, log *slog.Logger, q admin.ClusterQuery) ([]answer, error) {
	cl, err := c.newClient(log, c.Connect)
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	q.Frontend = c.Only
	a := askOne(ctx, cl, c.RetryFor, c.Only, q)
	if a.err != nil {
		return nil, jobError(ctx, fmt.Errorf("ask frontend %s: %w", c.Only, a.err))
	}
	a.connect = a.cluster.Address
	return []answer{a}, nil
}

// dialEach makes a client for each address of --connect.
func (c *clientFlags) dialEach(log *slog.Logger) ([]*admin.Client, error) {
	if len(c.Connect) == 0 {
		return nil, errNoConnect
	}
	clients := make([]*admin.Client, len(c.Connect))
	for i, addr := range c.Connect {
		cl, err := c.newClient(log, []string{addr})
		if err != nil {
			closeEach(clients[:i])
			return nil, err
		}
		clients[i] = cl
	}
	return clients, nil
}

// closeEach closes the clients of dialEach.
func closeEach(clients []*admin.Client) {
	for _, cl := range clients {
		cl.Close()
	}
}

// distinctAnswers returns an answer of each frontend, without failures. Behind a balancer, two addresses may lead
// to the same frontend.
func distinctAnswers(answers []answer) (all []answer) {
	for _, a := range answers {
		if a.err == nil && !slices.ContainsFunc(all, func(b answer) bool {
			return b.cluster.Address == a.cluster.Address &&
				b.cluster.Frontend == a.cluster.Frontend
		}) {
			all = append(all, a)
		}
	}
	return all
}

// nameUnanswered prints a line for each frontend without an answer.
func nameUnanswered(w io.Writer, answers []answer) {
	for _, a := range answers {
		if a.err != nil {
			fmt.Fprintf(w, "frontend %s does not answer: %s\n", quoteUnprintable([]byte(cmp.Or(a.name, a.connect))),
				quoteUnprintable([]byte(a.err.Error())))
		}
	}
}
