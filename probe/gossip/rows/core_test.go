package rows

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func newTestCore(name string) *Core {
	return New(DefaultConfig, Member{Name: name, Heartbeat: "hb-" + name}, epoch,
		rand.New(rand.NewPCG(1, hashName(name))))
}

// fakeWorker is a worker of a fakeNet.
type fakeWorker struct {
	name  string
	ann   *Announcer
	load  Row
	next  time.Time
	state State // Lost: crashed
	runs  uint64
}

// fakeNet runs frontends and workers in virtual time, in steps of FlushEvery.
type fakeNet struct {
	rng     *rand.Rand
	now     time.Time
	cores   map[string]*Core
	order   []string
	frozen  map[string]bool
	cut     func(a, b string) bool // between frontends
	apart   func(worker, frontend string) bool
	loss    float64
	mail    []mail
	workers []*fakeWorker
	bytes   map[string]int // received from frontends
	beats   int            // heartbeats, each to both homes
}

type mail struct {
	at       time.Time
	from, to string
	msg      []byte
}

func newFakeNet(seed uint64, frontends, workers int) *fakeNet {
	n := &fakeNet{rng: rand.New(rand.NewPCG(seed, 9)), now: epoch, cores: map[string]*Core{},
		frozen: map[string]bool{}, bytes: map[string]int{},
		cut: func(a, b string) bool { return false }, apart: func(a, b string) bool { return false }}
	for i := range frontends {
		n.start(fmt.Sprintf("f%d", i))
	}
	for i := range workers {
		w := &fakeWorker{name: fmt.Sprintf("w%d", i)}
		n.workers = append(n.workers, w)
		n.restart(w)
	}
	return n
}

// start adds a frontend, or a new run of a frontend.
func (n *fakeNet) start(name string) {
	if n.cores[name] == nil {
		n.order = append(n.order, name)
	}
	n.cores[name] = New(DefaultConfig, n.member(name), n.now, rand.New(rand.NewPCG(n.rng.Uint64(), 1)))
	n.agree()
}

func (n *fakeNet) stop(name string) {
	delete(n.cores, name)
	n.order = slices.DeleteFunc(n.order, func(s string) bool { return s == name })
	n.agree()
}

func (n *fakeNet) member(name string) Member { return Member{Name: name, Heartbeat: "hb-" + name} }

// agree tells all frontends the list of members.
func (n *fakeNet) agree() {
	var list []Member
	for _, name := range n.order {
		list = append(list, n.member(name))
	}
	for _, c := range n.cores {
		c.SetMembers(list)
	}
}

func (n *fakeNet) restart(w *fakeWorker) {
	w.runs++
	w.state = Up
	w.next = n.now.Add(time.Duration(n.rng.Int64N(1e9)))
	p := *fullRow(w.name, 0, 1).Profile
	p.Labels = []string{strings.Repeat("x", 200)}
	w.ann, _ = NewAnnouncer([]string{"hb-f0", "hb-f1", "hb-f2"}, p, w.runs)
}

// beat sends a worker's heartbeats and takes the answers.
func (n *fakeNet) beat(w *fakeWorker) {
	w.next = w.next.Add(time.Second)
	n.beats++
	load := w.load
	load.State = w.state
	for _, b := range w.ann.Beats(load, "") {
		for again := true; again; {
			again = n.call(w, &b)
			if again {
				b.Heartbeat.Row.Profile, b.Heartbeat.Row.Files = w.ann.profile, w.ann.files
			}
		}
	}
}

// call makes a call through the codec. again means that the frontend wants the whole row.
func (n *fakeNet) call(w *fakeWorker, b *Beat) (again bool) {
	name := strings.TrimPrefix(b.Addr, "hb-")
	c := n.cores[name]
	if c == nil || n.frozen[name] || n.apart(w.name, name) {
		w.ann.Failed(b)
		return false
	}
	var h Heartbeat
	if err := ReadHeartbeat(AppendHeartbeat(nil, &b.Heartbeat), &h); err != nil {
		panic(err)
	}
	answer := c.Heartbeat(n.now, &h)
	var a Answer
	if err := ReadAnswer(AppendAnswer(nil, &answer), &a); err != nil {
		panic(err)
	}
	return w.ann.Answered(b, &a)
}

func (n *fakeNet) post(from string, sends []Send) {
	for _, s := range sends {
		if !s.Stream && len(s.Msg) > MaxPacket {
			panic(fmt.Sprintf("a datagram of %d bytes", len(s.Msg)))
		}
		for _, to := range n.order {
			if to == from || s.To != "" && s.To != to || n.cut(from, to) || !s.Stream && n.rng.Float64() < n.loss {
				continue
			}
			n.mail = append(n.mail, mail{n.now.Add(time.Duration(n.rng.Int64N(40e6))), from, to, s.Msg})
		}
	}
}

// run lets time pass.
func (n *fakeNet) run(d time.Duration) {
	for end := n.now.Add(d); n.now.Before(end); n.now = n.now.Add(FlushEvery) {
		due := n.mail
		n.mail = nil
		for _, m := range due {
			c := n.cores[m.to]
			if c == nil {
				continue
			}
			if m.at.After(n.now) || n.frozen[m.to] {
				n.mail = append(n.mail, m)
				continue
			}
			n.bytes[m.to] += len(m.msg)
			out, err := c.Receive(n.now, m.msg, nil)
			if err != nil {
				panic(err)
			}
			n.post(m.to, out)
		}
		for _, w := range n.workers {
			if w.state == Up && !n.now.Before(w.next) {
				n.beat(w)
			}
		}
		for _, name := range n.order {
			if !n.frozen[name] {
				n.post(name, n.cores[name].Tick(n.now, nil))
			}
		}
	}
}

// ages returns the ages of all live workers at a frontend, ascending. A missing worker counts as a day.
func (n *fakeNet) ages(name string) []time.Duration {
	var ages []time.Duration
	for _, w := range n.workers {
		if w.state == Up {
			r, ok := n.cores[name].Get(n.now, w.name)
			if !ok || r.State != Up || r.Incarnation != w.runs {
				r.Age = 24 * time.Hour
			}
			ages = append(ages, r.Age)
		}
	}
	slices.Sort(ages)
	return ages
}

func percentile(ages []time.Duration, p int) time.Duration { return ages[(len(ages)-1)*p/100] }

// pushStats returns the pushes of each row to each frontend, per heartbeat, and the bytes for each pushed row. The
// counts start anew with each call.
func (n *fakeNet) pushStats() (perRow float64, bytes int) {
	var pushed uint64
	for _, c := range n.cores {
		pushed += c.Stats.Received
		c.Stats.Received = 0
	}
	for _, b := range n.bytes {
		bytes += b
	}
	perRow, bytes = float64(pushed)/float64(n.beats*(len(n.order)-1)), bytes/int(pushed)
	n.beats = 0
	clear(n.bytes)
	return perRow, bytes
}

// Two packets in a hundred are lost, and all ages stay under two heartbeats. Each row reaches each frontend about
// once, without its parts.
func TestFreshAndOnce(t *testing.T) {
	n := newFakeNet(1, 5, 300)
	n.loss = 0.02
	n.run(10 * time.Second)
	for _, w := range n.workers {
		n.restart(w)
	}
	n.pushStats()
	n.run(2 * time.Second)
	if per, _ := n.pushStats(); per > 0.8 { // heartbeats to seeds teach the workers their homes first
		t.Errorf("when all restart, each row is told each other frontend %.2f times", per)
	}
	n.run(3 * time.Second)
	n.pushStats()
	for range 100 {
		n.run(100 * time.Millisecond)
		for _, name := range n.order {
			if ages := n.ages(name); percentile(ages, 99) > 2*time.Second {
				t.Fatalf("%s at %v: p99 of ages %v", name, n.now.Sub(epoch), percentile(ages, 99))
			}
		}
	}
	// The sums of the buckets take some 8 of the bytes; their size does not grow with the fleet.
	if per, bytes := n.pushStats(); per < 0.9 || per > 1.1 || bytes > 40 {
		t.Errorf("each row is told each other frontend %.2f times, for %d bytes", per, bytes)
	}
	n.stop("f0")
	n.run(2500 * time.Millisecond)
	if per, bytes := n.pushStats(); per < 0.9 || per > 1.1 || bytes > 40 {
		t.Errorf("after a frontend left, each row is told each other frontend %.2f times, for %d bytes", per, bytes)
	}
	for _, c := range n.cores {
		c.table.checkInvariants()
	}
}

// A worker may heartbeat many times per second. Its row goes to the members about once per heartbeat, except for
// news.
func TestPushGap(t *testing.T) {
	c := newTestCore("f1")
	c.SetMembers([]Member{{Name: "f2"}})
	now := epoch.Add(10 * time.Second)
	r := fullRow("w", 1, 0)
	pushed := func() (n uint64) {
		for range 40 {
			now = now.Add(FlushEvery)
			r.Seq++
			c.Hear(now, r)
			before := c.Stats.Pushed
			c.Tick(now, nil)
			n += c.Stats.Pushed - before
		}
		return n
	}
	pushed()
	if n := pushed(); n < 2 || n > 4 {
		t.Errorf("a row was pushed %d times in two heartbeats", n)
	}
	r.Seq++
	r.State = Left
	c.Hear(now, r)
	before := c.Stats.Pushed
	c.Tick(now, nil)
	if c.Stats.Pushed != before+1 {
		t.Error("that it leaves is not pushed at once")
	}
}

// A frontend may lose sight of more workers than maxWants. Then it asks for all workers in turn.
func TestAllOverdueAreAskedFor(t *testing.T) {
	c := newTestCore("f1")
	c.SetMembers([]Member{{Name: "f2"}})
	for i := range 3 * maxWants {
		c.table.Merge(epoch, fullRow(fmt.Sprint("w", i), 1, 1))
	}
	asked := map[Key]bool{}
	for i := range 40 {
		for _, s := range c.Tick(epoch.Add(2*time.Second+time.Duration(i)*500*time.Millisecond), nil) {
			rd := reader{buf: s.Msg}
			if kind, _ := rd.readByte(), rd.readString(MaxName); kind == msgWant {
				n := 0
				for ; len(rd.buf) > 0; n++ {
					asked[Key(rd.readUint64())] = true
					rd.readUint()
					rd.readByte()
				}
				if n > maxWants || !s.Stream {
					t.Fatalf("asks for %d rows at once, over a stream: %v", n, s.Stream)
				}
			}
		}
	}
	if len(asked) < 3*maxWants*9/10 {
		t.Errorf("asked for %d of %d rows", len(asked), 3*maxWants)
	}
}

// If a home freezes, the second home steps in before the members notice.
func TestSecondHomeStepsIn(t *testing.T) {
	n := newFakeNet(2, 5, 200)
	n.run(5 * time.Second)
	n.frozen["f0"] = true
	n.run(4 * time.Second)
	for range 30 {
		n.run(100 * time.Millisecond)
		for _, name := range []string{"f1", "f2", "f3", "f4"} {
			if ages := n.ages(name); percentile(ages, 99) > 2*time.Second {
				t.Fatalf("%s: p99 of ages %v, longest %v", name, percentile(ages, 99), ages[len(ages)-1])
			}
		}
	}
}

// Workers that reach only foreign frontends, not their homes, are seen by all frontends.
func TestAnybodyStepsIn(t *testing.T) {
	n := newFakeNet(3, 5, 100)
	n.run(5 * time.Second)
	n.apart = func(_, f string) bool { return f != "f4" }
	n.run(10 * time.Second)
	for range 30 {
		n.run(100 * time.Millisecond)
		for _, name := range n.order {
			if ages := n.ages(name); percentile(ages, 99) > 4*time.Second {
				t.Fatalf("%s: p99 of ages %v", name, percentile(ages, 99))
			}
		}
	}
}

// A broken link between two frontends costs only freshness.
func TestBrokenLinkIsRepairedThroughOthers(t *testing.T) {
	n := newFakeNet(4, 5, 200)
	n.cut = func(a, b string) bool { return a == "f0" && b == "f1" || a == "f1" && b == "f0" }
	n.run(8 * time.Second)
	for range 30 {
		n.run(100 * time.Millisecond)
		if ages := n.ages("f1"); percentile(ages, 99) > 4*time.Second {
			t.Fatalf("p99 of ages %v", percentile(ages, 99))
		}
	}
}

// A newcomer learns everything within seconds, and about once.
func TestNewcomer(t *testing.T) {
	n := newFakeNet(5, 3, 0)
	size := 0
	for i := range 5000 {
		r := busyRow(i, 1)
		size += len(AppendRow(nil, &r))
		for _, c := range n.cores {
			r.Age = time.Second
			c.table.Merge(n.now, r)
		}
	}
	n.start("f3")
	n.run(6 * time.Second)
	if got := n.cores["f3"].Len(); got != 5000 {
		t.Errorf("it knows %d of 5000 workers", got)
	}
	t.Logf("%d bytes came for a view of %d", n.bytes["f3"], size)
	if n.bytes["f3"] > 3*size {
		t.Errorf("%d bytes came for a view of %d", n.bytes["f3"], size)
	}
}

// After any disturbance all frontends agree on the truth.
func TestFrontendsConverge(t *testing.T) {
	kinds := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		n := newFakeNet(rapid.Uint64().Draw(t, "seed"), 4, 12)
		n.loss = rapid.Float64Range(0, 0.5).Draw(t, "loss")
		for range rapid.IntRange(1, 12).Draw(t, "events") {
			n.run(time.Duration(rapid.IntRange(50, 3000).Draw(t, "ms")) * time.Millisecond)
			w := n.workers[rapid.IntRange(0, len(n.workers)-1).Draw(t, "worker")]
			f := n.order[rapid.IntRange(0, len(n.order)-1).Draw(t, "frontend")]
			kind := rapid.SampledFrom([]string{"crash", "leave", "restart", "move", "fetch", "cut", "freeze",
				"replace", "close"}).Draw(t, "event")
			kinds[kind]++
			switch kind {
			case "crash":
				w.state = Lost
			case "leave":
				if w.state == Up {
					w.state = Left
					n.beat(w)
				}
			case "restart":
				n.restart(w)
			case "move":
				p := *w.ann.profile
				p.Rack = fmt.Sprint("r", n.rng.IntN(9))
				w.ann.SetProfile(p)
			case "fetch":
				w.ann.SetFiles([]FileID{FileID(n.rng.Uint64()), 3})
			case "cut":
				n.cut = func(a, b string) bool { return (a == f) != (b == f) }
			case "freeze":
				n.frozen[f] = !n.frozen[f]
			case "replace":
				n.start(f)
			case "close":
				if len(n.order) > 3 {
					n.stop(f)
				}
			}
		}
		n.loss, n.cut, n.frozen = 0, func(a, b string) bool { return false }, map[string]bool{}
		n.run(45 * time.Second) // longer than the expiry: crashed workers are lost everywhere
		want := ""
		for _, name := range n.order {
			c := n.cores[name]
			c.table.checkInvariants()
			if a := n.ages(name); len(a) > 0 && a[len(a)-1] > 1500*time.Millisecond {
				t.Fatalf("%s: a live worker's age is %v", name, a[len(a)-1])
			}
			var lines []string
			for _, w := range n.workers {
				r, ok := c.Get(n.now, w.name)
				switch {
				case w.state != Up && ok && r.State == Up:
					t.Fatalf("%s still believes in %s, %v", name, w.name, w.state)
				case w.state == Up:
					if got := len(w.ann.Members()); got != len(n.order) {
						t.Fatalf("%s knows of %d frontends, not of %d", w.name, got, len(n.order))
					}
					if !r.Profile.equalTo(w.ann.profile) || r.FilesRev != w.ann.revs.files {
						t.Fatalf("%s has an old part of %s", name, w.name)
					}
					lines = append(lines, fmt.Sprint(w.name, r.Incarnation, r.ProfileRev, r.FilesRev,
						r.Profile.Rack, r.Files))
				}
			}
			if got := strings.Join(lines, "\n"); want == "" {
				want = got
			} else if got != want {
				t.Fatalf("%s believes\n%s\nothers\n%s", name, got, want)
			}
		}
	})
	if len(kinds) != 9 {
		t.Errorf("not every kind of event came up: %v", kinds)
	}
}

// A frontend does not tell the members that a worker is lost: the members see the age of the row. If a frontend's
// clock runs wrong, only this frontend errs.
func TestLostRowsAreNotSent(t *testing.T) {
	c := newTestCore("f1")
	c.SetMembers([]Member{{Name: "f2"}})
	r := fullRow("w", 1, 7)
	c.Hear(epoch, r)
	ask := binary.LittleEndian.AppendUint64(appendString([]byte{msgWant}, "f2"), uint64(r.Key))
	ask = append(ask, 0, byte(partAll))
	for after, want := range map[time.Duration]int{time.Second: 1, time.Minute: 0} {
		now := epoch.Add(after)
		c.table.Expire(now)
		if out, err := c.Receive(now, ask, nil); err != nil || len(out) != want {
			t.Errorf("after %v: %d answers, %v", after, len(out), err)
		}
		c = newTestCore("f1")
		c.Hear(epoch, r)
	}
}

func TestHomes(t *testing.T) {
	var list []Member
	for i := range 8 {
		list = append(list, Member{Name: fmt.Sprintf("frontend-%d", i)})
	}
	const workers = 8000
	first, second := map[string]int{}, map[string]int{}
	moved := 0
	for i := range workers {
		w := fmt.Sprintf("worker-%d", i)
		h := Homes(w, list)
		first[h[0].Name]++
		second[h[1].Name]++
		if len(h) != 2 || h[0] == h[1] {
			t.Fatalf("homes of %s: %v", w, h)
		}
		turned := slices.Clone(list)
		slices.Reverse(turned)
		if again := Homes(w, turned); !slices.Equal(again, h) {
			t.Fatalf("another order of members makes %v of %v", again, h)
		}
		remaining := Homes(w, list[1:])
		switch list[0] {
		case h[0]:
			moved++
			if remaining[0] != h[1] {
				t.Fatalf("%s: %v became %v", w, h, remaining)
			}
		case h[1]:
			moved++
			if remaining[0] != h[0] {
				t.Fatalf("%s: %v became %v", w, h, remaining)
			}
		default:
			if !slices.Equal(remaining, h) {
				t.Fatalf("%s: %v became %v, but neither left", w, h, remaining)
			}
		}
		ms := newMembers(list)
		for _, m := range list {
			want := slices.Index(h, m)
			if want < 0 {
				want = 2
			}
			if got := ms.homeRank(hashName(w), hashName(m.Name)); got != want {
				t.Fatalf("%s ranks %d for %s, want %d", m.Name, got, w, want)
			}
		}
	}
	for _, m := range list {
		if first[m.Name] < 850 || first[m.Name] > 1150 || second[m.Name] < 850 || second[m.Name] > 1150 {
			t.Errorf("%s is first home of %d and second of %d workers, a fair share is 1000", m.Name, first[m.Name],
				second[m.Name])
		}
	}
	if moved > workers/4*115/100 {
		t.Errorf("%d of %d workers moved when one of eight frontends left", moved, workers)
	}
	if h := Homes("w", list[:1]); len(h) != 1 {
		t.Errorf("homes among one frontend: %v", h)
	}
	if h := Homes("w", nil); len(h) != 0 {
		t.Errorf("homes among none: %v", h)
	}
}

// Of two members under one name the newer run counts. The version of the list identifies its content, at any
// frontend.
func TestMembers(t *testing.T) {
	a := newMembers([]Member{{Name: "x", Run: 1, Heartbeat: "old"}, {Name: "y"}, {Name: "x", Run: 2, Heartbeat: "new"}})
	b := newMembers([]Member{{Name: "y"}, {Name: "x", Run: 2, Heartbeat: "new"}})
	c := newMembers([]Member{{Name: "y"}, {Name: "x", Run: 2, Heartbeat: "newer"}})
	if len(a.list) != 2 || a.list[0].Heartbeat != "new" || a.version != b.version || b.version == c.version ||
		newMembers(nil).version == 0 {
		t.Errorf("%+v\n%+v\n%+v", a, b, c)
	}
}

func TestAnnouncer(t *testing.T) {
	a, err := NewAnnouncer([]string{"s1", "s2"}, Profile{Name: "w", Addr: "w:1"}, 7)
	if err != nil {
		t.Fatal(err)
	}
	addrs := func(beats []Beat) (list []string) {
		for _, b := range beats {
			what := b.Addr
			if b.Heartbeat.Row.Profile != nil {
				what += " full"
			}
			list = append(list, what)
		}
		return list
	}
	expect := func(beats []Beat, want ...string) []Beat {
		t.Helper()
		if got := addrs(beats); !slices.Equal(got, want) {
			t.Fatalf("beats to %q, want %q", got, want)
		}
		return beats
	}
	b := expect(a.Beats(Row{}, ""), "s1 full")
	a.Failed(&b[0])
	b = expect(a.Beats(Row{}, ""), "s2 full")
	list := []Member{{Name: "a", Heartbeat: "ha"}, {Name: "b", Heartbeat: "hb"}, {Name: "c", Heartbeat: "hc"},
		{Name: "d", Heartbeat: "hd"}}
	a.Answered(&b[0], &Answer{Version: 3, Members: list})
	homes := Homes("w", list)
	pair := []string{homes[0].Heartbeat, homes[1].Heartbeat}
	slices.Sort(pair)
	b = expect(a.Beats(Row{}, ""), pair[0]+" full", pair[1]+" full")
	for i := range b {
		a.Answered(&b[i], &Answer{Version: 3})
	}
	b = expect(a.Beats(Row{}, ""), pair...)
	if seq := b[0].Heartbeat.Row.Seq; seq != 4 || b[1].Heartbeat.Row.Seq != seq || b[0].Heartbeat.Members != 3 {
		t.Errorf("beats %+v", b)
	}
	if !a.Answered(&b[0], &Answer{Full: true, Version: 3}) {
		t.Error("a frontend that wants the whole row is not served at once")
	}
	a.Answered(&b[1], &Answer{Version: 3})
	b = expect(a.Beats(Row{}, ""), pair[0]+" full", pair[1])
	if a.Answered(&b[0], &Answer{Full: true, Version: 3}) {
		t.Error("a frontend that has no room is served again and again")
	}
	a.SetProfile(Profile{Addr: "w:2"})
	b = expect(a.Beats(Row{}, ""), pair[0]+" full", pair[1]+" full")
	a.Answered(&b[1], &Answer{Version: 3})
	a.SetProfile(Profile{Addr: "w:2"}) // nothing new
	a.SetFiles(nil)
	b = expect(a.Beats(Row{}, ""), pair[0]+" full", pair[1])
	a.Failed(&b[0])
	a.Answered(&b[1], &Answer{Version: 3})
	third := func(b Beat) bool { return !slices.Contains(pair, b.Addr) }
	if b = a.Beats(Row{}, ""); len(b) != 3 || !slices.ContainsFunc(b, third) {
		t.Errorf("with a home that fails, beats go to %q", addrs(b))
	}
	tried := map[string]bool{}
	for range 20 {
		for _, beat := range a.Beats(Row{}, "") {
			a.Failed(&beat)
			tried[beat.Addr] = true
		}
	}
	if b = a.Beats(Row{}, ""); len(tried) != 6 || len(b) != 2 {
		t.Errorf("with all failing, beats went to %v, now %q", tried, addrs(b))
	}
	if _, err := NewAnnouncer(nil, Profile{}, 1); err == nil {
		t.Error("a worker without a name is accepted")
	}
}
