package view

import (
	"math/rand/v2"
	"testing"

	"github.com/phoebe-sched/phoebe/probe/purity"
)

func TestPure(t *testing.T) { purity.Check(t, ".") }

// A sample is a shuffle's beginning: distinct workers, each as likely as any other.
func TestDraw(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	ws := make([]*Worker, 5)
	for i := range ws {
		ws[i] = &Worker{Key: Key(i)}
	}
	const n = 50_000
	hits := make([]int, len(ws))
	for range n {
		seen := map[Key]bool{}
		for i := range 2 {
			w := draw(ws, i, rng)
			if ws[i] != w || seen[w.Key] {
				t.Fatalf("drew %d, seen %v", w.Key, seen)
			}
			seen[w.Key] = true
			hits[w.Key]++
		}
	}
	for key, h := range hits {
		if share := float64(h) / n / 2 * float64(len(ws)); share < 0.97 || share > 1.03 {
			t.Errorf("worker %d was drawn %.3f times as often as the mean", key, share)
		}
	}
}

func TestConstraint(t *testing.T) {
	labels := []string{"zone=a", "gpu", "rack=7=b"}
	for _, test := range []struct {
		constraint Constraint
		valid, met bool
	}{
		{Constraint{}, true, true},
		{Constraint{Labels: []string{"zone=a"}}, true, true},
		{Constraint{Labels: []string{"zone=b"}}, true, false},
		{Constraint{Labels: []string{"zone"}}, true, true},
		{Constraint{Labels: []string{"gpu"}}, true, true},
		{Constraint{Labels: []string{"gp"}}, true, false},
		{Constraint{Labels: []string{"gpu=1"}}, true, false},
		{Constraint{Labels: []string{"zone!=a"}}, true, false},
		{Constraint{Labels: []string{"zone!=b"}}, true, true},
		{Constraint{Labels: []string{"disk!=ssd"}}, true, true},
		{Constraint{Labels: []string{"!zone"}}, true, false},
		{Constraint{Labels: []string{"!gpu"}}, true, false},
		{Constraint{Labels: []string{"!disk"}}, true, true},
		{Constraint{Labels: []string{"rack=7=b"}}, true, true},
		{Constraint{Labels: []string{"zone=a", "!gpu"}}, true, false},
		{Constraint{Labels: []string{"zone=a", "gpu", "!disk"}}, true, true},
		{Constraint{Hosts: []string{"h1"}}, true, true},
		{Constraint{Hosts: []string{"h2", "w1"}}, true, true},
		{Constraint{Hosts: []string{"h2"}}, true, false},
		{Constraint{Labels: []string{"zone=b"}, Hosts: []string{"h1"}}, true, false},
		{Constraint{Labels: []string{""}}, false, false},
		{Constraint{Labels: []string{"!"}}, false, false},
		{Constraint{Labels: []string{"=a"}}, false, false},
		{Constraint{Labels: []string{"!=a"}}, false, false},
		{Constraint{Labels: []string{"!zone=a"}}, false, false},
	} {
		if err := test.constraint.Validate(); (err == nil) != test.valid {
			t.Errorf("%v: valid is %t: %v", test.constraint, err == nil, err)
		}
		if !test.valid {
			continue
		}
		if met := test.constraint.Matches(labels, "h1", "w1"); met != test.met {
			t.Errorf("%v: met is %t", test.constraint, met)
		}
	}
}
