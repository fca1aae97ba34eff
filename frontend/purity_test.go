package frontend

import (
	"go/parser"
	"go/token"
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
