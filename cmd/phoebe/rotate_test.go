package main_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/phoebe-sched/phoebe/frontend/client"
	"github.com/phoebe-sched/phoebe/frontend/client/admin"
	"github.com/phoebe-sched/phoebe/probe/identity"
)

// rotation is a fleet whose keys and secrets are replaced while it works.
type rotation struct {
	t          *testing.T
	dir        string
	secretFile string // a file
	credential string // credential of the load: certificates, secrets or tokens
	load       *load
	apis       []string
	trusted    []*identity.Authority
	signer     *identity.Authority
	tenants    tenantsFile
	hashes     []string // of the tokens, by number
}

var fleetRoles = []string{"frontend", "worker", "client/acme", "operator"}

func (r *rotation) keysDir(who string) string {
	return filepath.Join(r.dir, strings.ReplaceAll(who, "/", "-"))
}

// replaceKeys replaces the keys of all roles.
func (r *rotation) replaceKeys() {
	r.t.Helper()
	for _, who := range fleetRoles {
		id, err := identity.Parse(who)
		if err == nil {
			err = r.signer.Issue(r.keysDir(who), id, time.Hour, r.trusted...)
		}
		if err != nil {
			r.t.Fatal(err)
		}
	}
}

// replaceSecrets replaces the secrets.
func (r *rotation) replaceSecrets(all ...string) {
	r.t.Helper()
	if err := os.WriteFile(r.secretFile+".new", []byte(strings.Join(all, "\n")+"\n"), 0o600); err != nil {
		r.t.Fatal(err)
	}
	if err := os.Rename(r.secretFile+".new", r.secretFile); err != nil {
		r.t.Fatal(err)
	}
}

// allowTokens makes exactly the tokens with the numbers count.
func (r *rotation) allowTokens(numbers ...int) {
	var hashes []string
	for _, n := range numbers {
		for len(r.hashes) <= n {
			_, hash := makeToken(r.t, r.dir, fmt.Sprint("token ", len(r.hashes)))
			r.hashes = append(r.hashes, hash)
		}
		hashes = append(hashes, r.hashes[n])
	}
	r.tenants.writeTenants("  acme: {token-hashes: [" + strings.Join(hashes, ", ") + "]}\n")
}

func (r *rotation) tokenFile(n int) string { return filepath.Join(r.dir, fmt.Sprint("token ", n)) }

// useToken makes the client send a token.
func (r *rotation) useToken(n int) {
	r.t.Helper()
	text, err := os.ReadFile(r.tokenFile(n))
	if err == nil {
		err = os.WriteFile(r.clientTokenFile()+".new", text, 0o600)
	}
	if err == nil {
		err = os.Rename(r.clientTokenFile()+".new", r.clientTokenFile())
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

// clientTokenFile returns the file with the client's token.
func (r *rotation) clientTokenFile() string { return filepath.Join(r.dir, "token") }

// awaitSettled waits until every process has read its files again, and the load has gone on since.
func (r *rotation) awaitSettled() {
	r.t.Helper()
	if !r.load.awaitProgress(r.t, 3*time.Second) { // processes look at their files each second
		r.t.FailNow()
	}
}

// awaitRefused waits until an old credential is refused, and logs how long the refusal took. ask must make a new
// connection each time.
func (r *rotation) awaitRefused(what string, since time.Time, ask func() error) {
	r.t.Helper()
	waitUntil(r.t, func() error {
		if ask() == nil {
			return fmt.Errorf("%s still counts", what)
		}
		return nil
	})
	took := time.Since(since)
	r.t.Logf("%s: refused %v after its removal", what, took.Round(10*time.Millisecond))
	if took > 10*time.Second && os.Getenv("PHOEBE_ROTATE") != "" {
		r.t.Errorf("%s was refused only after %v", what, took)
	}
}

// TestRotate replaces credentials of a fleet under load: the authority and the certificates, the secret and the
// gossip key made from it, and a tenant's tokens. No call fails, and no task with once is lost. Old credentials are
// refused. make rotate runs more rounds, and wants each refusal within 10 s of the removal.
func TestRotate(t *testing.T) {
	t.Parallel()
	rounds := 1
	if os.Getenv("PHOEBE_ROTATE") != "" {
		rounds = 3
	}
	for _, by := range []string{"certificates", "secrets", "tokens"} {
		t.Run(by, func(t *testing.T) {
			r := &rotation{t: t, dir: t.TempDir(), credential: by}
			r.tenants = tenantsFile{t: t, name: filepath.Join(r.dir, "tenants.yaml")}
			r.allowTokens(0)
			r.useToken(0)
			r.secretFile = filepath.Join(r.dir, "secret")
			r.replaceSecrets("secret 0")
			first, err := identity.NewAuthority("authority 0", time.Hour)
			if err != nil {
				t.Fatal(err)
			}
			r.signer, r.trusted = first, []*identity.Authority{first}
			r.replaceKeys()
			flags := func(who string) []string {
				var list []string
				if by == "certificates" {
					list = []string{"--tls-dir", r.keysDir(who)}
				}
				if by != "certificates" || who == "frontend" { // gossip has a secret, too
					list = append(list, "--secret-file", r.secretFile)
				}
				if who == "frontend" {
					list = append(list, "--tenants", r.tenants.name)
				}
				return list
			}
			one := awaitGossiper(startPhoebe(t, append(gossipFlags, flags("frontend")...)...))
			two := awaitGossiper(startPhoebe(t, append(append(gossipFlags, "--join", one.gossip),
				flags("frontend")...)...))
			r.apis = []string{one.api, two.api}
			for i := range 3 {
				startPhoebe(t, append([]string{"worker", "--listen", "127.0.0.1:0", "--name", fmt.Sprint("w", i),
					"--allow-exec", "--slots", "4", "--join", one.heartbeat}, flags("worker")...)...)
			}
			shows := map[string]client.Option{
				"certificates": client.WithTLS(r.keysDir("client/acme")),
				"secrets":      client.WithSecretFile(r.secretFile),
				"tokens":       client.WithTokenFile(r.clientTokenFile()),
			}
			c, err := client.New(r.apis, shows[by], client.WithRetryFor(10*time.Second))
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			waitUntil(t, func() error {
				outs, err := c.Run(t.Context(), client.Job{Tasks: []client.Task{{Function: "echo"}}})
				if err == nil && len(outs) != 1 {
					err = errors.New("no outcome")
				}
				return err
			})
			r.load = startLoad(t, admin.New(c))
			for round := range rounds {
				r.runRound(round)
			}
			if g := whyGossipBroke(t, one, two); g != "" {
				t.Error(g)
			}
			r.load.stopAndCheck(t)
			if n := r.load.lost.Load(); n > 0 {
				t.Errorf("%d tasks were lost", n)
			}
		})
	}
}

// whyGossipBroke returns a frontend's log if frontends lost each other, or "".
func whyGossipBroke(t *testing.T, frontends ...*gossiper) string {
	t.Helper()
	for _, g := range frontends {
		if text := g.errs.String(); strings.Contains(text, "frontend lost") || strings.Contains(text, "frontend left") {
			return "the frontends lost each other:\n" + text
		}
	}
	return ""
}

// runRound replaces all credentials once: first both count, then the new ones alone.
func (r *rotation) runRound(n int) {
	t := r.t
	t.Helper()
	old, young := fmt.Sprint("secret ", n), fmt.Sprint("secret ", n+1)
	previous := r.signer
	// Old and new credentials count; the old ones are used.
	next, err := identity.NewAuthority(fmt.Sprint("authority ", n+1), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	r.trusted = []*identity.Authority{previous, next}
	r.replaceKeys()
	r.replaceSecrets(old, young)
	r.allowTokens(n, n+1)
	r.awaitSettled()
	// Old and new credentials count; the new ones are used.
	r.signer = next
	r.replaceKeys()
	r.replaceSecrets(young, old)
	r.useToken(n + 1)
	r.awaitSettled()
	stolen := filepath.Join(t.TempDir(), "stolen")
	if err := previous.Issue(stolen, identity.Identity{Roles: identity.Client, Tenant: "acme"}, time.Hour, previous,
		next); err != nil {
		t.Fatal(err)
	}
	keys, err := identity.Open(stolen)
	if err != nil {
		t.Fatal(err)
	}
	ask := func(addr string) error {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		shows := map[string]client.Option{"certificates": client.WithTLS(stolen), "secrets": client.WithSecret(old),
			"tokens": client.WithTokenFile(r.tokenFile(n))}
		c, err := client.New([]string{addr}, shows[r.credential], client.WithRetryFor(time.Second))
		if err != nil {
			return err
		}
		defer c.Close()
		_, err = c.Workers(ctx)
		return err
	}
	for _, api := range r.apis {
		if err := ask(api); err != nil {
			t.Errorf("what is old is refused while it counts: %v", err)
		}
	}
	var there net.Conn // a connection made while the old certificate counted
	if r.credential == "certificates" {
		if there, err = keys.Connect(t.Context(), new(net.Dialer).DialContext, r.apis[0],
			identity.Frontend); err != nil {
			t.Fatal(err)
		}
		defer there.Close()
	}
	// Only the new credentials count.
	r.trusted = []*identity.Authority{next}
	r.replaceKeys()
	r.replaceSecrets(young)
	r.allowTokens(n + 1)
	since := time.Now()
	for _, api := range r.apis {
		r.awaitRefused("the old one at "+api, since, func() error { return ask(api) })
	}
	if there != nil {
		there.SetReadDeadline(time.Now().Add(patience))
		if _, err := there.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("a connection of the old certificate lives on: %v", err)
		}
	}
	r.awaitSettled()
}
