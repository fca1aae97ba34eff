package tenants

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"maps"
	"math"
	"math/bits"
	"slices"
	"strings"
	"time"

	"github.com/phoebe-sched/phoebe/probe"
)

const (
	// Slot is one, in what amounts are told in.
	Slot = int64(1000)
	// Unlimited is more than anyone uses.
	Unlimited = math.MaxInt64 / 4
	// MaxTold is how many tenants a frontend tells of: those that want most.
	MaxTold = 256
	// rotateEvery is how long one frontend has what cannot be divided, before it is the turn of the next one.
	rotateEvery = 10 * time.Second
	// ForgetAfter is how long a frontend that is cut off from most others leaves them what they had.
	ForgetAfter = 10 * time.Minute
)

// Quota is how much of a tenant a frontend may have at workers.
type Quota struct {
	Regular int64 // covered by tokens
	All     int64 // with what is not; Unlimited: nothing is said of that
}

// Need is what a frontend says of a tenant's own jobs, without those of tenants below it.
type Need struct {
	Path  string
	Use   int64 // by tasks at workers
	Want  int64 // by these, and by those that could be there
	Most  int64 // by the largest task
	Quota Quota // what it may have until it says so again; as it has it already, that may be more than its part
}

// OwnNeed is what a frontend counts of a tenant's own jobs.
type OwnNeed struct {
	Path            string
	Use, Want, Most int64
	Spare           int64 // of Want, by spare jobs
	Taken           Quota // what of May is taken
}

// Quotas is what a frontend knows of what all want, and what it may have of that. There is no ledger elsewhere: each finds its
// own part by the same function of what all have told. Who has more than its part has it until its tasks end, and says
// so, and nobody takes it before.
type Quotas struct {
	self           string
	file           *File
	needs          map[string][]frontendNeed // by the first part of paths
	own            []OwnNeed
	promisedQuotas map[string]Quota // what was told last of these
	frontends      []string         // the frontends that there were, by name, me among them
	frontendsAt    time.Time
	silent         map[string]bool // those that are, and those that were when they went
	cutOff         bool            // from most of them
	rotation       int64           // whose it is to have what cannot be divided
	quotas         map[string]Quota
}

// frontendNeed is what a frontend has told, by its number in last.
type frontendNeed struct {
	frontend int
	Need
}

// NewQuotas is for a frontend that is alone.
func NewQuotas() *Quotas {
	return &Quotas{frontends: []string{""}, silent: map[string]bool{}, quotas: map[string]Quota{}}
}

// Frontends is how many there are, this one among them, as far as it was told.
func (s *Quotas) Frontends() int { return len(s.frontends) }

// Exchange takes in what this frontend is called, which frontends there are, which of them are silent, what they have told, and what this one has, and
// returns what it has to tell. Who hears of fewer than half of those that there were is cut off: it may have no more than it had, until
// others are back, or that has lasted for ForgetAfter. Those are not missed that had something to say until they went: they left.
func (s *Quotas) Exchange(now time.Time, me string, members, silent []string, needs map[string][]Need, own []OwnNeed) []Need {
	s.self = me
	present := append(slices.Clone(members), me)
	slices.Sort(present)
	present = slices.Compact(present)
	isGone := func(name string) bool { return !slices.Contains(present, name) }
	maps.DeleteFunc(s.silent, func(name string, _ bool) bool { return !isGone(name) })
	for _, name := range silent {
		s.silent[name] = true
	}
	missed := 0
	for _, name := range s.frontends {
		if s.silent[name] {
			missed++
		}
	}
	s.rotation = now.UnixNano() / int64(rotateEvery)
	for i := range own { // spare jobs take of a maximum as others do, and nothing of tokens
		if o := &own[i]; !s.file.isBounded(o.Path) {
			o.Want -= o.Spare
		}
	}
	s.own = own
	if s.cutOff = missed > len(present)-len(silent) && now.Sub(s.frontendsAt) < ForgetAfter; !s.cutOff {
		s.frontends, s.frontendsAt = present, now
		maps.DeleteFunc(s.silent, func(name string, _ bool) bool { return isGone(name) })
		s.noteNeeds(needs)
		clear(s.quotas)
	}
	tells := make([]Need, 0, len(own))
	promised := make(map[string]Quota, len(own))
	for _, o := range own {
		quota := s.Of(o.Path)
		quota = Quota{max(quota.Regular, o.Taken.Regular), max(quota.All, o.Taken.All)}
		promised[o.Path] = quota
		tells = append(tells, Need{o.Path, o.Use, o.Want, o.Most, quota})
	}
	s.promisedQuotas = promised
	slices.SortFunc(tells, func(a, b Need) int { return cmp.Or(cmp.Compare(b.Want, a.Want), cmp.Compare(a.Path, b.Path)) })
	return tells[:min(len(tells), MaxTold)]
}

func (s *Quotas) noteNeeds(needs map[string][]Need) {
	s.needs = map[string][]frontendNeed{}
	for i, name := range s.frontends {
		if name == s.self {
			continue
		}
		for _, n := range needs[name] {
			top, _, _ := strings.Cut(n.Path, "/")
			s.needs[top] = append(s.needs[top], frontendNeed{i, n})
		}
	}
}

// UseFile goes by another file from now on.
func (s *Quotas) UseFile(file *File) {
	s.file = file
	clear(s.quotas)
}

// Of is what this frontend may have of a tenant.
func (s *Quotas) Of(path string) Quota {
	if s.file == nil || s.file.Revision == 0 {
		return Quota{Unlimited, Unlimited}
	}
	quota, known := s.quotas[path]
	switch {
	case known:
	case s.cutOff:
		if quota.All = Unlimited; s.file.isBounded(path) {
			quota.All = 0
		}
		s.quotas[path] = quota
	default:
		s.divideTenant(path)
		quota = s.quotas[path]
	}
	return quota
}

// isBounded reports whether a tenant, or one above it, may use so much only.
func (f *File) isBounded(tenant string) bool {
	for path := range probe.TenantPaths(tenant) {
		if f.Entry(path).Max > 0 {
			return true
		}
	}
	return false
}

// TaskMaximum is the most that one task of a tenant may take.
func (f *File) TaskMaximum(tenant string) int64 {
	least := int64(Unlimited)
	for path := range probe.TenantPaths(tenant) {
		if n := f.Entry(path).Max; n > 0 {
			least = min(least, int64(n)*Slot)
		}
	}
	return least
}

// branch is a path, with those below it.
type branch struct {
	path     string
	parent   *branch // nil: the path has one part
	children []*branch
	needs    []Need  // by frontend, as in last; nil: no jobs are of this very path
	parts    []int64 // what of the thing that is divided is to be theirs
	want     int64   // of all, with those below
	unit     int64   // by the largest task, with those below
	free     int64   // of what all below may have together
}

// divideTenant finds what this frontend may have of all tenants whose paths begin as that of one does.
func (s *Quotas) divideTenant(tenant string) {
	top, _, _ := strings.Cut(tenant, "/")
	known := map[string]*branch{}
	var all []*branch
	need := func(tenantPath string) *branch {
		var above *branch
		for path := range probe.TenantPaths(tenantPath) {
			b := known[path]
			if b == nil {
				b = &branch{path: path, parent: above}
				known[path], all = b, append(all, b)
				if above != nil {
					above.children = append(above.children, b)
				}
			}
			above = b
		}
		if above.needs == nil {
			above.needs = make([]Need, len(s.frontends))
		}
		return above
	}
	me := slices.Index(s.frontends, s.self)
	need(tenant)
	taken := map[string]Quota{}
	for _, o := range s.own {
		if first, _, _ := strings.Cut(o.Path, "/"); first == top {
			need(o.Path).needs[me] = Need{o.Path, o.Use, o.Want, o.Most, s.promisedQuotas[o.Path]}
			taken[o.Path] = o.Taken
		}
	}
	for _, n := range s.needs[top] {
		need(n.Path).needs[n.frontend] = n.Need
	}
	slices.SortFunc(all, func(a, b *branch) int { return strings.Compare(a.path, b.path) }) // above comes before below
	for _, b := range slices.Backward(all) {
		for i := range b.needs {
			b.want += b.needs[i].Want
		}
		b.unit = max(b.unit, b.largestTask())
		if b.parent != nil {
			b.parent.want += b.want
			b.parent.unit = max(b.parent.unit, b.unit)
		}
	}
	tokens := min(int64(s.file.Entry(top).Tokens)*Slot, s.file.limitOf(top))
	s.giveParts(all, tokens, me, taken, func(m *Quota) *int64 { return &m.Regular })
	s.giveParts(all, s.file.limitOf(top), me, taken, func(m *Quota) *int64 { return &m.All })
}

// limitOf is what all of a path and below it may have together.
func (f *File) limitOf(path string) int64 {
	if n := f.Entry(path).Max; n > 0 {
		return int64(n) * Slot
	}
	return Unlimited
}

// giveParts finds what this frontend may have of one thing, of which there is so much.
func (s *Quotas) giveParts(all []*branch, top int64, me int, taken map[string]Quota, amountOf func(*Quota) *int64) {
	keeps := func(b *branch, i int) int64 {
		n := &b.needs[i]
		if i != me {
			return *amountOf(&n.Quota)
		}
		own := taken[b.path]
		return max(*amountOf(&own), min(*amountOf(&n.Quota), b.parts[i]))
	}
	for i, b := range all {
		if b.free = s.file.limitOf(b.path); i == 0 {
			b.free = top
		}
	}
	s.spreadBelow(all[0], top)
	for _, b := range all {
		for i := range b.needs {
			b.takeFree(keeps(b, i))
		}
	}
	for _, b := range all { // who comes first takes what is free, up to its part
		for k := range b.needs {
			i := s.nthInRotation(k)
			more := max(b.parts[i]-keeps(b, i), 0)
			for at := b; at != nil; at = at.parent {
				more = min(more, max(at.free, 0))
			}
			if i == me {
				may := s.quotas[b.path]
				*amountOf(&may) = min(b.parts[i], keeps(b, i)+more)
				s.quotas[b.path] = may
			}
			b.takeFree(more)
		}
	}
}

// nthInRotation is the frontend whose turn comes as the k-th.
func (s *Quotas) nthInRotation(k int) int {
	return (k + int(s.rotation%int64(len(s.frontends)))) % len(s.frontends)
}

func (b *branch) takeFree(n int64) {
	for ; b != nil; b = b.parent {
		if b.free < Unlimited {
			b.free -= n
		}
	}
}

// spreadBelow gives those below a path their parts of what it has, by their tokens.
func (s *Quotas) spreadBelow(b *branch, has int64) {
	sharers := make([]Sharer, len(b.children), len(b.children)+1)
	rest := b.want
	for i, c := range b.children {
		sharers[i] = Sharer{c.want, int64(s.file.Entry(c.path).Tokens), s.file.limitOf(c.path), c.unit}
		rest -= c.want
	}
	if b.needs != nil {
		sharers = append(sharers, Sharer{rest, 1, Unlimited, b.largestTask()})
	}
	parts := make([]int64, len(sharers))
	if has < Unlimited {
		h := fnv.New64a()
		fmt.Fprint(h, s.rotation, b.path)
		parts = WaterfillUnits(has, sharers, drawSharer(sharers, h.Sum64()))
	} else {
		for i := range sharers {
			parts[i] = sharers[i].Max
		}
	}
	for i, c := range b.children {
		s.spreadBelow(c, parts[i])
	}
	if b.needs != nil {
		s.splitAmongFrontends(b, parts[len(b.children)])
	}
}

// largestTask is what the largest task of a path itself takes, a slot at least.
func (b *branch) largestTask() int64 {
	unit := Slot
	for i := range b.needs {
		unit = max(unit, b.needs[i].Most)
	}
	return unit
}

// splitAmongFrontends gives frontends their parts of what a tenant has.
func (s *Quotas) splitAmongFrontends(b *branch, has int64) {
	if has == Unlimited {
		b.parts = slices.Repeat([]int64{Unlimited}, len(b.needs))
		return
	}
	sharers, unit := make([]Sharer, len(b.needs)), b.largestTask()
	for i := range b.needs {
		sharers[i] = Sharer{b.needs[i].Want, 1, Unlimited, unit}
	}
	b.parts = WaterfillUnits(has, sharers, s.nthInRotation(0))
}

// drawSharer is one of the sharers, by a random number, each as often as its weight says.
func drawSharer(sharers []Sharer, random uint64) int {
	all := int64(0)
	for _, s := range sharers {
		all += s.Weight
	}
	at, _ := bits.Mul64(random, uint64(all))
	for i, s := range sharers {
		if at < uint64(s.Weight) {
			return i
		}
		at -= uint64(s.Weight)
	}
	return 0
}

// Sharer wants so much of something, and gets at most Max. Less than Unit is of no use to it, unless it wants less.
type Sharer struct{ Want, Weight, Max, Unit int64 }

// WaterfillUnits shares out as Waterfill does, in units: tasks do not take parts of slots. Whose turn it is has one though its share is less, and what
// does not go into units is for those that want more, from that one on.
func WaterfillUnits(all int64, sharers []Sharer, turn int) []int64 {
	unit := func(i int) int64 {
		s := &sharers[i]
		if s.Want > 0 { // what its tasks take together: none of them takes more
			return max(min(s.Unit, s.Max, all, s.Want), 1)
		}
		return max(min(s.Unit, s.Max, all), 1)
	}
	parts, first := Waterfill(all, sharers), unit(turn)
	if first <= all && parts[turn] < min(first, sharers[turn].Want) {
		others := slices.Clone(sharers)
		others[turn].Max = 0
		parts = Waterfill(all-first, others)
		parts[turn] = first
	}
	rest := all
	for i := range parts {
		parts[i] -= parts[i] % unit(i)
		rest -= parts[i]
	}
	give := func(wanted bool, most func(i int) int64) (given bool) {
		for k := range parts {
			i := (k + turn) % len(parts)
			n := most(i)
			if n > 0 && n <= min(rest, sharers[i].Max-parts[i]) && (sharers[i].Want > parts[i]) == wanted {
				parts[i] += n
				rest -= n
				given = true
			}
		}
		return given
	}
	for _, wanted := range []bool{true, false} {
		for give(wanted, unit) {
		}
	}
	for _, wanted := range []bool{true, false} {
		give(wanted, func(i int) int64 { return min(rest, sharers[i].Max-parts[i]) })
	}
	return parts
}

// Waterfill shares something out: all get as much by weight as long as they want it, and then what nobody wants likewise. The
// order of the sharers does not matter: what does not go into shares of equal size is left over.
func Waterfill(all int64, sharers []Sharer) []int64 {
	parts := make([]int64, len(sharers))
	rest := fillParts(all, sharers, parts, func(s Sharer) int64 { return min(s.Want, s.Max) })
	if rest > 0 {
		fillParts(rest, sharers, parts, func(s Sharer) int64 { return s.Max })
	}
	return parts
}

// fillParts raises the parts of all, up to what each takes. It returns what is left, if all have that.
func fillParts(all int64, sharers []Sharer, parts []int64, takes func(Sharer) int64) (rest int64) {
	lacks := func(i int) int64 { return max(takes(sharers[i])-parts[i], 0) }
	order := make([]int, len(sharers))
	weights := int64(0)
	for i, s := range sharers {
		order[i] = i
		weights += s.Weight
	}
	slices.SortFunc(order, func(i, j int) int { return compareProducts(lacks(i), sharers[j].Weight, lacks(j), sharers[i].Weight) })
	for k, i := range order {
		lack, weight := lacks(i), sharers[i].Weight
		if compareProducts(lack, weights, all, weight) > 0 {
			for _, j := range order[k:] {
				high, low := bits.Mul64(uint64(all), uint64(sharers[j].Weight))
				part, _ := bits.Div64(high, low, uint64(weights))
				parts[j] += int64(part)
			}
			return 0
		}
		parts[i] += lack
		all -= lack
		weights -= weight
	}
	return all
}

// compareProducts compares a times b with c times d, none of which is negative.
func compareProducts(a, b, c, d int64) int {
	high, low := bits.Mul64(uint64(a), uint64(b))
	high2, low2 := bits.Mul64(uint64(c), uint64(d))
	return cmp.Or(cmp.Compare(high, high2), cmp.Compare(low, low2))
}
