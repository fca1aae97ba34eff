package shallow

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
)

// indented returns keys, each in the mapping of the key before.
func indented(levels int) string {
	var b strings.Builder
	for i := range levels {
		fmt.Fprintf(&b, "%*sa:\n", i, "")
	}
	return b.String()
}

// A text of deep nesting is refused, however the levels are written, and before the parser sees them.
func TestDeepTexts(t *testing.T) {
	const many = 100_000
	for name, text := range map[string]string{
		"lists":             strings.Repeat("[", many),
		"mappings":          strings.Repeat("{", many),
		"keys":              strings.Repeat("{a: ", many),
		"lists below a key": "tasks: " + strings.Repeat("[", many),
		"closed lists":      strings.Repeat("[", MaxLevels+1) + strings.Repeat("]", MaxLevels+1),
		"dashes":            strings.Repeat("- ", many),
		"indentation":       indented(1000),
		"tags":              strings.Repeat("!a\n", many),
		"anchors":           strings.Repeat("!a\n&a\n", many),
		"tags of lists":     strings.Repeat("!a [", many),
	} {
		_, err := Parse([]byte(text))
		if want := "nested more than 100 levels deep: nest less"; err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %.300v, want %q", name, err, want)
		}
	}
	if _, err := Parse([]byte(strings.Repeat("---\na\n", many))); err == nil ||
		!strings.Contains(err.Error(), "more than 100 documents: write a single document") {
		t.Errorf("documents: %.300v", err)
	}
}

// A long text of few levels is read, as is a text of MaxLevels.
func TestShallowTexts(t *testing.T) {
	for name, text := range map[string]string{
		"most":           strings.Repeat("[", MaxLevels) + strings.Repeat("]", MaxLevels),
		"list":           "[" + strings.Repeat("[a], {b: !!str c}, ", 1000) + "]",
		"keys of a line": "{a: [{b: c}, d], e: {f: [g], h: i}, j: k}",
		"entries":        strings.Repeat("- a: {b: c}\n  d: # [[[\n  - !!str e\n  - f: &g h\n", 1000),
		"block":          "a: |\n  " + strings.Repeat("[{- ", 1000) + "\nb: '" + strings.Repeat("[{- ", 1000) + "'\n",
		"tagged":         strings.Repeat("- !!map\n  !!str a: !!str b\n  !!str c: &d !!str d\n", 1000),
	} {
		f, err := Parse([]byte("\ufeff" + text))
		if err != nil || len(f.Docs) != 1 || f.Docs[0].Body == nil {
			t.Errorf("%s: %.300v", name, err)
		}
	}
}

// A text of very many marks is refused before the scanner makes a token of each mark, which takes 250 bytes.
func TestManyMarks(t *testing.T) {
	for name, text := range map[string]string{
		"brackets":      strings.Repeat("[", 64<<20),
		"lines":         strings.Repeat("[\n", maxMarks+1),
		"values":        "[" + strings.Repeat("a,", maxMarks),
		"document ends": strings.Repeat("...\n", maxMarks+2),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := Parse([]byte(text))
		runtime.ReadMemStats(&after)
		want := "more than 2097152 brackets, commas, quotes and other marks"
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %.300v, want %q", name, err, want)
		}
		if took := (after.TotalAlloc - before.TotalAlloc) >> 20; took > uint64(len(text)>>20)+16 {
			t.Errorf("%s of %d MiB: %d MiB were allocated", name, len(text)>>20, took)
		}
	}
}
