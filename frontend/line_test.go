package frontend

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/phoebe-sched/phoebe/frontend/view"
	"github.com/phoebe-sched/phoebe/probe/list"
)

// TestLine compares a line with a search through all items: a worker gets the first item that shuns another
// worker, else the first of the rest.
func TestLine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		workers := []*view.Worker{nil, {}, {}, {}}
		tasks := make([]*task, 12)
		for i := range tasks {
			tasks[i] = &task{spec: &Task{}}
		}
		var l line[*task]
		var model []*task // in order among items shunning the same worker
		t.Repeat(map[string]func(*rapid.T){
			"push": func(t *rapid.T) {
				x := rapid.SampledFrom(tasks).Draw(t, "task")
				if list.Has(x) {
					return
				}
				x.shunned = rapid.SampledFrom(workers).Draw(t, "shuns")
				if rapid.Bool().Draw(t, "front") {
					l.PushFront(x)
					model = slices.Insert(model, 0, x)
				} else {
					l.Push(x)
					model = append(model, x)
				}
			},
			"remove": func(t *rapid.T) {
				x := rapid.SampledFrom(tasks).Draw(t, "task")
				l.Remove(x)
				model = slices.DeleteFunc(model, func(y *task) bool { return y == x })
			},
			"": func(t *rapid.T) {
				all := slices.Collect(l.All())
				if len(all) != l.Len() || len(all) != len(model) || len(all) > 0 &&
					(l.First() != all[0] || l.Last() != all[len(all)-1]) {
					t.Fatalf("%d of %d, of length %d, from %p to %p: %v", len(all), len(model), l.Len(), l.First(),
						l.Last(), all)
				}
				for _, w := range workers {
					shunning := func(in []*task) (shunning []*task) {
						for _, x := range in {
							if x.shunned == w {
								shunning = append(shunning, x)
							}
						}
						return shunning
					}
					if got, want := shunning(all), shunning(model); !slices.Equal(got, want) {
						t.Fatalf("of those that shun %p: %v, not %v", w, got, want)
					}
					mayTake := func(x *task) bool { return w == nil || x.shunned != w }
					var want *task
					if i := slices.IndexFunc(all, mayTake); i >= 0 {
						want = all[i]
					}
					if got := l.FirstFor(w); got != want {
						t.Fatalf("%p gets %p, not %p", w, got, want)
					}
				}
				if i := slices.IndexFunc(all, func(x *task) bool { return x.shunned == nil }); i >= 0 &&
					slices.ContainsFunc(all[i:], func(x *task) bool { return x.shunned != nil }) {
					t.Fatal("one that shuns a worker stands behind one that shuns none")
				}
			},
		})
	})
}
