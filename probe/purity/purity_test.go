package purity

import (
	"strings"
	"testing"
)

func TestProblems(t *testing.T) {
	for _, c := range []struct{ src, want string }{
		{`import "fmt"`, ""},
		{`import "time"; var d time.Duration = 3 * time.Second; func f(t time.Time) bool { return t.After(t) }`, ""},
		{`import "math/rand/v2"; func f(r *rand.Rand) int { return rand.New(rand.NewPCG(1, 2)).IntN(3) }`, ""},
		{`import "github.com/phoebe-sched/phoebe/probe"`, ""},
		{`import "slices"; var x = -1; var p = &x`, ""},

		{`import "net"`, "import net"},
		{`import "net/http"`, "import net/http"},
		{`import "os"`, "import os"},
		{`import "os/exec"`, "import os/exec"},
		{`import "sync"`, "import sync"},
		{`import a "sync/atomic"`, "import sync/atomic"},
		{`import "log/slog"`, "import log/slog"},
		{`import "crypto/rand"`, "import crypto/rand"},
		{`import "context"`, "import context"},
		{`import "github.com/panjf2000/gnet/v2"`, "another module"},
		{`import "github.com/phoebe-sched/phoebe/worker/serve"`, "a shell"},
		{`import . "time"`, "with a dot"},
		{`import "time"; var now = time.Now()`, "time.Now"},
		{`import "time"; var f = time.Since`, "time.Since"},
		{`import clock "time"; func f() { clock.Sleep(1) }`, "time.Sleep"},
		{`import "time"; var t *time.Timer`, "time.Timer"},
		{`import "math/rand"; var n = rand.New(nil)`, "math/rand.New"},
		{`import "math/rand/v2"; var n = rand.IntN(3)`, "math/rand/v2.IntN"},
		{`import r "math/rand/v2"; func f() { r.Shuffle(1, nil) }`, "math/rand/v2.Shuffle"},
		{`func f() { go f() }`, "goroutines"},
		{`func f(c chan int)`, "channels"},
		{`func f(c c) { c <- 1 }`, "send"},
		{`func f(c c) { <-c }`, "receive"},
		{`func f() { select {} }`, "select"},
	} {
		got, err := findProblems("x.go", []byte("package x; "+c.src))
		if err != nil {
			t.Fatalf("%s: %v", c.src, err)
		}
		switch {
		case c.want == "" && len(got) > 0:
			t.Errorf("%s: %q, want nothing", c.src, got)
		case c.want != "" && !strings.Contains(strings.Join(got, "\n"), c.want):
			t.Errorf("%s: %q, want one about %q", c.src, got, c.want)
		}
	}
}

// A folder without sources must not count as pure.
func TestCheckFindsFiles(t *testing.T) {
	var fake failing
	Check(&fake, t.TempDir())
	if !fake.failed {
		t.Error("an empty folder passed")
	}
}

type failing struct {
	testing.TB
	failed bool
}

func (f *failing) Helper()               {}
func (f *failing) Fatalf(string, ...any) { f.failed = true }
