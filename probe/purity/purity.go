// Package purity lets a deciding core's test check that the core is pure: no I/O, no clock, no chance, no
// concurrency. A core gets time and chance as arguments.
package purity

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/phoebe-sched/phoebe/"

// banned lists the banned packages, including all packages below them.
var banned = []string{"C", "context", "crypto/rand", "log", "net", "os", "runtime", "sync", "syscall", "unsafe"}

// allowed lists the names that a core may use, for packages allowed only in part.
var allowed = map[string]map[string]bool{
	"time": setOf("Time", "Duration", "Month", "Nanosecond", "Microsecond", "Millisecond", "Second", "Minute", "Hour",
		"Unix", "UnixMilli", "UnixMicro", "Date", "UTC"),
	"math/rand":    setOf(), // use v2
	"math/rand/v2": setOf("Rand", "Source", "New", "NewPCG", "PCG", "NewChaCha8", "ChaCha8", "NewZipf", "Zipf"),
}

func setOf(names ...string) map[string]bool {
	m := make(map[string]bool, len(names))
	for _, n := range names {
		m[n] = true
	}
	return m
}

// Check fails t for each impure thing in the Go files of dir, except tests and subfolders. Impure are packages that
// do I/O, lock or run in shells, packages of other modules, the clock, global randomness, go statements and
// channels.
func Check(t testing.TB, dir string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		src, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		found, err := findProblems(name, src)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range found {
			t.Error(p)
		}
		checked++
	}
	if checked == 0 {
		t.Fatalf("no Go files in %s", dir)
	}
}

// findProblems lists the impure things in a file, each with its position.
func findProblems(name string, src []byte) ([]string, error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, src, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var found []string
	report := func(n ast.Node, format string, args ...any) {
		found = append(found, fmt.Sprintf("%s: %s", fset.Position(n.Pos()), fmt.Sprintf(format, args...)))
	}
	partlyAllowed := map[string]string{} // local name to path, of the packages in allowed
	for _, imp := range file.Imports {
		path, err := strconv.Unquote(imp.Path.Value)
		if err != nil {
			return nil, err
		}
		if why := whyBadImport(path); why != "" {
			report(imp, "a core must not import %s (%s)", path, why)
		}
		local := path[strings.LastIndexByte(strings.TrimSuffix(path, "/v2"), '/')+1:]
		local = strings.TrimSuffix(local, "/v2")
		if imp.Name != nil {
			local = imp.Name.Name
		}
		if local == "." {
			report(imp, "a core must not import with a dot")
		}
		if allowed[path] != nil {
			partlyAllowed[local] = path
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			if pkg, ok := n.X.(*ast.Ident); ok {
				if path := partlyAllowed[pkg.Name]; path != "" && !allowed[path][n.Sel.Name] {
					report(n, "a core must not use %s.%s: time and chance are arguments", path, n.Sel.Name)
				}
			}
		case *ast.GoStmt:
			report(n, "a core must not start goroutines")
		case *ast.ChanType:
			report(n, "a core must not use channels")
		case *ast.SendStmt:
			report(n, "a core must not send on channels")
		case *ast.SelectStmt:
			report(n, "a core must not select on channels")
		case *ast.UnaryExpr:
			if n.Op == token.ARROW {
				report(n, "a core must not receive from channels")
			}
		}
		return true
	})
	return found, nil
}

// whyBadImport returns the reason why a core must not import path, or "".
func whyBadImport(path string) string {
	for _, b := range banned {
		if path == b || strings.HasPrefix(path, b+"/") {
			return "I/O, clock, chance or concurrency"
		}
	}
	if own, ok := strings.CutPrefix(path, module); ok {
		for _, dir := range strings.Split(own, "/") {
			switch dir {
			case "serve", "client", "exec", "bench", "cmd", "purity":
				return "a shell or a tool"
			}
		}
		return ""
	}
	if first, _, _ := strings.Cut(path, "/"); strings.Contains(first, ".") {
		return "another module"
	}
	return ""
}
