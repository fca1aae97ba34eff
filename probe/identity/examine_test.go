package identity

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Examine finds each flaw of keys once, in a folder and at a peer.
func TestExamine(t *testing.T) {
	ca, other := newAuthority(t), newAuthority(t)
	mixed := issueFolder(t, ca, "worker", time.Hour)
	key, err := os.ReadFile(filepath.Join(issueFolder(t, ca, "worker", time.Hour), KeyFile))
	if err == nil {
		err = os.WriteFile(filepath.Join(mixed, KeyFile), key, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	for what, c := range map[string]struct {
		dir  string
		at   time.Time
		says string
	}{
		"nothing wrong": {issueFolder(t, ca, "worker", time.Hour), now, ""},
		"expired":       {issueFolder(t, ca, "worker", -30*time.Second), now, "tls.crt ended at"},
		"all expired": {issueFolder(t, ca, "worker", time.Hour), now.Add(1000 * time.Hour),
			"the CA's certificate in ca.crt ended at|tls.crt ended at"},
		"soon to expire": {issueFolder(t, ca, "worker", time.Hour), now.Add(50 * time.Minute),
			"the CA's certificate in ca.crt ends in|tls.crt ends in"},
		"a clock that is behind": {issueFolder(t, ca, "worker", time.Hour), now.Add(-time.Hour),
			"the CA's certificate in ca.crt is valid only from|tls.crt is valid only from"},
		"another role": {issueFolder(t, ca, "client/acme", time.Hour), now,
			"tls.crt is for client/acme, and a certificate for worker is needed here"},
		"a key that does not fit": {mixed, now, "private key does not match public key"},
		"a CA that does not match": {issueFolder(t, ca, "worker", time.Hour, other), now,
			"tls.crt is not signed by a CA in ca.crt"},
		"no folder": {filepath.Join(t.TempDir(), "none"), now,
			"a folder with keys has ca.crt, tls.crt and tls.key"},
	} {
		var said []string
		for _, f := range Examine(c.dir, Worker, c.at) {
			if said = append(said, f.Problem); f.Remedy == "" || f.Soon != strings.HasPrefix(what, "soon") {
				t.Errorf("%s: %+v", what, f)
			}
		}
		want := strings.Split(c.says, "|")
		if c.says == "" {
			want = nil
		}
		for i := range max(len(want), len(said)) {
			if i >= len(want) || i >= len(said) || !strings.Contains(said[i], want[i]) {
				t.Fatalf("%s: %q, want %q", what, said, want)
			}
		}
	}
	addr := serve(t, issue(t, ca, "worker", -30*time.Second, ca), Anyone)
	flaws, err := issue(t, ca, "operator", time.Hour).Examine(t.Context(), addr, Frontend, now)
	if err != nil || len(flaws) != 2 || !strings.Contains(flaws[0].Problem, "its certificate ended") ||
		!strings.Contains(flaws[1].Problem, "its certificate is for worker") {
		t.Errorf("%+v, %v", flaws, err)
	}
}
