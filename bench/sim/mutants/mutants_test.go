package mutants

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// root is the module's, as seen from this package.
const root = "../../.."

// mutant is a core that breaks one rule.
type mutant struct {
	rule     string // that it breaks
	file     string // from the root
	old, new string // what is replaced, by what; old occurs in the file exactly once
}

// name is the rule as a subtest's name, so that -run finds it.
func (m *mutant) name() string { return m.core() + "/" + strings.ReplaceAll(m.rule, " ", "_") }

// core is the folder of the core that the mutant is of: the rooms of the frontend's have its tests.
func (m *mutant) core() string {
	switch dir := filepath.Dir(m.file); dir {
	case "frontend/view", "frontend/jobs", "frontend/place", "frontend/ledger":
		return "frontend"
	default:
		return dir
	}
}

// apply is the mutated file.
func (m *mutant) apply() ([]byte, error) {
	text, err := os.ReadFile(filepath.Join(root, m.file))
	if err != nil {
		return nil, err
	}
	if n := strings.Count(string(text), m.old); n != 1 {
		return nil, fmt.Errorf("%s has the text %q %d times: this mutant is stale, choose its text anew", m.file, m.old, n)
	}
	return []byte(strings.Replace(string(text), m.old, m.new, 1)), nil
}

// suite is tests that may notice a mutant: what go test is told.
type suite struct {
	name string
	args []string
}

// suites are those that a core must pass, the quickest first.
func suites(core string) []suite {
	others := []string{"./" + core}
	if core == "frontend" {
		others = append(others, "./frontend/place", "./frontend/view")
	}
	others = append(others, "-skip", "^TestScripts$")
	if core == "worker" { // the same histories each time, and no traces of those that fail
		others = append(others, "-rapid.seed=1", "-rapid.nofailfile", "-rapid.shrinktime=0s")
	}
	return []suite{
		{"scripts", []string{"./" + core, "-run", "^TestScripts$"}},
		{"other tests", others},
		{"stories", []string{"./bench/sim", "-run", "^TestStories$"}},
		{"faults", []string{"./bench/sim", "-run", "^TestFaults$"}},
	}
}

// TestTable finds mutants that no longer fit the code.
func TestTable(t *testing.T) {
	names := map[string]bool{}
	for _, m := range table {
		if _, err := m.apply(); err != nil {
			t.Errorf("%s: %v", m.rule, err)
		}
		if names[m.name()] || m.old == m.new {
			t.Errorf("%s: in the table twice, or changes nothing", m.rule)
		}
		names[m.name()] = true
	}
}

// TestMutants lets the tests loose on each mutant. It takes minutes, so it must be asked for: PHOEBE_MUTANTS=1. The
// tree is not touched: mutants are compiled by way of an overlay.
func TestMutants(t *testing.T) {
	if os.Getenv("PHOEBE_MUTANTS") == "" {
		t.Skip("PHOEBE_MUTANTS is not set")
	}
	for _, core := range []string{"worker", "frontend"} {
		for _, s := range suites(core) {
			if out, err := run(s, ""); err != nil {
				t.Fatalf("without a mutant, the %s of %s fail: %v\n%s", s.name, core, err, out)
			}
		}
	}
	caught := map[string]int{}
	for _, m := range table {
		t.Run(m.name(), func(t *testing.T) {
			overlay := m.overlay(t)
			if out, err := command("build", "-overlay", overlay, "./"+m.core()); err != nil {
				t.Fatalf("the mutant does not compile: %v\n%s", err, out)
			}
			for _, s := range suites(m.core()) {
				out, err := run(s, overlay)
				var exit *exec.ExitError
				switch {
				case err == nil:
					continue
				case !errors.As(err, &exit) || len(failures(out)) == 0:
					t.Fatalf("the %s did not run: %v\n%s", s.name, err, out)
				}
				caught[s.name]++
				t.Logf("caught by the %s: %s", s.name, strings.Join(failures(out), ", "))
				return
			}
			t.Errorf("survives: nothing notices that %s no longer holds:\n%s\nbecame\n%s", m.file, m.old, m.new)
		})
	}
	t.Logf("caught, of %d: %v", len(table), caught)
}

// overlay writes the mutant where the go command can find it.
func (m *mutant) overlay(t *testing.T) string {
	text, err := m.apply()
	if err != nil {
		t.Fatal(err)
	}
	real, err := filepath.Abs(filepath.Join(root, m.file))
	if err != nil {
		t.Fatal(err)
	}
	mutated, overlay := filepath.Join(t.TempDir(), filepath.Base(m.file)), filepath.Join(t.TempDir(), "overlay.json")
	index, err := json.Marshal(map[string]map[string]string{"Replace": {real: mutated}})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.WriteFile(mutated, text, 0o600), os.WriteFile(overlay, index, 0o600)); err != nil {
		t.Fatal(err)
	}
	return overlay
}

// run runs the tests of a suite, with an overlay if one is named.
func run(s suite, overlay string) (string, error) {
	args := []string{"test", "-vet=off"}
	if overlay != "" {
		args = append(args, "-overlay", overlay)
	}
	return command(append(args, s.args...)...)
}

func command(args ...string) (string, error) {
	cmd := exec.Command("go", args...)
	cmd.Dir = root
	out, err := cmd.CombinedOutput()
	return string(out), err
}

var failed = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)`)

// failures are the tests that failed, by the names of the innermost ones.
func failures(out string) []string {
	var names []string
	for _, match := range failed.FindAllStringSubmatch(out, -1) {
		names = slices.DeleteFunc(names, func(n string) bool { return strings.HasPrefix(match[1], n+"/") })
		names = append(names, match[1])
	}
	return names
}
