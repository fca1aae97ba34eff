package rows

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"
	"time"
)

// All frontends end with the latest terms, whatever terms each had at first, and although messages are lost. If two
// texts share a revision, all frontends choose the same text.
func TestTermsSpread(t *testing.T) {
	for seed := range uint64(20) {
		chance, now := rand.New(rand.NewPCG(seed, 1)), time.Unix(1000, 0)
		var list []Member
		for i := range 5 {
			list = append(list, Member{Name: string(rune('a' + i)), Run: 1})
		}
		cores := map[string]*Core{}
		for i, m := range list {
			c := New(DefaultConfig, m, now, rand.New(rand.NewPCG(seed, uint64(i))))
			c.SetMembers(list)
			cores[m.Name] = c
			if r := chance.Uint64N(3); r > 0 {
				c.SetTerms(Terms{r, []byte{byte(chance.Uint64N(2))}})
			}
		}
		cores["a"].SetTerms(Terms{2, []byte("a")})
		cores["b"].SetTerms(Terms{2, []byte("b")})
		type mail struct {
			from string
			Send
		}
		for range 400 {
			now = now.Add(FlushEvery)
			var post []mail
			for _, m := range list {
				for _, s := range cores[m.Name].Tick(now, nil) {
					post = append(post, mail{m.Name, s})
				}
			}
			for len(post) > 0 {
				p := post[0]
				post = post[1:]
				for _, m := range list {
					if m.Name == p.from || p.To != "" && p.To != m.Name || chance.IntN(3) == 0 {
						continue
					}
					out, err := cores[m.Name].Receive(now, p.Msg, nil)
					if err != nil {
						t.Fatal(err)
					}
					for _, s := range out {
						post = append(post, mail{m.Name, s})
					}
				}
			}
		}
		want := cores["a"].Terms()
		if want.Revision != 2 {
			t.Fatalf("seed %d: revision %d", seed, want.Revision)
		}
		for name, c := range cores {
			if got := c.Terms(); got.Revision != want.Revision || string(got.Text) != string(want.Text) {
				t.Errorf("seed %d: %s has %+v, a has %+v", seed, name, got, want)
			}
		}
	}
}

// Garbage changes nothing, nor does an overlong text.
func TestTermsGarbage(t *testing.T) {
	c := New(DefaultConfig, Member{Name: "a", Run: 1}, time.Unix(1000, 0), rand.New(rand.NewPCG(1, 1)))
	c.SetTerms(Terms{3, []byte("x")})
	other := New(DefaultConfig, Member{Name: "b", Run: 1}, time.Unix(1000, 0), rand.New(rand.NewPCG(1, 1)))
	for _, msg := range [][]byte{
		other.msgHeader(msgTerms), other.msgHeader(msgHave), append(other.msgHeader(msgHave), 4, 1, 2),
		append(append(other.msgHeader(msgTerms), 4), make([]byte, MaxTerms+1)...),
	} {
		if out, _ := c.Receive(time.Unix(1000, 0), msg, nil); len(out) > 0 || c.Terms().Revision != 3 {
			t.Errorf("%.20q: %v", msg, out)
		}
	}
}

// A revision far above the terms in use cannot spread: no later file could ever have a higher revision.
func TestTermsOutOfReach(t *testing.T) {
	newCore := func(name string) *Core {
		return New(DefaultConfig, Member{Name: name, Run: 1}, time.Unix(1000, 0), rand.New(rand.NewPCG(1, 1)))
	}
	c, other := newCore("a"), newCore("b")
	terms := func(revision uint64) []byte {
		return append(binary.AppendUvarint(other.msgHeader(msgTerms), revision), 'y')
	}
	receive := func(msg []byte) []Send {
		t.Helper()
		out, err := c.Receive(time.Unix(1000, 0), msg, nil)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	const first = 20261124
	receive(terms(first)) // a new frontend takes any revision
	have := append(binary.AppendUvarint(other.msgHeader(msgHave), MaxRevision), make([]byte, 8)...)
	if out := receive(have); len(out) > 0 {
		t.Errorf("asked for terms out of reach: %v", out)
	}
	receive(terms(first + MaxRevisionStep + 1))
	if got, far := c.Terms().Revision, c.FarRevision(); got != first || far != first+MaxRevisionStep+1 {
		t.Errorf("after a jump: revision %d, out of reach %d", got, far)
	}
	receive(terms(first + MaxRevisionStep))
	if got := c.Terms().Revision; got != first+MaxRevisionStep {
		t.Errorf("after the highest step: revision %d", got)
	}
	if _, err := c.Receive(time.Unix(1000, 0), terms(MaxRevision+1), nil); err == nil {
		t.Error("took a revision above all")
	}
}
