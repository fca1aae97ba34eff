package rows

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func newNeedersNet(n int) []*Core {
	var list []Member
	for i := range n {
		list = append(list, Member{Name: string(rune('a' + i)), Run: 1})
	}
	cores := make([]*Core, n)
	for i, m := range list {
		cores[i] = New(DefaultConfig, m, time.Unix(1000, 0), rand.New(rand.NewPCG(1, uint64(i))))
		cores[i].SetMembers(list)
	}
	return cores
}

func deliver(t *testing.T, to *Core, sends []Send) {
	t.Helper()
	for _, s := range sends {
		if len(s.Msg) > MaxPacket {
			t.Errorf("a message of %d bytes", len(s.Msg))
		}
		if _, err := to.Receive(time.Unix(1000, 0), s.Msg, nil); err != nil {
			t.Fatal(err)
		}
	}
}

func needsOf(c *Core, name string) []Need {
	needs, _ := c.Needs(time.Unix(1000, 0), time.Second)
	return needs[name]
}

// A present frontend is silent if it stops telling its needs, even without any need.
func TestNeedsSilent(t *testing.T) {
	cs := newNeedersNet(3)
	a, b := cs[0], cs[1]
	silentAt := func(sec int64) []string {
		_, silent := b.Needs(time.Unix(sec, 0), 3*time.Second)
		return silent
	}
	if silent := silentAt(1010); silent != nil {
		t.Errorf("%q, who never told anything", silent)
	}
	for _, s := range a.TellNeeds(nil, nil) {
		if _, err := b.Receive(time.Unix(1010, 0), s.Msg, nil); err != nil {
			t.Fatal(err)
		}
	}
	if silent := silentAt(1013); silent != nil {
		t.Errorf("%q after 3 s", silent)
	}
	if silent := silentAt(1014); !slices.Equal(silent, []string{"a"}) {
		t.Errorf("%q after 4 s", silent)
	}
	b.SetMembers([]Member{{Name: "a", Run: 2}})
	if silent := silentAt(1015); silent != nil {
		t.Errorf("%q of an earlier run", silent)
	}
}

// A frontend that gossip gave up by mistake may be back at once. Its needs are then as before, and the frontend is
// silent until it tells its needs again.
func TestNeedsOfReturner(t *testing.T) {
	cs := newNeedersNet(2)
	a, b := cs[0], cs[1]
	members := slices.Clone(b.Members())
	deliver(t, b, a.TellNeeds([]Need{{Path: "x"}}, nil))
	b.SetMembers(nil)
	if needs, silent := b.Needs(time.Unix(1004, 0), 3*time.Second); len(needs) > 0 || len(silent) > 0 {
		t.Errorf("of a lost frontend: needs %v, silent %q", needs, silent)
	}
	b.SetMembers(members)
	needs, silent := b.Needs(time.Unix(1004, 0), 3*time.Second)
	if len(needs["a"]) != 1 || !slices.Equal(silent, []string{"a"}) {
		t.Errorf("of a frontend that is back: needs %v, silent %q", needs, silent)
	}
	b.SetMembers(nil)
	b.Needs(time.Unix(1001, 0).Add(keepNeedsFor), 3*time.Second)
	if b.SetMembers(nil); len(b.needs) > 0 {
		t.Errorf("after that time, the needs of %d are kept", len(b.needs))
	}
}

// The needs of a frontend may take several messages. A need left out twice is forgotten. All needs are forgotten if
// the frontend restarts.
func TestNeeds(t *testing.T) {
	cs := newNeedersNet(2)
	a, b := cs[0], cs[1]
	var list []Need
	for i := range 256 {
		list = append(list, Need{fmt.Sprintf("tenant-%d/of/some/length", i), [5]int64{int64(i), 2, 3, 4, 1 << 60}})
	}
	first := a.TellNeeds(list, nil)
	deliver(t, b, first)
	needs := needsOf(b, "a")
	if len(needs) != len(list) {
		t.Fatalf("%d of %d", len(needs), len(list))
	}
	for _, n := range needs {
		if n != list[n.Counts[0]] {
			t.Errorf("%+v", n)
		}
	}
	deliver(t, b, a.TellNeeds(list[:1], nil))
	if n := len(needsOf(b, "a")); n != len(list) {
		t.Errorf("%d after one time", n)
	}
	deliver(t, b, a.TellNeeds(nil, nil))
	if n := len(needsOf(b, "a")); n != 1 {
		t.Errorf("%d after the next time", n)
	}
	deliver(t, b, first)
	deliver(t, b, a.TellNeeds(nil, nil))
	if n := len(needsOf(b, "a")); n != 0 {
		t.Errorf("%d: it has been told before", n)
	}
	deliver(t, b, a.TellNeeds(list, nil))
	b.SetMembers([]Member{{Name: "a", Run: 2}})
	if n := len(needsOf(b, "a")); n != 0 {
		t.Errorf("%d of another run", n)
	}
	deliver(t, b, first) // of the earlier run
	if n := len(needsOf(b, "a")); n != 0 {
		t.Errorf("%d of an earlier run", n)
	}
}

// Garbage is an error, and leaves the known needs alone.
func TestNeedsGarbage(t *testing.T) {
	cs := newNeedersNet(2)
	msg := cs[0].TellNeeds([]Need{{"x", [5]int64{1, 2, 3, 4, 5}}}, nil)[0].Msg
	for n := range len(msg) {
		_, _ = cs[1].Receive(time.Unix(1000, 0), msg[:n], nil)
		if got := needsOf(cs[1], "a"); len(got) > 0 {
			t.Fatalf("%d bytes of %d: %+v", n, len(msg), got)
		}
	}
}
