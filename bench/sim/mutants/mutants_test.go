package mutants

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// root is the module's folder, relative to this package.
const root = "../../.."

// table lists the mutants of each package.
var table = []packageMutants{
	frontend, frontendEstimate, frontendPlace, frontendRecord, frontendServe, frontendTenants, frontendView,
	probe, probeFair,
	worker, workerExec,
}

// packageMutants lists the mutants of a package, in the order of TestMutants.
type packageMutants struct {
	folder  string // the package's folder, relative to root
	mutants []mutant
}

// core returns the folder with the tests of the package. The tests of frontend also test the packages of its
// core, and the tests of worker also test probe/fair.
func (p *packageMutants) core() string {
	switch p.folder {
	case "frontend/view", "frontend/jobs", "frontend/place", "frontend/ledger":
		return "frontend"
	case "probe/fair":
		return "worker"
	default:
		return p.folder
	}
}

// nameOf returns the name of m's subtest: core and rule, so that -run finds the mutant by rule.
func (p *packageMutants) nameOf(m *mutant) string {
	return p.core() + "/" + strings.ReplaceAll(m.rule, " ", "_")
}

// mutant is a change that breaks one rule of a core. The change is located by function and text, not by file, so
// that functions may move between the files of a package.
type mutant struct {
	rule string // the broken rule
	// function is the function with the changed code: its name, or "Type.name" for a method; "" for code outside of
	// functions.
	function string
	old, new string // new replaces old; old occurs exactly once in the function, without the doc comment
}

// source is a parsed Go file of a package.
type source struct {
	path      string // relative to root
	text      string
	functions []function
}

// function is the place of a function in a source.
type function struct {
	name       string // "Type.name" for a method
	start, end int    // byte offsets in the source, without the doc comment
}

// sources holds the parsed files of each folder, so that a folder is parsed once and not for each mutant.
var sources = map[string][]source{}

// readSources returns the files of the package in folder that this platform builds, without tests.
func readSources(folder string) ([]source, error) {
	if parsed, ok := sources[folder]; ok {
		return parsed, nil
	}
	pkg, err := build.ImportDir(filepath.Join(root, folder), 0)
	if err != nil {
		return nil, err
	}
	var parsed []source
	for _, name := range pkg.GoFiles {
		s, err := readSource(filepath.Join(folder, name))
		if err != nil {
			return nil, err
		}
		parsed = append(parsed, s)
	}
	sources[folder] = parsed
	return parsed, nil
}

// readSource parses one file; path is relative to root.
func readSource(path string) (source, error) {
	text, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		return source{}, err
	}
	files := token.NewFileSet()
	parsed, err := parser.ParseFile(files, path, text, parser.SkipObjectResolution)
	if err != nil {
		return source{}, err
	}
	s := source{path: path, text: string(text)}
	for _, decl := range parsed.Decls {
		if f, ok := decl.(*ast.FuncDecl); ok {
			start, end := files.Position(f.Pos()).Offset, files.Position(f.End()).Offset
			s.functions = append(s.functions, function{functionName(f), start, end})
		}
	}
	return s, nil
}

// functionName returns "name" for a function and "Type.name" for a method.
func functionName(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return f.Name.Name
	}
	receiver := f.Recv.List[0].Type
	for {
		switch t := receiver.(type) {
		case *ast.StarExpr:
			receiver = t.X
		case *ast.IndexExpr: // one type parameter
			receiver = t.X
		case *ast.IndexListExpr:
			receiver = t.X
		default:
			return receiver.(*ast.Ident).Name + "." + f.Name.Name
		}
	}
}

// findText returns the offsets of text in the function called name, or outside of all functions if name is "". If
// the source does not declare the function, found is false.
func (s *source) findText(name, text string) (offsets []int, found bool) {
	if name == "" {
		start := 0
		for _, f := range s.functions {
			offsets = append(offsets, findBetween(s.text, text, start, f.start)...)
			start = f.end
		}
		return append(offsets, findBetween(s.text, text, start, len(s.text))...), true
	}
	for _, f := range s.functions {
		if f.name == name { // init may be declared more than once
			offsets = append(offsets, findBetween(s.text, text, f.start, f.end)...)
			found = true
		}
	}
	return offsets, found
}

// findBetween returns the offsets at which text occurs in all[start:end].
func findBetween(all, text string, start, end int) []int {
	var offsets []int
	for {
		i := strings.Index(all[start:end], text)
		if i < 0 {
			return offsets
		}
		offsets = append(offsets, start+i)
		start += i + 1
	}
}

// apply returns the path of the file that m changes, relative to root, and the changed text. The error says why m is
// stale and what to do.
func (m *mutant) apply(folder string) (path, text string, err error) {
	parsed, err := readSources(folder)
	if err != nil {
		return "", "", err
	}
	declared, times := false, 0
	for _, s := range parsed {
		offsets, found := s.findText(m.function, m.old)
		declared = declared || found
		times += len(offsets)
		if len(offsets) == 1 {
			path, text = s.path, s.text[:offsets[0]]+m.new+s.text[offsets[0]+len(m.old):]
		}
	}
	switch {
	case !declared:
		return "", "", fmt.Errorf("stale: package %s has no function %q: name the function that has the text %q now",
			folder, m.function, m.old)
	case times == 0:
		return "", "", fmt.Errorf("stale: package %s, function %q lacks the text %q: copy the text that keeps the "+
			"rule now",
			folder, m.function, m.old)
	case times > 1:
		return "", "", fmt.Errorf("stale: package %s, function %q has the text %q %d times: choose a longer text",
			folder, m.function, m.old, times)
	}
	return path, text, nil
}

// suite is a group of tests that may notice a mutant.
type suite struct {
	name string
	args []string // arguments of go test
}

// suites returns the suites that core must pass, the quickest first.
func suites(core string) []suite {
	others := []string{"./" + core}
	if core == "frontend" {
		others = append(others, "./frontend/place", "./frontend/view")
	}
	others = append(others, "-skip", "^TestScripts$")
	if core == "worker" { // the same histories each time, and no files for the histories that fail
		others = append(others, "-rapid.seed=1", "-rapid.nofailfile", "-rapid.shrinktime=0s")
	}
	return []suite{
		{"scripts", []string{"./" + core, "-run", "^TestScripts$"}},
		{"other tests", others},
		{"stories", []string{"./bench/sim", "-run", "^TestStories$"}},
		{"phases", []string{"./bench/sim", "-run", "^TestPhasesAreTheTimesOfTheTaps$"}},
		{"faults", []string{"./bench/sim", "-run", "^TestFaults$"}},
	}
}

// TestTable fails for each stale mutant, and says what to do.
func TestTable(t *testing.T) {
	names := map[string]bool{}
	for _, p := range table {
		for _, m := range p.mutants {
			name := p.nameOf(&m)
			if _, _, err := m.apply(p.folder); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if m.old == m.new {
				t.Errorf("%s: changes nothing: write a new text that breaks the rule", name)
			}
			if names[name] {
				t.Errorf("%s: two mutants have this rule: reword one", name)
			}
			names[name] = true
		}
	}
}

// TestMutants runs the tests of each core against each of its mutants, and fails if no test notices a mutant. The
// test takes minutes and runs only with PHOEBE_MUTANTS=1. Mutants are compiled with an overlay, so the tree stays
// unchanged.
func TestMutants(t *testing.T) {
	if os.Getenv("PHOEBE_MUTANTS") == "" {
		t.Skip("PHOEBE_MUTANTS is not set")
	}
	for _, core := range []string{"worker", "frontend"} {
		for _, s := range suites(core) {
			if out, err := runSuite(s, ""); err != nil {
				t.Fatalf("without a mutant, the %s of %s fail: %v\n%s", s.name, core, err, out)
			}
		}
	}
	caught, total := map[string]int{}, 0
	for _, p := range table {
		for _, m := range p.mutants {
			total++
			t.Run(p.nameOf(&m), func(t *testing.T) {
				if s := findCatcher(t, &p, &m); s != "" {
					caught[s]++
				}
			})
		}
	}
	t.Logf("caught, of %d: %v", total, caught)
}

// findCatcher returns the name of the first suite that notices m. The test fails, and the result is "", if no suite
// does.
func findCatcher(t *testing.T, p *packageMutants, m *mutant) string {
	overlay := writeOverlay(t, p.folder, m)
	if out, err := runGo("build", "-overlay", overlay, "./"+p.core()); err != nil {
		t.Fatalf("the mutant does not compile: %v\n%s", err, out)
	}
	for _, s := range suites(p.core()) {
		out, err := runSuite(s, overlay)
		if err == nil {
			continue
		}
		var exit *exec.ExitError
		if !errors.As(err, &exit) || len(failedTests(out)) == 0 {
			t.Fatalf("the %s did not run: %v\n%s", s.name, err, out)
		}
		t.Logf("caught by the %s: %s", s.name, strings.Join(failedTests(out), ", "))
		return s.name
	}
	t.Errorf("survives: no test notices that function %s of package %s breaks the rule:\n%s\nbecame\n%s",
		m.function, p.folder, m.old, m.new)
	return ""
}

// writeOverlay writes the mutated file and an overlay for the go command, and returns the overlay's path.
func writeOverlay(t *testing.T, folder string, m *mutant) string {
	path, text, err := m.apply(folder)
	if err != nil {
		t.Fatal(err)
	}
	real, err := filepath.Abs(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	mutated, overlay := filepath.Join(t.TempDir(), filepath.Base(path)), filepath.Join(t.TempDir(), "overlay.json")
	index, err := json.Marshal(map[string]map[string]string{"Replace": {real: mutated}})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.WriteFile(mutated, []byte(text), 0o600), os.WriteFile(overlay, index, 0o600)); err != nil {
		t.Fatal(err)
	}
	return overlay
}

// runSuite runs the tests of s, with an overlay unless overlay is "".
func runSuite(s suite, overlay string) (string, error) {
	args := []string{"test", "-vet=off"}
	if overlay != "" {
		args = append(args, "-overlay", overlay)
	}
	return runGo(append(args, s.args...)...)
}

// runGo runs the go command in root and returns its output.
func runGo(args ...string) (string, error) {
	cmd := exec.Command("go", args...)
	cmd.Dir = root
	out, err := cmd.CombinedOutput()
	return string(out), err
}

var failure = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)`)

// failedTests returns the names of the failed tests in the output of go test, without parents of failed subtests.
func failedTests(out string) []string {
	var names []string
	for _, match := range failure.FindAllStringSubmatch(out, -1) {
		names = slices.DeleteFunc(names, func(n string) bool { return strings.HasPrefix(match[1], n+"/") })
		names = append(names, match[1])
	}
	return names
}
