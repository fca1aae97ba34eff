package units

import (
	"encoding/json"
	"os"
	"testing"
	"time"
)

// Each text is as in the table that the page is checked against, too (frontend/ui/test/format.test.mjs).
func TestExamples(t *testing.T) {
	text, err := os.ReadFile("testdata/examples.json")
	if err != nil {
		t.Fatal(err)
	}
	var table struct{ Times, About, Rates [][2]any }
	if err := json.Unmarshal(text, &table); err != nil {
		t.Fatal(err)
	}
	if len(table.Times) == 0 || len(table.About) == 0 || len(table.Rates) == 0 {
		t.Error("examples are missing")
	}
	for _, x := range table.Times {
		if got := Time(time.Duration(x[0].(float64))); got != x[1] {
			t.Errorf("%v ns: %q, want %q", x[0], got, x[1])
		}
	}
	for _, x := range table.About {
		if got := About(time.Duration(x[0].(float64))); got != x[1] {
			t.Errorf("%v ns: %q, want %q", x[0], got, x[1])
		}
	}
	for _, x := range table.Rates {
		if got := Rate(x[0].(float64)); got != x[1] {
			t.Errorf("%v in a second: %q, want %q", x[0], got, x[1])
		}
	}
}
