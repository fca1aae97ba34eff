package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/phoebe-sched/phoebe/probe/identity"
)

// clearSettings removes phoebe's variables from the environment until the test ends.
func clearSettings(t *testing.T) {
	t.Helper()
	for _, v := range os.Environ() {
		if name, value, _ := strings.Cut(v, "="); strings.HasPrefix(name, "PHOEBE_") {
			t.Setenv(name, value) // so that the test restores the variable
			os.Unsetenv(name)
		}
	}
}

// runValidate runs phoebe config validate on a file with this text.
func runValidate(t *testing.T, text string, command ...string) (file, out, errs string, code int) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "fleet.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	code = runCommand(append([]string{"config", "validate", file}, command...), &stdout, &stderr)
	return file, stdout.String(), stderr.String(), code
}

// makeBrokenKeys makes a folder with good and bad keys and tenants files.
func makeBrokenKeys(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	ours, theirs := newAuthority(t), newAuthority(t)
	for name, k := range map[string]struct {
		role   identity.Role
		lasts  time.Duration
		trusts *identity.Authority
	}{
		"frontend": {identity.Frontend, time.Hour, ours}, "worker": {identity.Worker, time.Hour, ours},
		"mixed":   {identity.Worker, time.Hour, ours},
		"expired": {identity.Worker, -30 * time.Second, ours}, "foreign": {identity.Worker, time.Hour, theirs},
	} {
		if err := ours.Issue(filepath.Join(dir, name), identity.Identity{Roles: k.role}, k.lasts,
			k.trusts); err != nil {
			t.Fatal(err)
		}
	}
	key, err := os.ReadFile(filepath.Join(dir, "worker", identity.KeyFile))
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"mixed/" + identity.KeyFile: string(key),
		"flawed.yaml":               "revision: 1\ntenants:\n  web: {token-hashes: [a token]}\n",
		"tokens.yaml": "revision: 1\ntenants:\n  web: {token-hashes: [" + strings.Repeat("0a", 32) +
			"]}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func newAuthority(t *testing.T) *identity.Authority {
	t.Helper()
	a, err := identity.NewAuthority("test", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// For each file, validate prints the wrong line with the remedy, and nothing else.
func TestBrokenConfigurations(t *testing.T) {
	clearSettings(t)
	keys := makeBrokenKeys(t)
	const frontend, worker, dev = "frontend", "worker", "dev"
	for i, test := range []struct {
		command, text string
		line          int
		says          []string // the error and the remedy
	}{
		{frontend, "workers: [10.0.0.7:7420]\nlese: 3s\n", 2, []string{`"lese"`, `"lease"`}},
		{frontend, "max_wait: 1s\nworkers: [10.0.0.7:7420]\n", 1, []string{`"max_wait"`, `"max-wait"`}},
		{frontend, "workers: [10.0.0.7:7420]\ncache-dir: /tmp\n", 2, []string{"is for phoebe dev, phoebe worker"}},
		{worker, "slots: 4\n\n# a comment\njoin: 10.0.0.1:7412\nmax-clients: 3\n", 5, []string{"phoebe frontend"}},
		{worker, "config: other.yaml\n", 1, []string{`"config"`}},
		{frontend, "workers: [10.0.0.7:7420]\nlease: 3\n", 2, []string{`"3"`, "500ms"}},
		{frontend, "workers: [10.0.0.7:7420]\nmax-payload: 1MB\n", 2, []string{`"1MB"`, "16MiB"}},
		{worker, "slots: four\n", 1, []string{`"four"`, "whole number"}},
		{worker, "slots: 4.5\n", 1, []string{`"4.5"`, "whole number"}},
		{worker, "allow-exec: perhaps\n", 1, []string{"perhaps", "true or false"}},
		{worker, "order: fastest\n", 1, []string{"fastest", "fair, fifo, priority, shortest"}},
		{worker, "speed: quick\n", 1, []string{"quick", "1.5"}},
		{worker, "weights: {web: much}\n", 1, []string{"much", "{web: 3, batch: 1}"}},
		{worker, "weights: {web: 0}\n", 1, []string{`"web"`, "above 0"}},
		{worker, "labels: [[disk]]\n", 1, []string{"labels", "or a list"}},
		{worker, "labels: [disk]\n", 1, []string{"disk", "key=value"}},
		{worker, "name:\n", 1, []string{`"name"`, "want a text"}},
		{worker, "slots: 4\nslots: 5\n", 2, []string{"slots", "already defined"}},
		{worker, "slots: 4\n  order: fair\n", 1, []string{"want one mapping"}},
		{worker, "slots: [4\n", 1, []string{"want one mapping"}},
		{worker, "\tslots: 4\n", 1, []string{"want one mapping"}},
		{worker, "- slots\n", 1, []string{"want one mapping"}},
		{worker, "listen 127.0.0.1:7420\n", 1, []string{"want one mapping"}},
		{worker, "slots: 4\n---\nslots: 5\n", 2, []string{"second document"}},
		{worker, "name: w\nlisten: 0.0.0.0:7420\n", 2, []string{"set a secret"}},
		{worker, "listen: 127.0.0.1\n", 1, []string{"missing port", "host:port"}},
		{worker, "listen: 127.0.0.1:74200\n", 1, []string{"invalid port", "host:port"}},
		{worker, "slots: 0\nname: w\nspeed: 1000\n", 3, []string{"from 0.01 to 100"}},
		{worker, "slots: 2000000\n", 1, []string{"from 1 to 100000"}},
		{worker, "secret-file: /nonexistent\n", 1, []string{"/nonexistent", "no such file"}},
		{worker, "name: w\nmaintenance-in: 1h\n", 2, []string{"--join"}},
		{worker, "admin: here\n", 1, []string{"here", "host:port"}},
		{frontend, "admin: 127.0.0.1:7413\n", 1, []string{"give --gossip, --workers or --workers-file"}},
		{frontend, "workers: [10.0.0.7:7420]\nworkers-file: /etc/hosts\n", 1, []string{"can't be used together"}},
		{frontend, "# at home\nworkers-file: /nonexistent\n", 2, []string{"/nonexistent", "one in each line"}},
		{frontend, "workers: [10.0.0.7]\n", 1, []string{"10.0.0.7", "host:port"}},
		{frontend, "workers: [10.0.0.7:7420]\njoin: [10.0.0.2:7411]\n", 2, []string{"give --gossip HOST:PORT too"}},
		{frontend, "gossip: 127.0.0.1:7411\njoin: [seed]\n", 2, []string{`"seed"`, "host:port"}},
		{frontend, "gossip: 10.0.0.1:7411\nheartbeat: 127.0.0.1:7412\n", 1, []string{"set a secret"}},
		{frontend, "workers: [10.0.0.7:7420]\nprobe-ratio: 0.5\n", 2, []string{"from 1 to 10"}},
		{frontend, "workers: [10.0.0.7:7420]\nlease: 1ms\n", 2, []string{"10ms or more"}},
		{frontend, "workers: [10.0.0.7:7420]\nmax-clients: 2000000\n", 2, []string{"from 1 to 1048576"}},
		{frontend, "peers: [frontend-2]\nworkers: [10.0.0.7:7420]\n", 1, []string{"frontend-2", "host:port"}},
		{frontend, "workers: [10.0.0.7:7420]\ndrain-delay: -1s\n", 2, []string{"0 or more"}},
		{frontend, "workers: [srv:phoebe.example.org]\n", 1,
			[]string{"srv:phoebe.example.org", "srv:_phoebe._tcp.example.org"}},
		{frontend, "gossip: 127.0.0.1:7411\njoin: [dns:seed]\n", 2, []string{`"dns:seed"`, "dns:host:port"}},
		{worker, "join: [dns:seed]\n", 1, []string{`"dns:seed"`, "dns:host:port"}},
		{frontend, "workers: [10.0.0.7:7420]\nproxy-from: [10.0.0.5]\n", 2, []string{"10.0.0.5", "/32"}},
		{dev, "frontends: 2\nfrontend-port: first\n", 2, []string{"first", "whole number"}},
		{worker, "name: w\ntls-dir: /nonexistent\n", 2,
			[]string{"/nonexistent", "a folder with keys has ca.crt, tls.crt and tls.key"}},
		{worker, "name: w\ntls-dir: KEYS/frontend\n", 2,
			[]string{"is for frontend, and a certificate for worker is needed here"}},
		{worker, "name: w\ntls-dir: KEYS/expired\n", 2, []string{"tls.crt ended at", "Replace the file"}},
		{worker, "name: w\ntls-dir: KEYS/foreign\n", 2, []string{"tls.crt is not signed by a CA in ca.crt",
			"Append the certificate of the CA"}},
		{worker, "name: w\ntls-dir: KEYS/mixed\n", 2, []string{"private key does not match", "tls.crt and tls.key in"}},
		{worker, "name: w\ntls-dir: KEYS/worker\nevent-loops: 2\n", 2, []string{"event loops, which know no TLS"}},
		{frontend, "listen: 127.0.0.1:7410\ntls-dir: KEYS/frontend\ngossip: 10.0.0.1:7411\nheartbeat: 10.0.0.1:7412\n", 3, []string{"set a secret (--secret-file)", "gossip is encrypted by it"}},
		{frontend, "workers: [10.0.0.7:7420]\ntenants: /nonexistent\n", 2,
			[]string{"/nonexistent", "write the file, such as {revision: 1"}},
		{frontend, "workers: [10.0.0.7:7420]\ntenants: KEYS/flawed.yaml\n", 2,
			[]string{`flawed.yaml:3: tenant "web": token-hashes want the hashes that phoebe token prints`}},
		{frontend, "workers: [10.0.0.7:7420]\ntenants: KEYS/tokens.yaml\n", 2,
			[]string{"token-hashes keep nobody out here", "--tls-dir or --secret-file"}},
		{frontend, "workers: [10.0.0.7:7420]\nslo: p99 below 5ms\nrecord-dir: /tmp\n", 2, []string{"p99 below 5ms"}},
		{frontend, "workers: [10.0.0.7:7420]\nrecord-dir: /tmp\n", 2, []string{"--slo and --record-dir need each other: give both"}},
		{frontend, "workers: [10.0.0.7:7420]\naudit-log: /nonexistent/audit\n", 2,
			[]string{"/nonexistent", "make the folder"}},
		{frontend, "workers: [10.0.0.7:7420]\nadmin-token-file: /nonexistent\n", 2,
			[]string{"/nonexistent", "no such file"}},
		{worker, "name: w\naudit-log: /etc/hosts/audit\n", 2, []string{"/etc/hosts", "name a file in a folder"}},
	} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			test.text = strings.ReplaceAll(test.text, "KEYS", keys)
			file, out, errs, code := runValidate(t, test.text, test.command)
			lines := strings.Split(strings.TrimSpace(errs), "\n")
			if code != exitUsage || out != "" || len(lines) != 1 {
				t.Fatalf("exit code %d, stdout %q, stderr %q\n%s", code, out, errs, test.text)
			}
			if place := fmt.Sprintf("%s:%d: ", file, test.line); !strings.HasPrefix(lines[0], place) {
				t.Errorf("%q, want line %d of\n%s", lines[0], test.line, test.text)
			}
			for _, text := range test.says {
				if !strings.Contains(lines[0], text) {
					t.Errorf("%q, want %q\n%s", lines[0], text, test.text)
				}
			}
		})
	}
}

// All errors of a file are reported at once, in the order of lines.
func TestAllErrors(t *testing.T) {
	clearSettings(t)
	file, _, errs, _ := runValidate(t, "speed: 1000\nslotz: 4\nlisten: 0.0.0.0:7420\norder: none\n", "worker")
	var places []string
	for line := range strings.Lines(errs) {
		place, _, _ := strings.Cut(strings.TrimPrefix(line, file+":"), ":")
		places = append(places, place)
	}
	if !slices.Equal(places, []string{"1", "2", "3", "4"}) {
		t.Errorf("%s", errs)
	}
}

// A flag goes before the environment, the environment before the file, and the file before the default.
func TestEffectiveSettings(t *testing.T) {
	clearSettings(t)
	t.Setenv("PHOEBE_WORKER_SLOTS", "5")
	t.Setenv("PHOEBE_WORKER_NAME", "of the environment")
	file, out, errs, code := runValidate(t,
		"\ufeffname: of the file\nslots: 3\nmax-result: 2MiB\nweights: {b: 2, a: 1}\n"+
			"rack: 007\nlabels: [disk=1, 1.10=x]\n",
		"worker", "--slots", "7")
	if code != exitOK || errs != "" {
		t.Fatalf("exit code %d: %s", code, errs)
	}
	var rows []string
	for line := range strings.Lines(out) {
		rows = append(rows, strings.Join(strings.Fields(line), " "))
	}
	for _, want := range []string{
		"phoebe worker would run with:", "slots 7 --slots", "name of the environment $PHOEBE_WORKER_NAME",
		"max-result 2MiB " + file + ":3",
		"weights a=1;b=2 " + file + ":4", "rack 007 " + file + ":5", "labels disk=1,1.10=x " + file + ":6",
		"order fair default", "memory - default",
	} {
		if !slices.Contains(rows, want) {
			t.Errorf("%q is missing:\n%s", want, out)
		}
	}
}

// A secret that everybody on the machine can read is told, with the remedy; a private secret is not.
func TestExposedSecret(t *testing.T) {
	clearSettings(t)
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("of the fleet\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for mode, want := range map[os.FileMode]string{0o640: "", 0o644: ":2: warning: --secret-file: everybody"} {
		if err := os.Chmod(secret, mode); err != nil {
			t.Fatal(err)
		}
		file, _, errs, code := runValidate(t, "slots: 4\nsecret-file: "+secret+"\n", "worker")
		if code != exitOK || (errs == "") != (want == "") ||
			want != "" && (!strings.HasPrefix(errs, file+want) || !strings.Contains(errs, "chmod o= "+secret)) {
			t.Errorf("mode %v: exit code %d, %q", mode, code, errs)
		}
	}
}

// Without a command, validate takes the command that knows the file's settings.
func TestReader(t *testing.T) {
	clearSettings(t)
	for text, want := range map[string]string{"gossip: 127.0.0.1:7411\n": "frontend",
		"slots: 4\njoin: [10.0.0.1:7412]\n": "worker", "frontends: 3\nslots: 4\n": "dev"} {
		if _, out, errs, _ := runValidate(t, text); !strings.HasPrefix(out, "phoebe "+want+" ") {
			t.Errorf("%q: %s%s", text, out, errs)
		}
	}
	for _, name := range []string{"frontend", "worker"} {
		text, err := os.ReadFile(filepath.Join("packaging", name+".yaml"))
		if err != nil {
			t.Fatal(err)
		}
		if _, out, errs, _ := runValidate(t, string(text)); !strings.HasPrefix(out, "phoebe "+name+" ") {
			t.Errorf("packaging/%s.yaml: %s%s", name, out, errs)
		}
	}
	if _, _, errs, _ := runValidate(t, "listen: 127.0.0.1:7420\njoin: [10.0.0.1:7412]\nspeed: 1000\n"); !strings.Contains(
		errs, "from 0.01 to 100") || strings.Contains(errs, "--gossip") {
		t.Errorf("a worker's file with an error: %s", errs)
	}
	if _, _, errs, code := runValidate(t, "slots: 4\n", "worker", "--slotz", "3"); code != exitUsage ||
		!strings.Contains(errs, "--slotz") {
		t.Errorf("exit code %d: %s", code, errs)
	}
}
