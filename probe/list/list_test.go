package list

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

type item struct {
	n    int
	node Node[*item]
}

func (x *item) Links() *Node[*item] { return &x.node }

// A list behaves like a slice.
func TestList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		items := make([]*item, 8)
		for i := range items {
			items[i] = &item{n: i}
		}
		var l List[*item]
		var model []*item
		any := rapid.SampledFrom(items)
		t.Repeat(map[string]func(*rapid.T){
			"push": func(t *rapid.T) {
				if x := any.Draw(t, "item"); !Has(x) {
					l.Push(x)
					model = append(model, x)
				}
			},
			"push front": func(t *rapid.T) {
				if x := any.Draw(t, "item"); !Has(x) {
					l.PushFront(x)
					model = slices.Insert(model, 0, x)
				}
			},
			"insert": func(t *rapid.T) {
				x, after := any.Draw(t, "item"), any.Draw(t, "after")
				if !Has(x) && Has(after) {
					l.InsertAfter(after, x)
					model = slices.Insert(model, slices.Index(model, after)+1, x)
				}
			},
			"remove": func(t *rapid.T) {
				x := any.Draw(t, "item")
				l.Remove(x)
				model = slices.DeleteFunc(model, func(y *item) bool { return y == x })
			},
			"pop": func(t *rapid.T) {
				if len(model) > 0 {
					if x := l.Pop(); x != model[0] {
						t.Fatalf("popped %d, not %d", x.n, model[0].n)
					}
					model = model[1:]
				}
			},
			"remove while walking": func(t *rapid.T) {
				x := any.Draw(t, "item")
				for y := range l.All() {
					if y == x {
						l.Remove(y)
					}
				}
				model = slices.DeleteFunc(model, func(y *item) bool { return y == x })
			},
			"": func(t *rapid.T) {
				if got := slices.Collect(l.All()); !slices.Equal(got, model) || l.Len() != len(model) {
					t.Fatalf("%d items %v, want %v", l.Len(), got, model)
				}
				var back []*item
				for x := l.Last(); x != nil; x = l.Prev(x) {
					back = append(back, x)
				}
				slices.Reverse(back)
				if !slices.Equal(back, model) || len(model) > 1 && l.Next(l.First()) != model[1] ||
					len(model) > 0 && l.First() != model[0] {
					t.Fatalf("backwards %v, want %v", back, model)
				}
				for _, x := range items {
					if Has(x) != slices.Contains(model, x) {
						t.Fatalf("item %d is listed: %t", x.n, Has(x))
					}
				}
			},
		})
	})
}
