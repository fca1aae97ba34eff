package tenants

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var drawSharers = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Sharer {
	s := Sharer{rapid.Int64Range(0, 50).Draw(t, "want") * 1000, rapid.Int64Range(1, 1_000_000_000).Draw(t, "weight"),
		Unlimited, rapid.Int64Range(1, 5000).Draw(t, "unit")}
	if rapid.Bool().Draw(t, "even") {
		s.Weight = s.Weight%3 + 1
	}
	if rapid.IntRange(0, 3).Draw(t, "bounded") == 0 {
		s.Max = rapid.Int64Range(1, 40).Draw(t, "max") * 1000
	}
	return s
}), 1, 8)

// The parts add up to the amount except the remainder, or to less if all sharers have their maxima. No sharer has
// less than by a static split, unless it wants less. The order does not matter. If a sharer wants more, it gets no
// less, and the rest get no more. A larger amount gives no sharer less.
func TestWaterfill(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all, sharers := rapid.Int64Range(0, 100_000).Draw(t, "all"), drawSharers.Draw(t, "sharers")
		parts := Waterfill(all, sharers)
		sum, most, weights := int64(0), int64(0), int64(0)
		for i, s := range sharers {
			sum, most, weights = sum+parts[i], min(most+s.Max, Unlimited), weights+s.Weight
			if parts[i] < 0 || parts[i] > s.Max {
				t.Fatalf("%d gets %d", i, parts[i])
			}
		}
		if sum > all || sum < min(all, most)-int64(len(sharers)) {
			t.Fatalf("%v of %d add up to %d", parts, all, sum)
		}
		for i, s := range sharers {
			split := int64(float64(all) / float64(weights) * float64(s.Weight))
			if parts[i] < min(s.Want, s.Max, split-1) {
				t.Fatalf("%d gets %d, and wants %d of %d by a static split", i, parts[i], s.Want, split)
			}
		}
		order := rand.New(rand.NewPCG(uint64(sum), 1)).Perm(len(sharers))
		other := make([]Sharer, len(sharers))
		for i, k := range order {
			other[i] = sharers[k]
		}
		for i, part := range Waterfill(all, other) {
			if part != parts[order[i]] {
				t.Fatalf("in another order %d gets %d instead of %d", order[i], part, parts[order[i]])
			}
		}
		k := rapid.IntRange(0, len(sharers)-1).Draw(t, "k")
		other = slices.Clone(sharers)
		other[k].Want += rapid.Int64Range(1, 20_000).Draw(t, "more")
		for i, part := range Waterfill(all, other) {
			if i == k && part < parts[i] || i != k && part > parts[i] {
				t.Fatalf("as %d wants more, %d gets %d instead of %d", k, i, part, parts[i])
			}
		}
		for i, part := range Waterfill(all+rapid.Int64Range(1, 5000).Draw(t, "added"), sharers) {
			if part < parts[i] {
				t.Fatalf("of more, %d gets %d instead of %d", i, part, parts[i])
			}
		}
	})
}

// In units, too, the parts add up to at most the amount. A sharer lacks at most a unit of its part, plus the unit
// given to the sharer at start. The sharer at start gets a unit, if it wants any.
func TestWaterfillUnits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all, sharers := rapid.Int64Range(0, 20_000).Draw(t, "all"), drawSharers.Draw(t, "sharers")
		turn := rapid.IntRange(0, len(sharers)-1).Draw(t, "turn")
		parts, exact := WaterfillUnits(all, sharers, turn), Waterfill(all, sharers)
		sum := int64(0)
		for i, s := range sharers {
			sum += parts[i]
			if parts[i] < exact[i]-s.Unit-sharers[turn].Unit || parts[i] > s.Max {
				t.Fatalf("%d gets %d, and its share is %d", i, parts[i], exact[i])
			}
		}
		if sum > all {
			t.Fatalf("%v of %d add up to %d", parts, all, sum)
		}
		if s := sharers[turn]; parts[turn] < min(s.Unit, s.Max, all, s.Want) {
			t.Fatalf("%v of %d: whose turn it is has no unit", parts, all)
		}
	})
}

// A sharer had larger tasks before, and now wants less than a former task: it gets its want.
func TestWaterfillUnitsOfLess(t *testing.T) {
	if parts := WaterfillUnits(1000, []Sharer{{Weight: 1, Max: Unlimited, Unit: 1},
		{Want: 500, Weight: 1, Max: Unlimited, Unit: 1000}}, 1); parts[1] < 500 {
		t.Errorf("one wants 500 of 1000, nobody else wants any, and the parts are %d", parts)
	}
}

// Two paths share a maximum that is too small for a task of each at the same time. The paths use the maximum by
// turns, in proportion to tokens.
func TestQuotasOfPathsRotate(t *testing.T) {
	f := newFleet(New(1, nil, []Entry{{Path: "b", Tokens: 1, Max: 3}, {Path: "b/c", Tokens: 3}}), 2)
	had := map[string]int{}
	const turns = 400
	for range turns {
		f.now = f.now.Add(rotateEvery)
		f.task = Slot
		f.wants["f0"], f.has["f0"] = map[string]int64{"b": 18 * Slot}, map[string]Quota{}
		f.wants["f1"], f.has["f1"] = map[string]int64{"b/c": 5 * Slot / 2}, map[string]Quota{}
		for range 3 { // the last user reports the end of its tasks
			f.task = Slot
			f.exchange("f0", f.names)
			f.task = 5 * Slot / 2
			f.exchange("f1", f.names)
		}
		own, below := f.has["f0"]["b"].All, f.has["f1"]["b/c"].All
		if own+below > 3*Slot {
			t.Fatalf("%d and %d", own, below)
		}
		if own > 0 {
			had["b"]++
		}
		if below > 0 {
			had["b/c"]++
		}
	}
	if a, b := had["b"], had["b/c"]; a+b < turns*9/10 || b < 2*a || b > 4*a {
		t.Errorf("%d and %d of %d turns", a, b, turns)
	}
}

// Two paths share a maximum of one slot, and each path has jobs at another frontend. Frontends that know the same needs
// give the slot to the same path, whichever tenant they ask for first.
func TestFrontendsDrawTheSamePath(t *testing.T) {
	file := New(1, nil, []Entry{{Path: "analytics", Tokens: 1, Max: 1}})
	paths, frontends := []string{"analytics/x", "analytics/y"}, []string{"f0", "f1"}
	had := []int{0, 0}
	for turn := range 100 {
		now, sum := time.Unix(1e9, 0).Add(time.Duration(turn)*rotateEvery), int64(0)
		for i, name := range frontends {
			q := NewQuotas()
			q.UseFile(file)
			needs := map[string][]Need{frontends[1-i]: {{Path: paths[1-i], Want: Slot}}}
			q.Exchange(now, name, frontends, nil, needs, []OwnNeed{{Path: paths[i], Want: Slot}})
			if part := q.QuotaOf(paths[i]).All; part > 0 {
				sum += part
				had[i]++
			}
		}
		if sum != Slot {
			t.Fatalf("in turn %d the frontends may use %d of %d", turn, sum, Slot)
		}
	}
	if had[0] < 25 || had[1] < 25 {
		t.Errorf("the paths had %d and %d turns of 100", had[0], had[1])
	}
}

// frontendFleet is a set of frontends: each uses up quotas, and reports needs to the rest.
type frontendFleet struct {
	file   *File
	names  []string
	quotas map[string]*Quotas
	needs  map[string][]Need
	wants  map[string]map[string]int64 // by frontend and path
	has    map[string]map[string]Quota
	task   int64
	now    time.Time
}

func newFleet(file *File, n int) *frontendFleet {
	f := &frontendFleet{file: file, quotas: map[string]*Quotas{}, needs: map[string][]Need{},
		wants: map[string]map[string]int64{}, has: map[string]map[string]Quota{}, task: Slot, now: time.Unix(1000, 0)}
	for i := range n {
		name := fmt.Sprint("f", i)
		f.names = append(f.names, name)
		f.quotas[name] = NewQuotas()
		f.quotas[name].UseFile(file)
		f.wants[name], f.has[name] = map[string]int64{}, map[string]Quota{}
	}
	return f
}

// startTasks lets a frontend start as many tasks as the quotas allow.
func (f *frontendFleet) startTasks(name string) {
	for path, want := range f.wants[name] {
		quota, has := f.quotas[name].QuotaOf(path), f.has[name][path]
		for has.All+f.task <= want && has.All+f.task <= quota.All {
			has.All += f.task
		}
		for has.Regular+f.task <= has.All && has.Regular+f.task <= quota.Regular {
			has.Regular += f.task
		}
		f.has[name][path] = has
	}
}

func (f *frontendFleet) exchange(name string, members []string, silent ...string) {
	var own []OwnNeed
	for path, want := range f.wants[name] {
		own = append(own,
			OwnNeed{Path: path, Use: f.has[name][path].All, Want: want, Most: f.task, Taken: f.has[name][path]})
	}
	needs := map[string][]Need{}
	for _, m := range members {
		needs[m] = f.needs[m]
	}
	f.needs[name] = f.quotas[name].Exchange(f.now, name, members, silent, needs, own)
	f.startTasks(name)
}

func (f *frontendFleet) sumOf(path string) (all Quota) {
	for _, has := range f.has {
		all.Regular += has[path].Regular
		all.All += has[path].All
	}
	return all
}

// While wants change and tasks end, all frontends together never exceed the tokens of a tenant, the maximum, or the
// maximum of the parent path. Once the wants are stable, the whole amount is in use, as far as wanted.
func TestQuotasNeverExceeded(t *testing.T) {
	file := New(1, nil, []Entry{{Path: "a", Tokens: 10, Max: 14}, {Path: "a/x", Tokens: 3},
		{Path: "a/y", Tokens: 1, Max: 5}, {Path: "b", Tokens: 1, Max: 1}, {Path: "c", Tokens: 7}})
	paths := []string{"a", "a/x", "a/y", "b", "c"}
	rapid.Check(t, func(t *rapid.T) {
		f := newFleet(file, rapid.IntRange(1, 5).Draw(t, "frontends"))
		f.task = rapid.Int64Range(1, 2).Draw(t, "task") * Slot / 2
		check := func() {
			sums := map[string]Quota{}
			for _, path := range paths {
				sums[path] = f.sumOf(path)
			}
			a := Quota{sums["a"].Regular + sums["a/x"].Regular + sums["a/y"].Regular,
				sums["a"].All + sums["a/x"].All + sums["a/y"].All}
			if a.Regular > 10*Slot || a.All > 14*Slot || sums["a/y"].All > 5*Slot || sums["b"].All > Slot ||
				sums["c"].Regular > 7*Slot {
				t.Fatalf("%v, in all %v of a: %v", sums, a, f.has)
			}
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			name := rapid.SampledFrom(f.names).Draw(t, "frontend")
			path := rapid.SampledFrom(paths).Draw(t, "path")
			switch has := f.has[name][path]; rapid.IntRange(0, 3).Draw(t, "what") {
			case 0:
				f.wants[name][path] = max(rapid.Int64Range(0, 20).Draw(t, "want")*Slot, has.All)
			case 1: // some tasks end
				if n := f.task * rapid.Int64Range(0, has.All/f.task).Draw(t, "ended"); n > 0 {
					f.wants[name][path] -= n
					f.has[name][path] = Quota{min(has.Regular, has.All-n), has.All - n}
				}
			default:
				f.now = f.now.Add(time.Duration(rapid.IntRange(0, 3000).Draw(t, "ms")) * time.Millisecond)
				f.exchange(name, f.names)
			}
			check()
		}
		for range 40 {
			f.now = f.now.Add(time.Second)
			for _, name := range f.names {
				for path := range f.wants[name] { // all tasks end, and new tasks come
					f.has[name][path] = Quota{}
				}
				f.exchange(name, f.names)
			}
			check()
		}
		want := int64(0)
		for _, name := range f.names {
			want += f.wants[name]["c"]
		}
		if got := f.sumOf("c").Regular; got < min(want, 7*Slot)-Slot {
			t.Fatalf("%d of c is regular, and %d is wanted", got, want)
		}
	})
}

// Frontends take turns with an indivisible amount, also if a single task takes the whole amount.
func TestQuotasRotate(t *testing.T) {
	for _, task := range []int64{1, 4} {
		f := newFleet(New(1, nil, []Entry{{Path: "a", Tokens: 1, Max: int(task)}}), 3)
		f.task = task * Slot
		had := map[string]int{}
		for range 90 {
			f.now = f.now.Add(time.Second)
			for _, name := range f.names {
				f.wants[name]["a"], f.has[name]["a"] = 8*Slot, Quota{}
				f.exchange(name, f.names)
				if f.has[name]["a"].All > 0 {
					had[name]++
				}
			}
			if all := f.sumOf("a").All; all > f.task {
				t.Fatalf("%d are in use", all)
			}
		}
		for _, name := range f.names {
			if had[name] < 20 {
				t.Errorf("tasks of %d slots: %v", task, had)
			}
		}
	}
}

// Spare jobs want no tokens, but a part of a maximum.
func TestSpareWants(t *testing.T) {
	file := New(1, nil, []Entry{{Path: "a", Tokens: 12}, {Path: "b", Tokens: 12, Max: 12}})
	f0, f1 := NewQuotas(), NewQuotas()
	f0.UseFile(file)
	f1.UseFile(file)
	var told0, told1 []Need
	for i := range 3 {
		now := time.Unix(1000+int64(i), 0)
		told0 = f0.Exchange(now, "f0", []string{"f1"}, nil, map[string][]Need{"f1": told1},
			[]OwnNeed{{Path: "a", Want: 90 * Slot, Spare: 90 * Slot, Most: Slot},
				{Path: "b", Want: 90 * Slot, Spare: 90 * Slot, Most: Slot}})
		told1 = f1.Exchange(now, "f1", []string{"f0"}, nil, map[string][]Need{"f0": told0},
			[]OwnNeed{{Path: "a", Want: 90 * Slot, Most: Slot}, {Path: "b", Want: 90 * Slot, Most: Slot}})
	}
	if a, b := f1.QuotaOf("a").Regular, f1.QuotaOf("b").All; a != 12*Slot || b != 6*Slot {
		t.Errorf("%d of the tokens and %d of a maximum are left to others", a, b)
	}
}

// A tenant's amount goes to the frontends with wants. If a frontend leaves a part unused, the part soon goes to
// other frontends. It comes back as fast as tasks end.
func TestQuotasFollowWants(t *testing.T) {
	f := newFleet(New(1, nil, []Entry{{Path: "a", Tokens: 12}}), 3)
	tell := func() {
		f.now = f.now.Add(time.Second)
		for _, name := range f.names {
			f.exchange(name, f.names)
		}
	}
	f.wants["f0"]["a"] = 20 * Slot
	tell()
	tell()
	if got := f.has["f0"]["a"].Regular; got != 12*Slot {
		t.Fatalf("alone it has %d", got)
	}
	f.wants["f1"]["a"] = 4 * Slot
	tell()
	tell()
	if got := f.sumOf("a").Regular; got != 12*Slot {
		t.Fatalf("%d are in use while tasks of another one run", got)
	}
	f.has["f0"]["a"] = Quota{8 * Slot, 20 * Slot}
	tell()
	tell()
	if f0, f1 := f.has["f0"]["a"].Regular, f.has["f1"]["a"].Regular; f0 != 8*Slot || f1 != 4*Slot {
		t.Fatalf("%d and %d", f0, f1)
	}
}

// The wants of a dead frontend disappear. If a frontend misses more frontends than it hears, its quotas do not grow
// until frontends are back, or for ForgetAfter. Gossip may drop the missing frontends at different times.
func TestQuotasOfCutOff(t *testing.T) {
	f := newFleet(New(1, nil, []Entry{{Path: "a", Tokens: 12, Max: 12}}), 5)
	tell := func(name string, members []string, silent ...string) {
		f.now = f.now.Add(time.Second)
		f.exchange(name, members, silent...)
	}
	for range 3 {
		for _, name := range f.names {
			f.wants[name]["a"] = 2 * Slot
			tell(name, f.names)
		}
	}
	most := []string{"f0", "f1", "f2"}
	for _, name := range f.names {
		f.wants[name]["a"] = 20 * Slot
	}
	check := func() {
		t.Helper()
		if got := f.has["f4"]["a"]; got.All > 3*Slot {
			t.Errorf("cut off it has %+v", got)
		}
		if may := f.quotas["f4"].QuotaOf("new"); may.Regular != 0 {
			t.Errorf("cut off it has %+v of a tenant that it had nothing of", may)
		}
	}
	tell("f4", f.names, "f0") // a regular exchange
	tell("f4", f.names, most...)
	for n := range most {
		for _, name := range most {
			tell(name, f.names, "f3", "f4")
		}
		check()
		tell("f4", append(most[n+1:], "f3", "f4"), most...)
	}
	check()
	for range 3 {
		for _, name := range most {
			tell(name, most, "f3", "f4")
		}
	}
	if all := f.has["f0"]["a"].All + f.has["f1"]["a"].All + f.has["f2"]["a"].All; all != 12*Slot {
		t.Errorf("the others have %d of what those take along that are gone", all)
	}
	f.now = f.now.Add(ForgetAfter)
	tell("f4", []string{"f4", "f3"}, most...)
	tell("f4", []string{"f4", "f3"}, most...)
	if got := f.has["f4"]["a"].All; got < 6*Slot {
		t.Errorf("after that time it has %d", got)
	}
}

// A slow frontend may lose all others before it notes their silence. They are missed all the same.
func TestQuotasOfLost(t *testing.T) {
	f := newFleet(New(1, nil, []Entry{{Path: "a", Max: 12}}), 3)
	for range 3 {
		for _, name := range f.names {
			f.wants[name]["a"] = 2 * Slot
			f.now = f.now.Add(time.Second)
			f.exchange(name, f.names)
		}
	}
	f.wants["f0"]["a"] = 20 * Slot
	f.exchange("f0", f.names)
	for range 3 {
		f.now = f.now.Add(time.Second)
		f.exchange("f0", f.names[:1], "f1", "f2")
		if got := f.has["f0"]["a"].All; got > 8*Slot {
			t.Errorf("without the others it has %d", got)
		}
	}
	f.exchange("f0", f.names)
	if f.quotas["f0"].cutOff {
		t.Error("the others are back, and f0 takes itself for cut off")
	}
	f = newFleet(New(1, nil, []Entry{{Path: "a", Max: 12}}), 4)
	f.exchange("f0", f.names)
	if f.exchange("f0", f.names[:2], "f2", "f3"); f.quotas["f0"].cutOff {
		t.Error("half of the frontends are lost, and f0 takes itself for cut off")
	}
}

// Gossip may lose frontends one after another, though all were cut off at the same time. The frontends lost earlier
// are missed all the same, for ForgetAfter.
func TestQuotasOfLostInTurn(t *testing.T) {
	f := newFleet(New(1, nil, []Entry{{Path: "a", Max: 12}}), 3)
	tell := func(name string, members []string, silent ...string) {
		f.now = f.now.Add(time.Second)
		f.exchange(name, members, silent...)
	}
	for _, name := range f.names {
		f.wants[name]["a"] = 20 * Slot
	}
	for range 3 {
		for _, name := range f.names {
			f.has[name]["a"] = Quota{}
			tell(name, f.names)
		}
	}
	for range 5 {
		tell("f0", f.names[:2], "f2")
	}
	if got := f.has["f0"]["a"].All; got > 8*Slot {
		t.Errorf("of two frontends, one has %d", got)
	}
	for range 5 {
		tell("f0", f.names[:1], "f1", "f2")
	}
	if got := f.has["f0"]["a"].All; got > 8*Slot {
		t.Errorf("without the others it has %d", got)
	}
	f.now = f.now.Add(ForgetAfter)
	if tell("f0", f.names[:1], "f1", "f2"); f.has["f0"]["a"].All != 12*Slot {
		t.Errorf("after that time it has %d", f.has["f0"]["a"].All)
	}
}

// Until the first report of a tenant, a frontend may use all of the maximum. This is no part that the frontend may
// keep while cut off.
func TestQuotasOfCutOffBeforeReport(t *testing.T) {
	f := newFleet(New(1, nil, []Entry{{Path: "a", Max: 12}}), 3)
	f.exchange("f0", f.names)
	if got := f.quotas["f0"].QuotaOf("a").All; got != 12*Slot {
		t.Errorf("before the report it has %d", got)
	}
	f.now = f.now.Add(time.Second)
	f.wants["f0"]["a"], f.has["f0"]["a"] = 20*Slot, Quota{All: 2 * Slot}
	f.exchange("f0", f.names, "f1", "f2")
	if got := f.quotas["f0"].QuotaOf("a").All; got > 2*Slot {
		t.Errorf("cut off it has %d", got)
	}
}

// Frontends are not missed after a leave, even if many leave at once, or were silent before.
func TestQuotasOfLeavers(t *testing.T) {
	f := newFleet(New(1, nil, []Entry{{Path: "a", Tokens: 12, Max: 12}}), 5)
	f.wants["f0"]["a"] = 20 * Slot
	f.exchange("f0", f.names)
	f.now = f.now.Add(time.Second)
	f.exchange("f0", f.names, f.names[1:]...)
	f.exchange("f0", f.names[:1])
	f.wants["f0"]["b"] = Slot
	f.exchange("f0", f.names[:1])
	if got := f.has["f0"]["a"].All; got != 12*Slot {
		t.Errorf("it has %d", got)
	}
	if f.quotas["f0"].cutOff {
		t.Error("it takes itself for cut off")
	}
}

// Without a file all work is regular, and nothing is bounded.
func TestQuotasWithoutFile(t *testing.T) {
	s := NewQuotas()
	if s.QuotaOf("a") != (Quota{Unlimited, Unlimited}) {
		t.Error(s.QuotaOf("a"))
	}
	var none *File
	if none.TaskMaximum("a") != Unlimited {
		t.Error(none.TaskMaximum("a"))
	}
}

// Two tenants below a path with a maximum come before the next report. Together they get no more than the maximum.
func TestQuotasOfNewSiblings(t *testing.T) {
	q := NewQuotas()
	q.UseFile(New(1, nil, []Entry{{Path: "a", Tokens: 1, Max: 3}}))
	now := time.Unix(1e9, 0)
	q.Exchange(now, "f", nil, nil, nil, nil)
	x, y := q.QuotaOf("a/x"), q.QuotaOf("a/y")
	if x.All != 3*Slot || x.All+y.All > 3*Slot || q.QuotaOf("a/x") != x {
		t.Errorf("before the report: %v and %v, then %v", x, y, q.QuotaOf("a/x"))
	}
	q.Exchange(now.Add(time.Second), "f", nil, nil, nil, []OwnNeed{
		{Path: "a/x", Use: Slot, Want: 9 * Slot, Taken: Quota{Slot, Slot}}, {Path: "a/y", Want: Slot}})
	x, y = q.QuotaOf("a/x"), q.QuotaOf("a/y")
	if x.All != 2*Slot || y.All != Slot {
		t.Errorf("after the report: %v and %v", x, y)
	}
	if z := q.QuotaOf("a/z"); z.All != 0 || q.QuotaOf("a/x") != x {
		t.Errorf("%v for a third tenant, and %v then", z, q.QuotaOf("a/x"))
	}
}

// Thousands of tenants below a path may come in the second between two reports. The first tenants get quotas at once,
// and the rest only with the next report. A tenant with another first part gets its quota at once all the same, and so
// do all tenants after a change of the tenants file.
func TestManyNewSiblings(t *testing.T) {
	const tenants = 300
	entries := []Entry{{Path: "ads", Max: 1000}, {Path: "b", Max: 1}}
	for i := range tenants {
		entries = append(entries, Entry{Path: fmt.Sprint("ads/", i), Max: 1})
	}
	file := New(1, nil, entries)
	q := NewQuotas()
	q.UseFile(file)
	now := time.Unix(1e9, 0)
	q.Exchange(now, "f", nil, nil, nil, nil)
	given := func() (n int) {
		for i := range tenants {
			if q.QuotaOf(fmt.Sprint("ads/", i)).All == Slot {
				n++
			}
		}
		return n
	}
	if n := given(); n < 50 || n > 150 || q.QuotaOf("b").All != Slot {
		t.Errorf("%d new tenants have a quota at once, and another has %+v", n, q.QuotaOf("b"))
	}
	var own []OwnNeed
	for i := range tenants {
		own = append(own, OwnNeed{Path: fmt.Sprint("ads/", i), Want: Slot})
	}
	q.Exchange(now.Add(time.Second), "f", nil, nil, nil, own)
	if n := given(); n != tenants {
		t.Errorf("%d of %d tenants have a quota after the report", n, tenants)
	}
	for i := range tenants {
		q.QuotaOf(fmt.Sprint("ads/new", i))
	}
	q.UseFile(file)
	if n := given(); n != tenants {
		t.Errorf("%d of %d tenants have a quota after a change of the file", n, tenants)
	}
}

// BenchmarkNewSiblings asks for the quotas of 1,000 new tenants below a path with a maximum, between two reports.
func BenchmarkNewSiblings(b *testing.B) {
	q := NewQuotas()
	q.UseFile(New(1, nil, []Entry{{Path: "ads", Max: 1000}}))
	for b.Loop() {
		q.Exchange(time.Unix(1e9, 0), "f", nil, nil, nil, nil)
		for i := range 1000 {
			q.QuotaOf(fmt.Sprint("ads/", i))
		}
	}
}

// BenchmarkQuotasOfManyTenants reports the needs of 3,000 tenants without tenants below, and asks for their quotas.
func BenchmarkQuotasOfManyTenants(b *testing.B) {
	own := make([]OwnNeed, 3000)
	for i := range own {
		own[i] = OwnNeed{Path: fmt.Sprintf("tenant-%04d", i), Want: Slot}
	}
	q := NewQuotas()
	q.UseFile(New(1, nil, []Entry{{Path: "a", Max: 3}}))
	now := time.Unix(1e9, 0)
	for b.Loop() {
		q.Exchange(now, "f", nil, nil, nil, own)
		for i := range own {
			q.QuotaOf(own[i].Path)
		}
	}
}
