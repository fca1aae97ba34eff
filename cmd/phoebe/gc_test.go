package main

import (
	"errors"
	"log/slog"
	"math"
	"os"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

func TestLimitMemory(t *testing.T) {
	const cgroup, byUser = 1000 << 20, 123 << 20
	before := debug.SetMemoryLimit(-1)
	defer debug.SetMemoryLimit(before)
	for _, c := range []struct {
		name     string
		user     int64 // GOMEMLIMIT; 0: not set
		provider memlimit.Provider
		want     int64
		log      string // "": no line
	}{
		{"of a container", 0, memlimit.Limit(cgroup), cgroup / 10 * 9, "level=INFO msg=\"the garbage collector keeps"},
		{"the user's wins", byUser, memlimit.Limit(cgroup), byUser, "from=GOMEMLIMIT"},
		{"the user wants none", math.MaxInt64, memlimit.Limit(cgroup), math.MaxInt64, ""},
		{"none", 0, func() (uint64, error) { return 0, memlimit.ErrNoLimit }, math.MaxInt64, ""},
		{"no cgroup", 0, func() (uint64, error) { return 0, memlimit.ErrNoCgroup }, math.MaxInt64, ""},
		{"unreadable", 0, func() (uint64, error) { return 0, errors.New("torn") }, math.MaxInt64, "set GOMEMLIMIT"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("GOMEMLIMIT", "set")
			debug.SetMemoryLimit(c.user) // the runtime reads the variable only at the start of the process
			if c.user == 0 {
				os.Unsetenv("GOMEMLIMIT")
				debug.SetMemoryLimit(math.MaxInt64)
			}
			var log strings.Builder
			limitMemory(slog.New(slog.NewTextHandler(&log, nil)), c.provider)
			if got := debug.SetMemoryLimit(-1); got != c.want {
				t.Errorf("the limit is %d, want %d", got, c.want)
			}
			if line := log.String(); !strings.Contains(line, c.log) || c.log == "" && line != "" {
				t.Errorf("logged %q, want %q", line, c.log)
			}
		})
	}
}
