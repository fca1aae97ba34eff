package probe

import (
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestJobIDText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id := drawJobID(t)
		s := id.String()
		if len(s) != 26 {
			t.Fatalf("%q has %d characters", s, len(s))
		}
		for _, form := range []string{s, strings.ToLower(s)} {
			if got, err := ParseJobID(form); err != nil || got != id {
				t.Fatalf("ParseJobID(%q) = %v, %v; want %v", form, got, err, id)
			}
		}
	})
	// The example of the ULID specification, and both ends of the range.
	for s, want := range map[string]JobID{
		"01ARZ3NDEKTSV4RRFFQ69G5FAV": {0x01, 0x56, 0x3e, 0x3a, 0xb5, 0xd3, 0xd6, 0x76, 0x4c, 0x61, 0xef, 0xb9, 0x93,
			0x02, 0xbd, 0x5b},
		"00000000000000000000000000": {},
		"7ZZZZZZZZZZZZZZZZZZZZZZZZZ": {255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255},
	} {
		if got, err := ParseJobID(s); err != nil || got != want || got.String() != s {
			t.Errorf("%s: %x, prints %v, %v", s, got[:], got, err)
		}
	}
	for _, s := range []string{
		"", "01ARZ3NDEKTSV4RRFFQ69G5FA", "01ARZ3NDEKTSV4RRFFQ69G5FAVV", // length
		"81ARZ3NDEKTSV4RRFFQ69G5FAV",                                                             // over 128 bits
		"01ARZ3NDEKTSV4RRFFQ69G5FAU", "01ARZ3NDEKTSV4RRFFQ69G5FAi", "01ARZ3NDEKTSV4RRFFQ69G5-AV", // alphabet
		"01ARZ3NDEKTSV4RRFFQ69G5FÄ", "01ARZ3NDEKTSV4RRFFQ69G5F\x00V",
	} {
		if id, err := ParseJobID(s); err == nil {
			t.Errorf("ParseJobID(%q) = %v, want an error", s, id)
		}
	}
}

func TestNewJobID(t *testing.T) {
	// 1469918176385 ms is the time in the example of the ULID specification's timestamp, 01ARYZ6S41.
	id := NewJobID(1469918176385, math.MaxUint64, 0)
	if s := id.String(); !strings.HasPrefix(s, "01ARYZ6S41") {
		t.Errorf("the time prints as %s", s)
	}
	if a, b := NewJobID(1, math.MaxUint64, math.MaxUint64), NewJobID(2, 0, 0); a.String() >= b.String() {
		t.Errorf("%v is not before %v", a, b)
	}
}

func TestAttemptIDText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id := AttemptID{FrontendID(rapid.Uint64().Draw(t, "frontend")), rapid.Uint64().Draw(t, "seq")}
		if got, err := ParseAttemptID(id.String()); err != nil || got != id {
			t.Fatalf("ParseAttemptID(%q) = %v, %v", id, got, err)
		}
	})
	if s := (AttemptID{0xab, 0x1f}).String(); s != "00000000000000ab-1f" {
		t.Errorf("prints as %s", s)
	}
	for _, s := range []string{
		"", "-", "00000000000000ab", "00000000000000ab-", "-1f", "ab-1f", "00000000000000000ab-1f",
		"00000000000000ag-1f", "00000000000000ab-1g", "00000000000000ab--1", "00000000000000ab-+1",
		"00000000000000ab-10000000000000000", "00000000000000ab-1f-1", " 00000000000000ab-1f",
	} {
		if id, err := ParseAttemptID(s); err == nil {
			t.Errorf("ParseAttemptID(%q) = %v, want an error", s, id)
		}
	}
}

func TestDemand(t *testing.T) {
	const many = math.MaxInt
	for _, c := range []struct {
		d, room Demand
		times   int
	}{
		{Demand{1000, 256}, Demand{4000, 1024}, 4},
		{Demand{1000, 256}, Demand{4000, 1023}, 3},
		{Demand{1000, 256}, Demand{3999, 8192}, 3},
		{Demand{1000, 256}, Demand{1000, 256}, 1},
		{Demand{1000, 256}, Demand{999, 256}, 0},
		{Demand{1000, 256}, Demand{}, 0},
		{Demand{1000, 256}, Demand{-500, 1024}, 0},
		{Demand{1000, 256}, Demand{4000, -1024}, 0},
		{Demand{0, 256}, Demand{0, 1024}, 4},
		{Demand{1000, 0}, Demand{4000, 0}, 4},
		{Demand{}, Demand{}, many},
		{Demand{1, 1}, Demand{math.MaxInt32, math.MaxInt32}, math.MaxInt32},
	} {
		if got := c.d.Times(c.room); got != c.times {
			t.Errorf("(%v).Times(%v) = %d, want %d", c.d, c.room, got, c.times)
		}
		if got, want := c.d.Fits(c.room), c.times > 0; got != want {
			t.Errorf("(%v).Fits(%v) = %v, want %v", c.d, c.room, got, want)
		}
	}
	d, e := Demand{1000, 256}, Demand{500, 512}
	if sum := d.Add(e); sum != (Demand{1500, 768}) || sum.Sub(e) != d {
		t.Errorf("%v + %v = %v", d, e, sum)
	}
}

func TestReasonNames(t *testing.T) {
	seen := map[string]bool{}
	for r := range Reason(len(reasonNames)) {
		if s := r.String(); s == "" || seen[s] {
			t.Errorf("reason %d is called %q", r, s)
		}
		seen[r.String()] = true
	}
	if n := countConsts(t, "Reason"); n != len(reasonNames)-1 {
		t.Errorf("%d reasons, %d names", n, len(reasonNames)-1)
	}
	if s := Reason(200).String(); s != "unknown_reason" {
		t.Errorf("reason 200 is called %q", s)
	}
}

// The id of a job with a key belongs to its tenant alone, and differs from the ids of other keys and tenants. Other ids
// belong to anybody.
func TestKeyedJobID(t *testing.T) {
	ids := map[JobID]bool{}
	for _, tenant := range []string{"", "a", "a/b", "b"} {
		for _, key := range []string{"", "b", "order 18"} {
			id := KeyedJobID(tenant, key)
			ids[id] = true
			for _, other := range []string{"", "a", "a/b", "b"} {
				if got := id.MayBelongTo(other); got != (other == tenant) {
					t.Errorf("key %q of tenant %q may belong to %q: %v", key, tenant, other, got)
				}
			}
		}
	}
	if len(ids) != 12 {
		t.Errorf("%d ids for 12 keys", len(ids))
	}
	if id := NewJobID(1<<47-1, 1<<64-1, 1<<64-1); !id.MayBelongTo("a") {
		t.Errorf("the last id without a key, %v, belongs to nobody", id)
	}
}
