package main_test

import (
	"fmt"
	"strings"
	"testing"
)

// phoebe ready asks frontends at --connect, and an admin port at its address.
func TestReady(t *testing.T) {
	worker := startPhoebe(t, "worker", "--listen", "127.0.0.1:0").workerAddr()
	linked := startPhoebe(t, "frontend", "--listen", "127.0.0.1:0", "--name", "linked", "--workers", worker, "--admin",
		"127.0.0.1:0", "--log-level", "info")
	frontend := startPhoebe(t, "frontend", "--listen", "127.0.0.1:0", "--workers", "127.0.0.1:1")
	idle := frontend.awaitLines("frontend", 1)[0]
	addr := linked.awaitLines("frontend", 1)[0]
	waitUntil(t, func() error {
		if s := runHere(t, "ready", "--connect", addr); s.code != 0 || s.out != "frontend linked: ok\n" {
			return fmt.Errorf("%+v", s)
		}
		return nil
	})
	admin := adminAddr(t, linked)
	runHere(t, "ready", admin).wantExit(t, 0, "ok")
	runHere(t, "ready", "--live", "--connect", idle+","+addr).wantExit(t, 0, "frontend linked: ok")
	runHere(t, "ready", "--connect", addr+","+idle).wantExit(t, 1, idle+": no worker is linked")
	runHere(t, "ready", "--connect", "127.0.0.1:1", "--retry-for", "100ms").wantExit(t, 3, "127.0.0.1:1",
		"Name frontends with --connect")
	runHere(t, "ready", admin, "--connect", addr).wantExit(t, 2, "leave out")
	s := runHere(t, "ready", "127.0.0.1:1").wantExit(t, 3, "is it the address of --admin?")
	if strings.Contains(s.err, "--connect") {
		t.Errorf("advice about --connect: %s", s.err)
	}
}
