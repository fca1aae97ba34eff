package main_test

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/phoebe-sched/phoebe/frontend/client"
	"github.com/phoebe-sched/phoebe/worker/exec"
)

// With --exec-uids a task reads its files, but not the worker's secret.
func TestExecUIDs(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can run tasks as other users")
	}
	store := newFileStore(t)
	secret := writeFile(t, "a secret of the fleet\n")
	cache := filepath.Join(t.TempDir(), "cache")
	for _, dir := range []string{secret, cache} { // everybody can reach the files by name
		for _, d := range []string{filepath.Dir(dir), filepath.Dir(filepath.Dir(dir))} {
			if err := os.Chmod(d, 0o711); err != nil {
				t.Fatal(err)
			}
		}
	}
	flags := []string{"worker", "--secret-file", secret, "--allow-exec", "--exec-uids", "1234600-1234603",
		"--cache-dir", cache, "--file-hosts", "127.0.0.1", "--listen"}
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	if out := runPhoebe(t, append(flags, taken.Addr().String())...); strings.Contains(out.err, "needs a cgroup") {
		t.Skip(out.err)
	}
	w := startPhoebe(t, append(flags, "127.0.0.1:0")...)
	f := startPhoebe(t, "frontend", "--listen", "127.0.0.1:0", "--workers", w.workerAddr(), "--secret-file", secret)
	open := startPhoebe(t, "worker", "--listen", "127.0.0.1:0", "--allow-exec")
	open.awaitLog("can read each file that the worker can")
	if log := w.errs.String(); log != "" {
		t.Errorf("a worker with users for tasks warns: %s", log)
	}
	c, err := client.New([]string{f.awaitLines("frontend", 1)[0]}, client.WithSecretFile(secret))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	part := store.describeFile("part", store.content)
	script := `sha256sum <"$PHOEBE_FILE_0"; id -u; cat ` + secret + ` 2>&1; ls ` + cache + ` 2>&1; true`
	payload, err := exec.Command{Argv: []string{"sh", "-c", script}}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	job := client.Job{Tasks: []client.Task{{Function: "exec", Payload: payload, Files: []client.File{part}}}}
	outcomes, err := c.Run(t.Context(), job)
	if err != nil {
		t.Fatal(err)
	}
	got := string(outcomes[0].Result)
	if !strings.HasPrefix(got, part.SHA256) || !strings.Contains(got, "\n12346") ||
		strings.Contains(got, "of the fleet") || strings.Count(got, "ermission denied") != 2 {
		t.Errorf("a task finds: %s", got)
	}
}

// A worker does not start if tasks could read its secret, or if flags lack what they need.
func TestBadExecFlags(t *testing.T) {
	t.Parallel()
	readable := writeFile(t, "a secret of the fleet\n")
	for _, tc := range []struct {
		args []string
		says string
		root bool
	}{
		{[]string{"--exec-uids", "200000-200255"}, "give --allow-exec too", false},
		{[]string{"--exec-setuid"}, "give --allow-exec too", false},
		{[]string{"--allow-exec", "--exec-uids", "all"}, "200000-200255", false},
		{[]string{"--allow-exec", "--exec-uids", "0-5"}, "200000-200255", false},
		{[]string{"--allow-exec", "--exec-uids", "5-10"}, "from 1000 on", false},
		{[]string{"--allow-exec", "--exec-uids", "200000-200003", "--secret-file", readable}, "chmod 600", true},
	} {
		if tc.root {
			if os.Geteuid() != 0 {
				continue
			}
			for _, d := range []string{readable, filepath.Dir(readable), filepath.Dir(filepath.Dir(readable))} {
				if err := os.Chmod(d, 0o755); err != nil {
					t.Fatal(err)
				}
			}
		}
		runPhoebe(t, append([]string{"worker", "--listen", "127.0.0.1:0"}, tc.args...)...).wantExit(t, 2, tc.says)
	}
}
