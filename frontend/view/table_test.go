package view

import (
	"fmt"
	"testing"
	"time"

	"github.com/phoebe-sched/phoebe/frontend/estimate"
)

// learnRun lets a tenant run a task of function f with this hint.
func learnRun(v *View, tenant string, run, hint time.Duration) {
	r := v.EnsureRuns(tenant, "f")
	r.NoteRun(run)
	r.Learn(estimate.Finished{Run: run, Hint: hint})
}

// Run times of strangers count until a tenant has a run of its own. Hints of strangers never count.
func TestStrangersTeachRunTimes(t *testing.T) {
	const s = time.Second
	v := New(estimate.Config{}, nil)
	for range 20 {
		learnRun(v, "bully", s, 10*s)
	}
	if got := v.EnsureRuns("bully", "f").Correct(10 * s).Round(time.Millisecond); got != s {
		t.Errorf("the bully's hint of 10 s becomes %v, want 1 s", got)
	}
	if v.KnownRuns("polite", "f") != v.others("f") || v.KnownRuns("polite", "g") != nil {
		t.Error("a tenant without an entry does not get the runs of others")
	}
	polite := v.EnsureRuns("polite", "f")
	if !polite.Any() || polite.Longest() != s || polite.Stats().Typical() != s || polite.Steady(0) != s {
		t.Errorf("the polite tenant does not know that the function runs for 1 s")
	}
	if got := polite.Correct(15 * s / 10); got != 15*s/10 {
		t.Errorf("the polite tenant's hint of 1.5 s becomes %v", got)
	}
	if w := estimate.Expect(15*s/10, 0, nil, polite.Stats(), s); w.Run != 15*s/10 || w.Source != estimate.FromHint {
		t.Errorf("a task of the polite tenant with a hint of 1.5 s is %v", w)
	}
	learnRun(v, "polite", 3*s, 0)
	if polite.Longest() != 3*s || polite.Stats().N() != 1 || polite.Stats().Typical() != 3*s {
		t.Errorf("after a run of 3 s, the polite tenant expects %v by %d runs", polite.Stats().Typical(),
			polite.Stats().N())
	}
	if got := v.EnsureRuns("bully", "f").Stats().Typical(); got != s {
		t.Errorf("the polite tenant's run changes the bully's run time to %v", got)
	}
}

func (v *View) others(name string) *Runs { return v.runs.others[name] }

// However many tenants below itself, or functions, a tenant brings, the other tenants keep their history. So does a
// tenant beside it that shares the tenant above. The table is bounded.
func TestNoTenantPushesOutOthers(t *testing.T) {
	for name, bring := range map[string]func(v *View, i int){
		"100,000 sub-tenants": func(v *View, i int) { v.EnsureRuns(fmt.Sprintf("bully/u%d", i), "f") },
		"20,000 functions":    func(v *View, i int) { v.EnsureRuns("bully/u", fmt.Sprint("f", i)) },
		"both, in depth": func(v *View, i int) {
			v.EnsureRuns(fmt.Sprintf("bully/u%d/v%d", i%100, i%7), fmt.Sprint("f", i))
		},
	} {
		v := New(estimate.Config{}, nil)
		kept := map[string]*Runs{}
		for _, tenant := range []string{"polite", "polite/a", "other/b/c"} {
			for i := range 100 {
				kept[tenant+fmt.Sprint(i)] = v.EnsureRuns(tenant, fmt.Sprint("p", i))
			}
		}
		sibling := v.EnsureRuns("bully/sibling", "s")
		brought := 20_000
		if name == "100,000 sub-tenants" {
			brought = 100_000
		}
		for i := range brought {
			bring(v, i)
		}
		for _, tenant := range []string{"polite", "polite/a", "other/b/c"} {
			for i := range 100 {
				if v.KnownRuns(tenant, fmt.Sprint("p", i)) != kept[tenant+fmt.Sprint(i)] {
					t.Fatalf("%s: %s lost its history of function %d", name, tenant, i)
				}
			}
		}
		if name == "20,000 functions" && v.KnownRuns("bully/sibling", "s") != sibling {
			t.Errorf("%s: a sibling lost its history", name)
		}
		checkTable(t, &v.runs)
	}
}

// checkTable checks that the table is bounded, and that its parts agree.
func checkTable(t *testing.T, table *runsTable) {
	t.Helper()
	users, own, counts := map[string]int{}, map[*holder]int{}, map[*holder]int{}
	for key, r := range table.entries {
		users[key.name]++
		own[r.holder]++
		if r.key != key || r.others != table.others[key.name] || table.holders[key.tenant] != r.holder {
			t.Fatalf("the entry of %v is misplaced", key)
		}
		for h := r.holder; h.parent != nil; h = h.parent {
			counts[h]++
		}
	}
	if len(table.entries) > maxRuns || len(table.others) != len(users) || len(table.holders) != len(counts) {
		t.Fatalf("%d entries, %d names of %d used, %d holders of %d used", len(table.entries), len(table.others),
			len(users), len(table.holders), len(counts))
	}
	for name, r := range table.others {
		if r.users != users[name] {
			t.Fatalf("%d tenants have runs of %s, counted %d", users[name], name, r.users)
		}
	}
	for h, n := range counts {
		if h.entries != n || h.recent.Len() != own[h] {
			t.Fatalf("%s has %d entries, counted %d; %d of its own, counted %d", h.tenant, n, h.entries, own[h],
				h.recent.Len())
		}
	}
}

// Of tenants with equally much history, the least recently used history goes.
func TestUsedHistoryStays(t *testing.T) {
	v := New(estimate.Config{}, nil)
	busy := v.EnsureRuns("busy", "f")
	for i := range 2 * maxRuns {
		v.EnsureRuns(fmt.Sprint("t", i), "f")
		if v.EnsureRuns("busy", "f") != busy {
			t.Fatalf("after %d other tenants, a tenant that uses its history has lost it", i)
		}
	}
	checkTable(t, &v.runs)
}
