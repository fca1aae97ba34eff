package sim

import (
	"bytes"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestGrid(t *testing.T) {
	g := Grid{Tasks: []string{"1ms", "mixed"}, Prices: []time.Duration{0, 10 * time.Microsecond},
		Policies: GridPolicies()[:2], Jobs: 0.03, Seed: 5, Seeds: 2}
	last := 0.0
	cells, err := g.Run(t.Context(), func(share float64) {
		if share < last || share > 1+1e-9 {
			t.Errorf("progress went from %g to %g", last, share)
		}
		last = share
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(cells) != 2*2*3*2 || last < 1-1e-9 {
		t.Fatalf("%d cells, progress ended at %g", len(cells), last)
	}
	one := g
	one.Tasks, one.Prices, one.Policies, one.Seeds = []string{"mixed"}, g.Prices[1:], g.Policies[1:], 1
	var means float64
	for range 2 { // of the two seeds
		alone, err := one.Run(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		means += alone[2].Mean / 2
		one.Seed++
	}
	c := cells[len(cells)-1]
	if off := c.Mean/means - 1; c.Tasks != "mixed" || c.Load != 0.95 || c.PriceUS != 10 ||
		c.Policy != "phoebe-ridealong" || c.CPUUS < 10 || off*off > 1e-12 {
		t.Errorf("%+v, with a mean of %v", c, means)
	}

	var doc, text, same bytes.Buffer
	if err := WriteGridJSON(&doc, cells); err != nil {
		t.Fatal(err)
	}
	back, err := ReadGridJSON(&doc)
	if err != nil || !reflect.DeepEqual(back, cells) {
		t.Errorf("%v, %+v came back", err, back)
	}
	if err := WriteGridText(&text, cells, nil); err != nil || strings.Count(text.String(), "\n") != 1+2*2*3 ||
		!strings.Contains(text.String(), "-ridealong") {
		t.Errorf("%v\n%s", err, &text)
	}
	back[0].Mean /= 2
	if err := WriteGridText(&same, cells, back[:len(back)-1]); err != nil ||
		strings.Count(same.String(), "+100.0") != 1 || strings.Count(same.String(), "+0.0") != 3*len(cells)-4 ||
		strings.Count(same.String(), "?") != 3 {
		t.Errorf("%v\n%s", err, &same)
	}
	g.Tasks = []string{"1ms", "long"}
	if _, err := g.Run(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "long") {
		t.Error(err)
	}
}
