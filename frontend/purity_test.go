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

// The rooms of the core import one way: each those that stand before it, and no shell.
func TestRooms(t *testing.T) {
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
				if below, ours := strings.CutPrefix(path, "github.com/phoebe-sched/phoebe/frontend"); ours && !slices.Contains(rooms[:i], strings.TrimPrefix(below, "/")) {
					t.Errorf("%s imports %s: %q may import %q", file, path, room, rooms[:i])
				}
			}
		}
	}
}

// floors are the files of this package, from the ground up.
var floors = []string{
	"policy", "job", "config", "events", // what is said to a core, and what it answers
	"line", "facts", "class", "demand", "record", "tenant", "refused", "jobs", "terms", "unserved", "sets", "seats", "budget", "route", "passing", "stages", "near", "tasks", "admit", "extend", // jobs
	"ledger", "context", "places", "earlier", "copy", "restamp", "remake", "outcomes", "claims", // what was promised
	"plan", "turns", "early", "long", "cover", "tail", // decisions
	"core", "explain", "check_near", "check",
}

// What a file names, it has itself or finds on a floor below: none calls back up, so there are no circles.
func TestFloors(t *testing.T) {
	c := readCore(t)
	for name, of := range c.used {
		if at, to := c.file(name.Pos()), c.file(of.Pos()); of.Pkg() == c.pkg && c.floor[to] > c.floor[at] {
			t.Errorf("%s names %s, which is up in %s", c.fset.Position(name.Pos()), name.Name, to)
		}
	}
}

// Facts have one owner: what is known of jobs is changed on the floors of jobs and of the ledger, what was promised on
// that of the ledger, and what tasks are counted and queued by only as they move.
func TestOwners(t *testing.T) {
	c := readCore(t)
	ledger, planner := c.floor["ledger"], c.floor["plan"]
	above := map[string]int{"job": 0, "group": 0, "task": 0, "tenant": 0, "stage": 0, "reservation": ledger, "attempt": ledger, "worker": ledger}
	only := map[string][]string{
		"task.state": {"move"}, "job.left": {"move", "join"}, "job.waiting": {"move", "group", "join"}, "group.matching": {"move"}, "job.matching": {"move"}, "group.queue": {"move", "group"}, "job.lone": {"move", "turn"},
		"group.live": {"queue"}, "group.probing": {"queue"}, "jobs.pending": {"load", "settled"}, "jobs.payloads": {"load", "unload"},
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
		at := c.file(file.Pos())
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			changes(f, func(field *ast.SelectorExpr) {
				of := owner[c.used[field.Sel]]
				name := of + "." + field.Sel.Name
				if from, fact := above[of]; fact && (c.floor[at] < from || c.floor[at] >= planner) {
					t.Errorf("%s: %s changes %s, which is not up to that floor", at, f.Name.Name, name)
				}
				if by := only[name]; by != nil && !slices.Contains(by, f.Name.Name) {
					t.Errorf("%s: %s changes %s, which is up to %q", at, f.Name.Name, name, by)
				} else if by != nil {
					seen[name] = true
				}
			})
		}
	}
	if len(seen) != len(only) {
		t.Errorf("only %v are changed at all", seen)
	}
}

// changes tells of the fields that a function assigns, or whose lists it changes.
func changes(f *ast.FuncDecl, tell func(*ast.SelectorExpr)) {
	field := func(x ast.Expr) {
		if i, ok := x.(*ast.IndexExpr); ok {
			x = i.X
		}
		if s, ok := x.(*ast.SelectorExpr); ok {
			tell(s)
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			for _, x := range n.Lhs {
				field(x)
			}
		case *ast.IncDecStmt:
			field(n.X)
		case *ast.CallExpr:
			if by, ok := n.Fun.(*ast.SelectorExpr); ok && slices.Contains([]string{"Push", "PushFront", "Remove", "Pop"}, by.Sel.Name) {
				field(by.X)
			}
		}
		return true
	})
}

// source is the files of this package, with what each name in them stands for.
type source struct {
	fset  *token.FileSet
	files []*ast.File
	floor map[string]int // by the name of the file
	pkg   *types.Package
	used  map[*ast.Ident]types.Object
}

func (s *source) file(at token.Pos) string {
	return strings.TrimSuffix(s.fset.Position(at).Filename, ".go")
}

// readCore reads it, once.
func readCore(t *testing.T) *source {
	t.Helper()
	s, err := core()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

var core = sync.OnceValues(func() (*source, error) {
	s := &source{fset: token.NewFileSet(), floor: map[string]int{}, used: map[*ast.Ident]types.Object{}}
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
	s.pkg, err = conf.Check("frontend", s.fset, s.files, &types.Info{Uses: s.used})
	return s, err
})
