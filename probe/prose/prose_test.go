package prose

import (
	"bufio"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const root = "../.."

var lower = flag.Bool("lower", false, "lower the ceilings to what the tree has, where the tree is better")

// ceiling bounds the shares of a row, in hundredths of percent.
type ceiling struct{ pronouns, hard, clotted, oneWord, long int }

// goals bound every row, also rows without a line in ceilings.txt.
var goals = ceiling{pronouns: 600, hard: 600, clotted: 200, oneWord: 2000, long: 30}

// models is what the best of the code bases reach that people hold up as models. No ceiling is lower, because a share
// of few words jumps with each of them.
var models = ceiling{pronouns: 430, hard: 200, clotted: 50, oneWord: 700, long: 10}

const ceilingsFile = "ceilings.txt"

// TestProse holds each row to its ceiling. Ceilings only fall: -lower writes better figures into ceilings.txt.
func TestProse(t *testing.T) {
	tree, err := Read(root)
	if err != nil {
		t.Fatal(err)
	}
	ceilings := readCeilings(t)
	for _, row := range slices.Sorted(maps.Keys(ceilings)) {
		if tree.Counts[row] == nil {
			t.Errorf("%s: %s is gone: delete its line", ceilingsFile, row)
		}
	}
	for _, row := range slices.Sorted(maps.Keys(tree.Counts)) {
		c := tree.Counts[row]
		is, may := measure(c), goals
		if known, ok := ceilings[row]; ok {
			may = known
		}
		check := func(what string, is, may, allowed, count int, kind Kind) {
			if is <= may || count <= allowed { // in a small row a single finding is a large share
				return
			}
			t.Errorf("%s: %s %s, ceiling %s; see below", row, what, percent(is), percent(may))
			for i := range c.Findings {
				if f := &c.Findings[i]; f.Kind == kind {
					t.Log(f)
				}
			}
		}
		check("hard sentences", is.hard, may.hard, 1, c.CountOf(Hard), Hard)
		check("clotted sentences", is.clotted, may.clotted, 1, c.CountOf(Clotted), Clotted)
		check("one-word functions", is.oneWord, may.oneWord, 2, c.CountOf(OneWord), OneWord)
		check("long lines", is.long, may.long, 1, c.CountOf(Long), Long)
		if is.pronouns > may.pronouns && c.Sentences > 20 {
			t.Errorf("%s: pronouns %s, ceiling %s: name nouns again", row, percent(is.pronouns), percent(may.pronouns))
		}
		if *lower {
			lowered := func(is, may, model int) int { return min(max(is, model), may) }
			ceilings[row] = ceiling{
				pronouns: lowered(is.pronouns, may.pronouns, models.pronouns),
				hard:     lowered(is.hard, may.hard, models.hard),
				clotted:  lowered(is.clotted, may.clotted, models.clotted),
				oneWord:  lowered(is.oneWord, may.oneWord, models.oneWord),
				long:     lowered(is.long, may.long, models.long),
			}
		}
	}
	if *lower {
		writeCeilings(t, ceilings)
	}
}

func measure(c *Count) ceiling {
	share := func(n, total int) int { return (n*10_000 + max(total, 1) - 1) / max(total, 1) } // rounded up
	return ceiling{
		pronouns: share(c.Pronouns, c.Words),
		hard:     share(c.CountOf(Hard), c.Sentences), clotted: share(c.CountOf(Clotted), c.Sentences),
		oneWord: share(c.CountOf(OneWord), c.Functions), long: share(c.CountOf(Long), c.Lines),
	}
}

func percent(hundredths int) string { return fmt.Sprintf("%.2f %%", float64(hundredths)/100) }

func readCeilings(t *testing.T) map[string]ceiling {
	t.Helper()
	f, err := os.Open(ceilingsFile)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	ceilings := map[string]ceiling{}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "#") {
			continue
		}
		var row string
		var c ceiling
		if _, err := fmt.Sscan(lines.Text(), &row, &c.pronouns, &c.hard, &c.clotted, &c.oneWord, &c.long); err != nil {
			t.Fatalf("%s: %q: %v", ceilingsFile, lines.Text(), err)
		}
		ceilings[row] = c
	}
	return ceilings
}

func writeCeilings(t *testing.T, ceilings map[string]ceiling) {
	t.Helper()
	var b strings.Builder
	b.WriteString("# Ceilings in hundredths of percent: pronouns, hard, clotted, one-word functions, long lines.\n")
	b.WriteString("# They only fall: go test ./probe/prose -run TestProse -lower\n")
	for _, row := range slices.Sorted(maps.Keys(ceilings)) {
		c := ceilings[row]
		fmt.Fprintf(&b, "%-32s %4d %4d %4d %5d %4d\n", row, c.pronouns, c.hard, c.clotted, c.oneWord, c.long)
	}
	if err := os.WriteFile(ceilingsFile, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

// glossary lists words that identifiers do without, with the words to use.
var glossary = []struct{ word, where, remedy string }{
	{"told", "any", "say who learns what: noteMatrix, commonSent"},
	{"dear", "any", "say what costs: messagesMayWait"},
	{"hurry", "any", "say what comes soon: recheckSoon"},
	{"lone", "any", "stranded, siteless"},
	{"unfit", "any", "whyCannotRun"},
	{"over", "alone", "ended, closed, endAttempt"},
	{"left", "first", "unfinished, timeLeft: left is a suffix"},
	{"of", "alone", "name the noun: tenant, values"},
	{"whose", "alone", "name the owner"},
	{"its", "alone", "name the noun"},
	{"those", "alone", "name the noun"},
}

// wireNames are names outside of the glossary that messages, stories, JSON or callers keep, by file.
var wireNames = map[string][]string{
	"probe/messages.go":        {"Left"},
	"probe/gossip/rows/row.go": {"Left"},
	"probe/lent/lent.go":       {"Of"},
	"bench/simreport.go":       {"Over"},
	"frontend/ui/questions.go": {"LeftOut"},
}

// TestGlossary holds all identifiers to the glossary: one word means one thing.
func TestGlossary(t *testing.T) {
	tree, err := Read(root)
	if err != nil {
		t.Fatal(err)
	}
	pairs := map[string]bool{} // files with a right, which has a left
	for _, name := range tree.Names {
		pairs[name.File] = pairs[name.File] || SplitName(name.Ident)[0] == "right"
	}
	for _, name := range tree.Names {
		if slices.Contains(wireNames[name.File], name.Ident) {
			continue
		}
		words := SplitName(name.Ident)
		for _, g := range glossary {
			found := slices.Contains(words, g.word)
			switch g.where {
			case "alone":
				found = found && len(words) == 1
			case "first":
				found = found && words[0] == g.word && !pairs[name.File]
			}
			if found {
				t.Errorf("%s:%d: %s: %q is not in the glossary: %s", name.File, name.Line, name.Ident, g.word, g.remedy)
			}
		}
	}
}

// TestWhereIs finds each function that the package docs of frontend and worker name under "Where is ...".
func TestWhereIs(t *testing.T) {
	place := regexp.MustCompile(`([\w/]+\.go), (?:(\w+)\.)?(\w+)`)
	for _, dir := range []string{"frontend", "worker"} {
		text, err := os.ReadFile(filepath.Join(root, dir, "doc.go"))
		if err != nil {
			t.Fatal(err)
		}
		_, section, found := strings.Cut(string(text), "# Where is ...\n")
		if !found {
			t.Errorf("%s/doc.go has no section \"Where is ...\"", dir)
			continue
		}
		questions, unanswered := 0, false
		for line := range strings.Lines(strings.TrimPrefix(section, "//\n")) {
			if !strings.HasPrefix(line, "//\t") {
				break
			}
			matches := place.FindAllStringSubmatch(line, -1)
			switch {
			case strings.Contains(line, "?"):
				if unanswered {
					t.Errorf("%s/doc.go: the question before %q has no answer", dir, line)
				}
				questions++
				unanswered = matches == nil
			case matches != nil:
				unanswered = false
			}
			if matches == nil && !strings.HasSuffix(line, "?\n") {
				t.Errorf("%s/doc.go: %q names no function", dir, line)
			}
			for _, m := range matches {
				source, err := os.ReadFile(filepath.Join(root, dir, m[1]))
				receiver := ""
				if m[2] != "" {
					receiver = `\(\w+ \*?` + m[2] + `(\[\w+\])?\) `
				}
				if err != nil || !regexp.MustCompile(`(?m)^func `+receiver+m[3]+`[\[(]`).Match(source) {
					t.Errorf("%s/doc.go: %s has no function %s: correct the answer", dir, m[1], m[3])
				}
			}
		}
		if unanswered {
			t.Errorf("%s/doc.go: the last question has no answer", dir)
		}
		if questions < 12 {
			t.Errorf("%s/doc.go answers %d questions, want 12", dir, questions)
		}
	}
}

func TestSentences(t *testing.T) {
	for _, test := range []struct {
		text                            string
		sentences, hard, clotted, words int
	}{
		{"// The worker stops spare tasks. A reservation asks first.", 2, 0, 0, 9},
		{"// Too short.", 0, 0, 0, 0},
		{"// It is what they have of those which it was told of.", 1, 1, 1, 12},
		{"x := 1 // the worker stops spare tasks", 1, 0, 0, 5},
		{`x := "http://a" // the worker stops spare tasks`, 1, 0, 0, 5},
		{`x := "a // the worker stops spare tasks"`, 0, 0, 0, 0},
		{"// - the worker stops tasks\n// - the worker starts tasks", 2, 0, 0, 8},
		{"//go:build linux and one two three", 0, 0, 0, 0},
	} {
		var c Count
		c.addComments("a.go", test.text, "//", true)
		got := [...]int{c.Sentences, c.CountOf(Hard), c.CountOf(Clotted), c.Words}
		if want := [...]int{test.sentences, test.hard, test.clotted, test.words}; got != want {
			t.Errorf("%q: sentences, hard, clotted, words are %v, want %v", test.text, got, want)
		}
	}
}

func TestSplitName(t *testing.T) {
	for name, want := range map[string]string{
		"told": "told", "endAttempt": "end attempt", "isStranded": "is stranded",
		"HTTPServer": "http server", "toURL": "to url", "w0Fails": "w0 fails",
	} {
		if got := strings.Join(SplitName(name), " "); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}
