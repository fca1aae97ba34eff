package frontend

import (
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/phoebe-sched/phoebe/probe/purity"
)

func TestPure(t *testing.T) { purity.Check(t, ".") }

// The packages of the core import downwards: each package imports only lower floors, and never the shell.
func TestPackagesImportDownwards(t *testing.T) {
	rooms := []string{"tenants", "estimate", "view", "place", "."}
	for i, room := range rooms {
		files, err := filepath.Glob(filepath.Join(room, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			src, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
			if err != nil {
				t.Fatal(err)
			}
			for _, spec := range src.Imports {
				path, err := strconv.Unquote(spec.Path.Value)
				if err != nil {
					t.Fatal(err)
				}
				if below, ours := strings.CutPrefix(path, "github.com/phoebe-sched/phoebe/frontend"); ours &&
					!slices.Contains(rooms[:i], strings.TrimPrefix(below, "/")) {
					t.Errorf("%s imports %s: %q may import %q", file, path, room, rooms[:i])
				}
			}
		}
	}
}

// floors are the files of the package, from the ground up.
var floors = []string{
	"policy", "job", "config", "events", // events and actions of a core
	"line", "facts", "taskline", "class", "demand", "decisions", "tenant", "refused", "jobs", "terms", "unserved", "sets", "seats",
	"budget", "route", "passing", "stages", "near", "tasks", "admit", "extend", // jobs
	"ledger", "context", "withdraw", "places", "earlier", "copy", "restamp", "remake", "outcomes", "claims", // the ledger
	"plan", "turns", "early", "long", "wants", "tail", "moves", // decisions
	"core", "underway", "explain", "check_near", "check",
}

// A file names only objects declared in the file or on a floor below. No file calls back up, so there are no
// circles.
func TestFloors(t *testing.T) {
	c := readSource(t)
	for name, object := range c.objects {
		if namedIn, declaredIn := c.fileOf(name.Pos()), c.fileOf(object.Pos()); object.Pkg() == c.pkg &&
			c.floor[declaredIn] > c.floor[namedIn] {
			t.Errorf("%s names %s, declared higher up, in %s", c.fset.Position(name.Pos()), name.Name, declaredIn)
		}
	}
}

// Facts have one owner. The floors of jobs and of the ledger change the state of jobs. Only the ledger changes
// places, attempts and workers. Queues and counts of tasks change only in the functions of changers.
func TestOwners(t *testing.T) {
	c := readSource(t)
	ledger, planner := c.floor["ledger"], c.floor["plan"]
	lowestFloor := map[string]int{"job": 0, "group": 0, "task": 0, "tenant": 0, "stage": 0, "reservation": ledger,
		"attempt": ledger, "worker": ledger}
	changers := map[string][]string{
		"task.state": {"move"}, "job.unfinished": {"move", "mergeTasks"},
		"job.waiting":    {"move", "admitTasks", "mergeTasks"},
		"group.matching": {"move"}, "job.matching": {"move"}, "group.queue": {"move", "admitTasks"},
		"job.strandedTasks": {"move", "updateStranded"},
		"group.livePlaces":  {"addLive"}, "group.liveReservations": {"addLive"},
		"jobs.pending":      {"addTasks", "subtractPending"},
		"jobs.payloadBytes": {"addTasks", "releasePayloads"},
	}
	owner := map[types.Object]string{}
	for _, name := range c.pkg.Scope().Names() {
		if s, ok := c.pkg.Scope().Lookup(name).Type().Underlying().(*types.Struct); ok {
			for f := range s.Fields() {
				owner[f] = name
			}
		}
	}
	seen := map[string]bool{}
	for _, file := range c.files {
		floorName := c.fileOf(file.Pos())
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			changedFields(f, func(field *ast.SelectorExpr) {
				typeName := owner[c.objects[field.Sel]]
				name := typeName + "." + field.Sel.Name
				if from, fact := lowestFloor[typeName]; fact &&
					(c.floor[floorName] < from || c.floor[floorName] >= planner) {
					t.Errorf("%s: %s changes %s: only lower floors may", floorName, f.Name.Name, name)
				}
				if allowed := changers[name]; allowed != nil && !slices.Contains(allowed, f.Name.Name) {
					t.Errorf("%s: %s changes %s: only %q may", floorName, f.Name.Name, name, allowed)
				} else if allowed != nil {
					seen[name] = true
				}
			})
		}
	}
	if len(seen) != len(changers) {
		t.Errorf("of the fields with listed changers, only %v are changed", seen)
	}
}

// changedFields reports the fields assigned by a function, and the fields with a list changed by it.
func changedFields(f *ast.FuncDecl, report func(*ast.SelectorExpr)) {
	reportField := func(x ast.Expr) {
		if i, ok := x.(*ast.IndexExpr); ok {
			x = i.X
		}
		if s, ok := x.(*ast.SelectorExpr); ok {
			report(s)
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			for _, x := range n.Lhs {
				reportField(x)
			}
		case *ast.IncDecStmt:
			reportField(n.X)
		case *ast.CallExpr:
			if call, ok := n.Fun.(*ast.SelectorExpr); ok &&
				slices.Contains([]string{"Push", "PushFront", "Remove", "Pop"}, call.Sel.Name) {
				reportField(call.X)
			}
		}
		return true
	})
}

// source is the files of the package, with the object of each name.
type source struct {
	fset    *token.FileSet
	files   []*ast.File
	floor   map[string]int // by the name of the file
	pkg     *types.Package
	objects map[*ast.Ident]types.Object
}

func (s *source) fileOf(at token.Pos) string {
	return strings.TrimSuffix(s.fset.Position(at).Filename, ".go")
}

// readSource reads the source once.
func readSource(t *testing.T) *source {
	t.Helper()
	s, err := loadSource()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

var loadSource = sync.OnceValues(func() (*source, error) {
	s := &source{fset: token.NewFileSet(), floor: map[string]int{}, objects: map[*ast.Ident]types.Object{}}
	for i, name := range floors {
		src, err := parser.ParseFile(s.fset, name+".go", nil, 0)
		if err != nil {
			return nil, err
		}
		s.files, s.floor[name] = append(s.files, src), i
	}
	all, err := filepath.Glob("*.go")
	if err != nil {
		return nil, err
	}
	for _, file := range all {
		name := strings.TrimSuffix(file, ".go")
		if _, listed := s.floor[name]; !listed && name != "doc" && !strings.HasSuffix(name, "_test") {
			return nil, fmt.Errorf("%s is on no floor", file)
		}
	}
	conf := types.Config{Importer: importer.ForCompiler(s.fset, "source", nil)}
	s.pkg, err = conf.Check("frontend", s.fset, s.files, &types.Info{Uses: s.objects})
	return s, err
})
