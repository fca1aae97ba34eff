package worker

import (
	"iter"
	"slices"
	"time"

	"github.com/phoebe-sched/phoebe/probe"
	"github.com/phoebe-sched/phoebe/probe/pq"
)

// fair is the policy of Fair.
type fair struct {
	queue   *queue
	weights map[string]float64 // a tenant that is not named weighs 1
	waiting pq.Heap[*account]  // of those with places in the queue
	virtual float64            // what those who wait have been served at least, over their weights; it never goes back
	payer   *account           // the last one that was charged

	walk  walk[*account] // scratch of inOrder
	turns []turns
}

// account is a tenant's under Fair. A turn costs CPU time over the tenant's weight, and the tenant's next one begins no
// earlier than that later in virtual time: what is expected is paid when the turn begins, so that tenants take turns
// while tasks run, and the difference to what was used when it ends (see bill). The turn is what costs: a place that was
// cancelled cost nothing, one that comes round again pays again.
type account struct {
	fair   *fair
	weight float64
	places pq.Heap[*place] // in the queue, in order of arrival
	start  float64         // of the next turn, in virtual time
	pos    int

	// run is how long its tasks without an estimate took lately. With one constant instead, the bills would still add
	// up, but only when tasks end: one whose tasks take minutes would have taken all slots until then, and none
	// afterwards for as long. An estimate goes first, even one that is often wrong: only it tells a tenant's long
	// tasks from its short ones.
	run time.Duration

	turns int     // that are on
	bills int     // that are open: of those, and of attempts
	paid  float64 // for them in advance
	rate  float64 // of them, the CPU in use
	begun float64 // the sum of CPU times when its use began
}

// bill is what a turn, or an attempt that started without one, has cost its tenant so far. It is on the place until
// that has a task, then on the attempt. Costs are in millicores times nanoseconds.
type bill struct {
	of      *account // nil: nobody pays
	paid    float64  // in advance
	from    time.Duration
	cpu     probe.Millicores
	using   bool // the room, since from
	guessed bool // paid is by account.run
}

func (a *account) Before(b *account) bool {
	if a.start != b.start {
		return a.start < b.start
	}
	return a.places.Min().seq < b.places.Min().seq
}

func (a *account) Pos() *int { return &a.pos }

func (f *fair) account(tenant string) account {
	a := account{fair: f, weight: f.weights[tenant], run: unknownCost}
	if a.weight <= 0 {
		a.weight = 1
	}
	return a
}

func (f *fair) push(p *place) {
	a := &p.of.account
	if a.places.Len() > 0 {
		a.places.Push(p)
		f.waiting.Fix(a) // p may be its oldest
		return
	}
	f.join(a)
	a.places.Push(p)
	f.waiting.Push(a)
}

func (f *fair) remove(p *place) {
	a := &p.of.account
	a.places.Remove(p)
	if a.places.Len() > 0 {
		f.waiting.Fix(a)
	} else {
		f.waiting.Remove(a)
	}
}

func (f *fair) head(time.Time) *place { return f.waiting.Min().places.Min() }

func (f *fair) charge(p *place) {
	a := &p.of.account
	p.bill = a.charge(p.demand, p.estimate)
	a.turns++
}

func (f *fair) chargeMore(tenant string, d probe.Demand, estimate time.Duration) bill {
	t := f.queue.tenant(tenant)
	f.join(&t.account)
	if t.idle() {
		f.queue.holders++
	}
	b := t.charge(d, estimate)
	if t.n > 0 {
		f.waiting.Fix(&t.account)
	}
	return b
}

// join lets a tenant take part that did not wait: it has saved nothing up. One whose tasks run keeps what it was behind
// others when one of them was charged last, or it would lose that between one place and the next.
func (f *fair) join(a *account) {
	if a.places.Len() > 0 || a.turns > 0 {
		return
	}
	if a.bills == 0 {
		f.advance()
	}
	a.start = max(a.start, f.virtual)
}

// advance brings virtual time forward. It follows what tenants have been served, not what they have paid: someone who
// came after others paid for an hour would else come after that hour, though they get it back as their tasks end. If
// nobody waits, it follows the one that was charged last: what is used while nobody wants it is soon owed to nobody.
func (f *fair) advance() {
	a := f.payer
	if f.waiting.Len() > 0 {
		a = f.waiting.Min()
	}
	if a == nil {
		return
	}
	served := a.start - (a.paid-(a.rate*float64(f.queue.now)-a.begun))/a.weight
	f.virtual = max(f.virtual, min(a.start, served))
}

// toll is what a turn of this demand and estimate is expected to cost.
func (a *account) toll(d probe.Demand, estimate time.Duration) float64 {
	if estimate <= 0 {
		estimate = a.run
	}
	return float64(estimate) * float64(max(d.CPU, 1))
}

// charge makes the tenant pay in advance. Its place in the heap of those who wait is left to the caller.
func (a *account) charge(d probe.Demand, estimate time.Duration) bill {
	a.fair.advance()
	a.fair.payer = a
	b := bill{of: a, paid: a.toll(d, estimate), cpu: max(d.CPU, 1), guessed: estimate <= 0}
	a.bills++
	a.paid += b.paid
	a.start += b.paid / a.weight
	return b
}

// use notes that the bill's room is occupied from now on, if it was not yet.
func (b *bill) use() {
	if b.of == nil || b.using {
		return
	}
	b.using, b.from = true, b.of.fair.queue.now
	b.of.rate += float64(b.cpu)
	b.of.begun += float64(b.cpu) * float64(b.from)
}

// settle corrects what was paid to what was used: the time for which the room was occupied, or, if that is more, for
// which a task ran, 0 if none did.
func (b bill) settle(ran time.Duration) {
	a := b.of
	if a == nil {
		return
	}
	q := a.fair.queue
	used := time.Duration(0)
	if b.using {
		used = max(ran, q.now-b.from)
		a.rate -= float64(b.cpu)
		a.begun -= float64(b.cpu) * float64(b.from)
	}
	if b.guessed && ran > 0 {
		a.run += (used - a.run) / 8
	}
	a.paid -= b.paid
	a.start += (float64(used)*float64(b.cpu) - b.paid) / a.weight
	if a.bills--; a.bills == 0 {
		a.paid, a.rate, a.begun = 0, 0, 0 // of sums, small errors remain
	}
	switch {
	case a.places.Len() > 0:
		q.changes++
		a.fair.waiting.Fix(a)
	case a.bills == 0:
		q.holders--
	}
}

// endTurn hands out the bill of the place's turn, if one is on.
func (p *place) endTurn() bill {
	b := p.bill
	if b.of != nil {
		b.of.turns--
	}
	p.bill = bill{}
	return b
}

// turns is a tenant's part of a walk through the queue.
type turns struct {
	account *account
	start   float64 // of its next turn, in virtual time
	places  walk[*place]
}

// inOrder lets the tenants take their turns as head would.
func (f *fair) inOrder(time.Time) iter.Seq[*place] { return f.foresee }

func (f *fair) foresee(yield func(*place) bool) {
	defer f.letGo()
	for f.walk.begin(&f.waiting); len(f.turns) < planDepth; f.walk.skip() { // others come after all that is planned
		a, ok := f.walk.peek()
		if !ok {
			break
		}
		f.turns = slices.Grow(f.turns, 1)[:len(f.turns)+1]
		t := &f.turns[len(f.turns)-1] // with the slice of an earlier walk
		t.account, t.start = a, a.start
		t.places.begin(&a.places)
	}
	for {
		var first *turns
		var place *place
		for i := range f.turns {
			t := &f.turns[i]
			p, ok := t.places.peek()
			if ok && (first == nil || t.start < first.start || t.start == first.start && p.seq < place.seq) {
				first, place = t, p
			}
		}
		if first == nil || !yield(place) {
			return
		}
		first.start += first.account.toll(place.demand, place.estimate) / first.account.weight
		first.places.skip()
	}
}

func (f *fair) letGo() {
	f.walk.end()
	for i := range f.turns {
		t := &f.turns[i]
		t.account = nil
		t.places.end()
	}
	f.turns = f.turns[:0]
}

func (f *fair) all() iter.Seq[*place] {
	return func(yield func(*place) bool) {
		for _, a := range f.waiting.All() {
			for _, p := range a.places.All() {
				if !yield(p) {
					return
				}
			}
		}
	}
}
