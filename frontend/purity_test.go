package frontend

import (
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/phoebe-sched/phoebe/probe/purity"
)

func TestPure(t *testing.T) { purity.Check(t, ".") }

// The rooms of the core import one way: each those that stand before it, and no shell.
func TestRooms(t *testing.T) {
	rooms := []string{"estimate", "view", "place", "."}
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
	"facts", "record", "tenant", "jobs", "sets", "seats", "route", "stages", "near", "tasks", "admit", // jobs
	"ledger", "places", "outcomes", "claims", // what was promised
	"plan", "turns", "early", "long", "cover", // decisions
	"core", "explain", "check_near", "check",
}

// What a file names, it has itself or finds on a floor below: none calls back up, so there are no circles.
func TestFloors(t *testing.T) {
	fset, floor := token.NewFileSet(), map[string]int{}
	var files []*ast.File
	for i, name := range floors {
		src, err := parser.ParseFile(fset, name+".go", nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		files, floor[name+".go"] = append(files, src), i
	}
	all, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range all {
		if _, listed := floor[name]; !listed && name != "doc.go" && !strings.HasSuffix(name, "_test.go") {
			t.Errorf("%s is on no floor", name)
		}
	}
	used := map[*ast.Ident]types.Object{}
	conf := types.Config{Importer: importer.ForCompiler(fset, "source", nil)}
	pkg, err := conf.Check("frontend", fset, files, &types.Info{Uses: used})
	if err != nil {
		t.Fatal(err)
	}
	for name, of := range used {
		at, to := fset.Position(name.Pos()), fset.Position(of.Pos()).Filename
		if of.Pkg() == pkg && floor[to] > floor[at.Filename] {
			t.Errorf("%s names %s, which is up in %s", at, name.Name, to)
		}
	}
}

// Facts of tasks have one owner: only move changes a task's state, and what counts or queues tasks by it.
func TestOneOwner(t *testing.T) {
	owners := map[string][]string{"state": {"move"}, "waiting": {"move", "group"}, "matching": {"move"}}
	seen := map[string]bool{}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		src, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range src.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			written := func(x ast.Expr) {
				field, ok := x.(*ast.SelectorExpr)
				if !ok {
					return
				}
				if by, owned := owners[field.Sel.Name]; owned && !slices.Contains(by, f.Name.Name) {
					t.Errorf("%s: %s changes %s, which is up to %q", file, f.Name.Name, field.Sel.Name, by)
				} else if owned {
					seen[field.Sel.Name] = true
				}
			}
			ast.Inspect(f, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.AssignStmt:
					for _, x := range n.Lhs {
						written(x)
					}
				case *ast.IncDecStmt:
					written(n.X)
				}
				return true
			})
		}
	}
	if len(seen) != len(owners) {
		t.Errorf("only %v are changed at all", seen)
	}
}
