package main_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/phoebe-sched/phoebe/frontend/client"
	"github.com/phoebe-sched/phoebe/frontend/client/admin"
)

// tenantsFile is a tenants file that is written again and again, with a higher revision each time.
type tenantsFile struct {
	t        *testing.T
	name     string
	revision int
}

// writeTenants replaces the file's tenants, with the next revision.
func (f *tenantsFile) writeTenants(tenants string) {
	f.t.Helper()
	f.revision++
	text := fmt.Sprintf("revision: %d\ntenants:\n%s", f.revision, tenants)
	if err := os.WriteFile(f.name+".new", []byte(text), 0o600); err != nil {
		f.t.Fatal(err)
	}
	if err := os.Rename(f.name+".new", f.name); err != nil {
		f.t.Fatal(err)
	}
}

// makeToken makes a token, and returns the file and the hash.
func makeToken(t *testing.T, dir, name string) (file, hash string) {
	t.Helper()
	file = filepath.Join(dir, name)
	made := runPhoebe(t, "token", file)
	made.wantExit(t, 0)
	if again := runPhoebe(t, "token", file); again.out != made.out {
		t.Errorf("%q, and then %q", made.out, again.out)
	}
	return file, strings.TrimSpace(made.out)
}

// wantRefused fails the test unless err is a refusal with this reason and text.
func wantRefused(t *testing.T, what string, err error, reason client.RefusedReason, says string) {
	t.Helper()
	var refused *client.RefusedError
	if !errors.As(err, &refused) || refused.Reason != reason || !strings.Contains(refused.Message, says) {
		t.Errorf("%s: %v, want %v: ... %s ...", what, err, reason, says)
	}
}

// A client with a tenant's token may do what the tenant may, at any frontend, and nothing else. Tokens are replaced
// without a restart, and appear in no log.
func TestTokens(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	web, webHash := makeToken(t, dir, "web")
	etl, etlHash := makeToken(t, dir, "etl")
	file := &tenantsFile{t: t, name: filepath.Join(dir, "tenants.yaml")}
	const ads = "  ads: {functions: [echo, sleep], priority: 5}\n" +
		"  ads/etl: {token-hashes: [%s]}\n  web: {token-hashes: [%s]}\n"
	file.writeTenants(fmt.Sprintf(ads, etlHash, webHash))
	secret := filepath.Join(dir, "secret")
	if err := os.WriteFile(secret, []byte("the fleet's"), 0o600); err != nil {
		t.Fatal(err)
	}
	audit := filepath.Join(dir, "audit")
	one := awaitGossiper(startPhoebe(t, append(gossipFlags, "--secret-file", secret, "--tenants", file.name,
		"--audit-log", audit)...))
	// gets the file by gossip
	two := awaitGossiper(startPhoebe(t, append(gossipFlags, "--secret-file", secret, "--join", one.gossip)...))
	startPhoebe(t, "worker", "--listen", "127.0.0.1:0", "--secret-file", secret, "--join", one.heartbeat, "--slots",
		"8")
	dial := func(addr string, options ...client.Option) *admin.Client {
		c, err := client.New([]string{addr}, append(options, client.WithRetryFor(10*time.Second))...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return admin.New(c)
	}
	for _, api := range []string{one.api, two.api} {
		waitUntil(t, func() error {
			_, err := dial(api, client.WithTokenFile(etl)).Run(t.Context(),
				client.Job{Tasks: []client.Task{{Function: "echo"}}})
			return err
		})
	}
	mine := dial(one.api, client.WithTokenFile(etl))
	long := client.Job{Tasks: []client.Task{{Function: "sleep", Payload: []byte("1h")}}}
	running, err := mine.Submit(t.Context(), long)
	if err != nil {
		t.Fatal(err)
	}
	job := running.Handle()
	_, err = mine.Run(t.Context(), client.Job{Tenant: "web", Tasks: long.Tasks})
	wantRefused(t, "a job of another tenant", err, client.Forbidden,
		`the job names tenant "web", and you are known as a client of "ads/etl": name no tenant`)
	_, err = mine.Run(t.Context(),
		client.Job{Tenant: "ads/etl/x", Tasks: []client.Task{{Function: "echo"}, {Function: "spin"}}})
	wantRefused(t, "a function that the tenant may not run", err, client.Forbidden,
		`task 1: tenant "ads/etl/x" may not run "spin": the entry of "ads"`)
	_, err = mine.Run(t.Context(), client.Job{Priority: 6, Tasks: []client.Task{{Function: "echo"}}})
	wantRefused(t, "a priority that the tenant may not have", err, client.Forbidden,
		`priority 6: the entry of "ads" in the tenants file allows tenant "ads/etl" at most 5`)
	_, err = dial(one.api).Run(t.Context(), long)
	wantRefused(t, "nothing shown", err, client.Unauthorized, "give one whose hash is in the tenants file")
	for _, api := range []string{one.api, two.api} {
		other := dial(api, client.WithTokenFile(web))
		_, err := other.Cancel(t.Context(), job, "mine is more important")
		wantRefused(t, "cancel by another tenant", err, client.Forbidden, "belongs to another tenant")
		_, err = other.Explain(t.Context(), job, -1)
		wantRefused(t, "explain to another tenant", err, client.Forbidden, "belongs to another tenant")
		_, err = other.Watch(t.Context(), time.Second, time.Time{}, 10)
		wantRefused(t, "watch", err, client.Forbidden, `known as a client of "web"`)
		if list, err := other.Jobs(t.Context(), admin.JobFilter{}, "", 10); err != nil ||
			slices.ContainsFunc(list.Jobs, func(j client.JobSummary) bool { return j.Tenant != "web" }) {
			t.Errorf("another tenant sees %+v, %v", list, err)
		}
		if list, err := dial(api, client.WithTokenFile(etl)).Jobs(t.Context(), admin.JobFilter{ID: job.Job}, "",
			10); err != nil || len(list.Jobs) != 1 || list.Jobs[0].Tenant != "ads/etl" {
			t.Errorf("its owner sees %+v, %v", list, err)
		}
		if _, err := dial(api, client.WithTokenFile(etl)).Explain(t.Context(), job, -1); err != nil {
			t.Errorf("its owner at %s: %v", api, err)
		}
		if _, err := dial(api, client.WithSecret("the fleet's")).Watch(t.Context(), time.Second, time.Time{},
			10); err != nil {
			t.Errorf("who has the secret: %v", err)
		}
	}
	runPhoebe(t, "run", "--connect", two.api, "--token-file", web, "--function", "echo", "--payload",
		"by the command line").wantExit(t, 0, "by the command line")
	runPhoebe(t, "cancel", "--connect", two.api, "--token-file", web, job.Job+"@"+job.Owner).wantExit(t, 3,
		"belongs to another tenant")

	// First the new and the old token count, then only the new token.
	next, nextHash := makeToken(t, dir, "next")
	use := func(api, tokens string) error {
		_, err := dial(api, client.WithTokenFile(tokens)).Cluster(t.Context())
		return err
	}
	file.writeTenants(fmt.Sprintf(ads, etlHash+", "+nextHash, webHash))
	for _, api := range []string{one.api, two.api} {
		waitUntil(t, func() error { return use(api, next) })
		if err := use(api, etl); err != nil {
			t.Errorf("the old token beside the new one: %v", err)
		}
	}
	file.writeTenants(fmt.Sprintf(ads, nextHash, webHash))
	for _, api := range []string{one.api, two.api} {
		waitUntil(t, func() error {
			if use(api, etl) == nil {
				return errors.New("the old token counts")
			}
			return nil
		})
		wantRefused(t, "the old token", use(api, etl), client.Unauthorized, "the token is missing or unknown here")
		if err := use(api, next); err != nil {
			t.Error(err)
		}
	}
	if _, err := dial(two.api, client.WithTokenFile(next)).Cancel(t.Context(), job, "by its owner"); err != nil {
		t.Error(err)
	}
	if _, err := running.Wait(); err == nil {
		t.Error("it was not cancelled, or who has lost the right hears of it")
	}

	for _, f := range []*gossiper{one, two} {
		f.sendSignal(syscall.SIGTERM)
		f.awaitEnd()
	}
	log, err := os.ReadFile(audit)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`"what":"submit","who":"client/ads/etl","token":"` + etlHash[:8] + `","from":"127.0.0.1:`,
		`"tenant":"web","job":`, `"decision":"refused"`,
		`"what":"cancel","who":"client/web by `, `"what":"cancel","who":"client/web","token":"` + webHash[:8],
	} {
		if !strings.Contains(string(log), want) {
			t.Errorf("the audit log has no %s:\n%s", want, log)
		}
	}
	for _, name := range []string{web, etl, next} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for what, said := range map[string]string{"the audit log": string(log),
			"a log": one.errs.String() + two.errs.String()} {
			if strings.Contains(said, strings.TrimSpace(string(text))) {
				t.Errorf("%s tells a token", what)
			}
		}
	}
}

// A frontend refuses a tenants file with tokens if clients would send tokens in plain, or callers without a token
// were let in.
func TestTokensInTheOpen(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	_, hash := makeToken(t, dir, "token")
	file := &tenantsFile{t: t, name: filepath.Join(dir, "tenants.yaml")}
	file.writeTenants("  web: {token-hashes: [" + hash + "]}\n")
	secret := filepath.Join(dir, "secret")
	if err := os.WriteFile(secret, []byte("the fleet's"), 0o600); err != nil {
		t.Fatal(err)
	}
	frontend := []string{"frontend", "--workers", "127.0.0.1:1", "--tenants", file.name}
	runPhoebe(t, append(frontend, "--listen", "127.0.0.1:0")...).wantExit(t, 2, "token-hashes keep nobody out here",
		"--tls-dir or --secret-file")
	runPhoebe(t, append(frontend, "--listen", "0.0.0.0:0", "--advertise", "a:1", "--secret-file",
		secret)...).wantExit(t, 2,
		"would tell their tokens in plain", "--tls-dir")
	runPhoebe(t, "run", "--connect", "192.0.2.1:7410", "--token-file", filepath.Join(dir, "none"), "--function",
		"echo").wantExit(t, 2, "no such file")
}
