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
	// Slot is one slot, in the unit of all amounts.
	Slot = int64(1000)
	// Unlimited is more than any tenant uses.
	Unlimited = math.MaxInt64 / 4
	// MaxReported bounds the tenants in a frontend's report: the tenants with the largest wants.
	MaxReported = 256
	// maxDivided bounds the branches in all divisions of a first part between two reports, about. Each new tenant
	// takes another division. Without a bound, 1,000 new tenants below a path took a second or more. The number was
	// chosen: some 90 new tenants get their quotas at once.
	maxDivided = 4096
	// rotateEvery is the time after which an indivisible amount goes to the next frontend.
	rotateEvery = 10 * time.Second
	// ForgetAfter is the time after which a frontend no longer misses a silent or lost frontend.
	ForgetAfter = 10 * time.Minute
)

// Quota is a frontend's part of a tenant's tokens and maximum, for use at workers.
type Quota struct {
	Regular int64 // amount covered by tokens
	All     int64 // amount with and without tokens; Unlimited: no maximum
}

// Need is a frontend's report about a tenant's own jobs, without the jobs of tenants below.
type Need struct {
	Path  string
	Use   int64 // used by tasks at workers
	Want  int64 // used, plus wanted by tasks that could be at workers
	Most  int64 // size of the largest task
	Quota Quota // quota until the next report; above the frontend's part only if used already
}

// OwnNeed is this frontend's own count of a tenant's jobs.
type OwnNeed struct {
	Path            string
	Use, Want, Most int64
	Spare           int64 // part of Want for spare jobs
	Taken           Quota // part of the quota in use
}

// Quotas computes this frontend's quotas from the needs of all frontends. There is no central ledger: each frontend
// computes its own part, by the same function of all reported needs. A frontend above its part reports the excess,
// and keeps the excess until tasks end. Until then no frontend takes it.
type Quotas struct {
	self           string
	file           *File
	needs          map[string][]frontendNeed   // reported needs, by first part of the path
	own            map[string][]OwnNeed        // by the first part of the path
	reportedQuotas map[string]Quota            // quotas last reported, by path
	frontends      []string                    // known frontends, sorted, including self
	missing        map[string]time.Time        // frontends silent, or lost without a goodbye: since when
	cutOff         bool                        // cut off from most frontends
	rotation       int64                       // selects the frontend for an indivisible amount
	quotas         map[string]map[string]Quota // given since the last report, by first part and path
	divided        map[string]int              // branches divided since the last report, by first part
}

// frontendNeed is a Need and its frontend, by index in Quotas.frontends.
type frontendNeed struct {
	frontend int
	Need
}

// NewQuotas returns the quotas of a frontend without any peers.
func NewQuotas() *Quotas {
	return &Quotas{frontends: []string{""}, missing: map[string]time.Time{}, quotas: map[string]map[string]Quota{},
		divided: map[string]int{}}
}

// Frontends returns the number of known frontends, including this one.
func (s *Quotas) Frontends() int { return len(s.frontends) }

// Exchange takes in the state of the fleet, and returns the Needs to report. Parameters: the name of this frontend
// (me), all frontends (members), the frontends that are silent or were lost without a goodbye (silent), the reports of
// the frontends (needs), and this frontend's counts (own).
//
// A frontend is cut off if it misses more frontends than it hears, itself included. Then quotas do not grow until
// frontends are back. A silent or lost frontend is missed for ForgetAfter, because gossip may lose frontends one after
// another that were cut off together. A frontend that left with a goodbye is not missed.
func (s *Quotas) Exchange(now time.Time, me string, members, silent []string, needs map[string][]Need,
	own []OwnNeed) []Need {
	s.self = me
	present := append(slices.Clone(members), me)
	slices.Sort(present)
	present = slices.Compact(present)
	heard := len(present)
	for _, name := range silent {
		if _, known := s.missing[name]; !known {
			s.missing[name] = now
		}
		if slices.Contains(present, name) {
			heard--
		}
	}
	missed := 0
	for name, since := range s.missing {
		switch {
		case !slices.Contains(silent, name):
			delete(s.missing, name)
		case now.Sub(since) < ForgetAfter:
			missed++
		}
	}
	s.rotation = now.UnixNano() / int64(rotateEvery)
	for i := range own { // spare jobs count against a maximum, but take no tokens
		if o := &own[i]; !s.file.isBounded(o.Path) {
			o.Want -= o.Spare
		}
	}
	s.own = map[string][]OwnNeed{}
	for _, o := range own {
		top := firstPart(o.Path)
		s.own[top] = append(s.own[top], o)
	}
	wasCutOff := s.cutOff
	switch s.cutOff = missed > heard; {
	case !s.cutOff:
		s.frontends = present
		s.noteNeeds(needs)
		s.clearQuotas()
	case !wasCutOff:
		s.dropUnreported()
	}
	reports := make([]Need, 0, len(own))
	reported := make(map[string]Quota, len(own))
	for _, o := range own {
		quota := s.QuotaOf(o.Path)
		quota = Quota{max(quota.Regular, o.Taken.Regular), max(quota.All, o.Taken.All)}
		reported[o.Path] = quota
		reports = append(reports, Need{o.Path, o.Use, o.Want, o.Most, quota})
	}
	s.reportedQuotas = reported
	slices.SortFunc(reports,
		func(a, b Need) int { return cmp.Or(cmp.Compare(b.Want, a.Want), cmp.Compare(a.Path, b.Path)) })
	return reports[:min(len(reports), MaxReported)]
}

// dropUnreported drops the quotas of tenants that have a maximum and were not in the last report. Such a quota may be
// all of the maximum until the next report. A frontend that is cut off may not keep so much.
func (s *Quotas) dropUnreported() {
	for _, quotas := range s.quotas {
		maps.DeleteFunc(quotas, func(path string, _ Quota) bool {
			_, reported := s.reportedQuotas[path]
			return !reported && s.file.isBounded(path)
		})
	}
}

// noteNeeds takes over the needs of all frontends but this one.
func (s *Quotas) noteNeeds(needs map[string][]Need) {
	s.needs = map[string][]frontendNeed{}
	for i, name := range s.frontends {
		if name == s.self {
			continue
		}
		for _, n := range needs[name] {
			top := firstPart(n.Path)
			s.needs[top] = append(s.needs[top], frontendNeed{i, n})
		}
	}
}

// UseFile switches to a new tenants file.
func (s *Quotas) UseFile(file *File) {
	s.file = file
	s.clearQuotas()
}

// clearQuotas forgets the quotas given so far.
func (s *Quotas) clearQuotas() {
	clear(s.quotas)
	clear(s.divided)
}

// QuotaOf returns this frontend's quota of a tenant with jobs. A tenant that is new since the last report gets its
// quota here, and keeps the quota until the next report. After maxDivided, a new tenant has no tokens until the next
// report, and a new tenant with a maximum has no slots. Status uses GivenQuota instead.
func (s *Quotas) QuotaOf(path string) Quota {
	quota, given := s.findQuota(path)
	if given {
		return quota
	}
	top := firstPart(path)
	if s.quotas[top] == nil {
		s.quotas[top] = map[string]Quota{}
	}
	if s.cutOff || s.divided[top] >= maxDivided {
		s.quotas[top][path] = quota
		return quota
	}
	s.divideTenant(path)
	return s.quotas[top][path]
}

// GivenQuota returns the quota that QuotaOf gave a tenant since the last report, and gives nothing. Without such a
// quota the tenant has no tokens, and a tenant with a maximum has no slots.
func (s *Quotas) GivenQuota(path string) Quota {
	quota, _ := s.findQuota(path)
	return quota
}

// findQuota returns GivenQuota, and whether the quota holds until the next report. Without a tenants file, each quota
// does.
func (s *Quotas) findQuota(path string) (quota Quota, given bool) {
	if s.file == nil || s.file.Revision == 0 {
		return Quota{Unlimited, Unlimited}, true
	}
	if quota, given = s.quotas[firstPart(path)][path]; !given && !s.file.isBounded(path) {
		quota.All = Unlimited
	}
	return quota, given
}

// firstPart returns the first part of a tenant's path. Only tenants with the same first part share quotas.
func firstPart(path string) string {
	top, _, _ := strings.Cut(path, "/")
	return top
}

// isBounded reports whether a tenant, or a tenant above, has a maximum.
func (f *File) isBounded(tenant string) bool {
	for path := range probe.TenantPaths(tenant) {
		if f.Entry(path).Max > 0 {
			return true
		}
	}
	return false
}

// TaskMaximum returns the most a single task of a tenant may take: the least maximum on the tenant's path.
func (f *File) TaskMaximum(tenant string) int64 {
	least := int64(Unlimited)
	for path := range probe.TenantPaths(tenant) {
		if n := f.Entry(path).Max; n > 0 {
			least = min(least, int64(n)*Slot)
		}
	}
	return least
}

// branch is a tenant path, together with the paths below.
type branch struct {
	path     string
	parent   *branch // nil: a path of a single part
	children []*branch
	needs    []Need  // by frontend, as in Quotas.frontends; nil: no jobs of exactly this path
	taken    Quota   // part of this frontend's quota that is in use, or may be
	kept     bool    // this frontend keeps the quota given since the last report
	parts    []int64 // parts of the frontends, by the same index
	want     int64   // wants of all frontends, including the paths below
	unit     int64   // size of the largest task, including the paths below
	free     int64   // what no frontend keeps yet of the amount for the path and all paths below
}

// divideTenant computes this frontend's quotas of all tenants with the same first part as tenant.
func (s *Quotas) divideTenant(tenant string) {
	top := firstPart(tenant)
	known := map[string]*branch{}
	var all []*branch
	branchOf := func(tenantPath string) *branch {
		var above *branch
		for path := range probe.TenantPaths(tenantPath) {
			b := known[path]
			if b == nil {
				b = &branch{path: path, parent: above}
				known[path], all = b, append(all, b)
			}
			above = b
		}
		if above.needs == nil {
			above.needs = make([]Need, len(s.frontends))
		}
		return above
	}
	me := slices.Index(s.frontends, s.self)
	branchOf(tenant)
	for _, o := range s.own[top] {
		b := branchOf(o.Path)
		b.needs[me], b.taken = Need{o.Path, o.Use, o.Want, o.Most, s.reportedQuotas[o.Path]}, o.Taken
	}
	// Since the last report, tenants may have used all of their quotas, and keep the quotas until the next report. Else
	// several tenants below a path could together use more than the path's maximum.
	for path, quota := range s.quotas[top] {
		if !s.file.isBounded(path) {
			continue
		}
		b := branchOf(path)
		if b.needs[me] == (Need{}) {
			b.needs[me] = Need{Path: path, Want: quota.All, Quota: quota}
		}
		b.taken = Quota{max(quota.Regular, b.taken.Regular), max(quota.All, b.taken.All)}
		b.kept = true
	}
	// Until the next report this frontend does not know how much the jobs of a tenant want, and may use all.
	if own := &branchOf(tenant).needs[me]; *own == (Need{}) && s.file.isBounded(tenant) {
		*own = Need{Path: tenant, Want: s.file.TaskMaximum(tenant)}
	}
	for _, n := range s.needs[top] {
		branchOf(n.Path).needs[n.frontend] = n.Need
	}
	// A parent sorts before its children. All frontends have the children in the same order, because spreadBelow draws a
	// child by its position. Otherwise two frontends could each draw the child with its own jobs, or neither.
	slices.SortFunc(all, func(a, b *branch) int { return strings.Compare(a.path, b.path) })
	s.divided[top] += len(all)
	for _, b := range all {
		if b.parent != nil {
			b.parent.children = append(b.parent.children, b)
		}
	}
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
	s.divideAmount(all, tokens, me, func(m *Quota) *int64 { return &m.Regular })
	s.divideAmount(all, s.file.limitOf(top), me, func(m *Quota) *int64 { return &m.All })
}

// limitOf returns the maximum of a path, together with all paths below.
func (f *File) limitOf(path string) int64 {
	if n := f.Entry(path).Max; n > 0 {
		return int64(n) * Slot
	}
	return Unlimited
}

// divideAmount computes this frontend's part of an amount, tokens or slots, for each path in all. top is the whole
// amount; amountOf selects the field of a Quota. First the amount is divided into parts, by weights and wants. If a
// frontend uses more than its part, the frontend keeps the excess. The frontends take the rest, each up to its part,
// in the order of the rotation.
func (s *Quotas) divideAmount(all []*branch, top int64, me int, amountOf func(*Quota) *int64) {
	quotas := s.quotas[all[0].path]
	keeps := func(b *branch, i int) int64 {
		n := &b.needs[i]
		if i != me {
			return *amountOf(&n.Quota)
		}
		return max(*amountOf(&b.taken), min(*amountOf(&n.Quota), b.parts[i]))
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
	for _, b := range all { // in the order of the rotation, frontends take the free amount up to their parts
		for k := range b.needs {
			i := s.nthInRotation(k)
			more := max(b.parts[i]-keeps(b, i), 0)
			for at := b; at != nil; at = at.parent {
				more = min(more, max(at.free, 0))
			}
			if i == me && !b.kept {
				quota := quotas[b.path]
				*amountOf(&quota) = min(b.parts[i], keeps(b, i)+more)
				quotas[b.path] = quota
			}
			b.takeFree(more)
		}
	}
}

// nthInRotation returns the index of the frontend at position k in the current rotation.
func (s *Quotas) nthInRotation(k int) int {
	return (k + int(s.rotation%int64(len(s.frontends)))) % len(s.frontends)
}

// takeFree takes n from the free amount of a path and of all paths above.
func (b *branch) takeFree(n int64) {
	for ; b != nil; b = b.parent {
		if b.free < Unlimited {
			b.free -= n
		}
	}
}

// spreadBelow divides the part of a path among the paths below, by tokens. Jobs of exactly this path share like one
// more path below, with 1 token.
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

// largestTask returns the size of the path's own largest task, at least a slot.
func (b *branch) largestTask() int64 {
	unit := Slot
	for i := range b.needs {
		unit = max(unit, b.needs[i].Most)
	}
	return unit
}

// splitAmongFrontends divides a tenant's part among the frontends.
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

// drawSharer returns the index of a random sharer, in proportion to the weights.
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

// Sharer takes part in a division. It wants Want and gets at most Max. A part below Unit is useless, unless Want is
// below Unit.
type Sharer struct{ Want, Weight, Max, Unit int64 }

// WaterfillUnits divides an amount like Waterfill, but in units, because a task cannot use a part of a slot. The
// sharer at index start gets a unit even if its part is less. The rest, too small for a unit, goes to sharers with an
// open want, starting at index start.
func WaterfillUnits(all int64, sharers []Sharer, start int) []int64 {
	unit := func(i int) int64 {
		s := &sharers[i]
		if s.Want > 0 { // Want covers all tasks of the sharer, so no task takes more
			return max(min(s.Unit, s.Max, all, s.Want), 1)
		}
		return max(min(s.Unit, s.Max, all), 1)
	}
	parts, first := Waterfill(all, sharers), unit(start)
	if first <= all && parts[start] < min(first, sharers[start].Want) {
		others := slices.Clone(sharers)
		others[start].Max = 0
		parts = Waterfill(all-first, others)
		parts[start] = first
	}
	rest := all
	for i := range parts {
		parts[i] -= parts[i] % unit(i)
		rest -= parts[i]
	}
	// give walks the sharers once, and gives most(i) to each sharer i with an open want, if the rest allows. If wanted
	// is false, it gives to sharers without an open want.
	give := func(wanted bool, most func(i int) int64) (given bool) {
		for k := range parts {
			i := (k + start) % len(parts)
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

// Waterfill divides an amount by max-min fairness: all sharers get equal parts by weight, up to the wants. Then the
// unwanted rest is divided likewise, up to Max. The order of the sharers does not matter. A remainder too small for
// equal parts is left over.
func Waterfill(all int64, sharers []Sharer) []int64 {
	parts := make([]int64, len(sharers))
	rest := fillParts(all, sharers, parts, func(s Sharer) int64 { return min(s.Want, s.Max) })
	if rest > 0 {
		fillParts(rest, sharers, parts, func(s Sharer) int64 { return s.Max })
	}
	return parts
}

// fillParts raises the parts of all sharers, up to takes(sharer). It returns the rest if every sharer has reached the
// limit, and otherwise 0.
func fillParts(all int64, sharers []Sharer, parts []int64, takes func(Sharer) int64) (rest int64) {
	lacks := func(i int) int64 { return max(takes(sharers[i])-parts[i], 0) }
	order := make([]int, len(sharers))
	weights := int64(0)
	for i, s := range sharers {
		order[i] = i
		weights += s.Weight
	}
	// Sharers that lack least for their weight come first. If a sharer cannot be filled, all later ones cannot be
	// filled, either: they split the rest by weight.
	slices.SortFunc(order,
		func(i, j int) int { return compareProducts(lacks(i), sharers[j].Weight, lacks(j), sharers[i].Weight) })
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

// compareProducts compares a*b with c*d. No argument may be negative.
func compareProducts(a, b, c, d int64) int {
	high, low := bits.Mul64(uint64(a), uint64(b))
	high2, low2 := bits.Mul64(uint64(c), uint64(d))
	return cmp.Or(cmp.Compare(high, high2), cmp.Compare(low, low2))
}
