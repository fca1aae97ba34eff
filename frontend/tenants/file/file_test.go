package file

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/phoebe-sched/phoebe/frontend/tenants"
	"github.com/phoebe-sched/phoebe/probe"
)

const good = `
revision: 7
tenants:
  "*": {tokens: 2, queue: 50}
  web: {tokens: 30, max: 60}
  ads: {tokens: 10, queue: 1000}
  ads/etl: {tokens: 3}
  ads/night: {queue: 5}   # its tokens are the default's
`

func TestParse(t *testing.T) {
	f, err := Parse("tenants.yaml", []byte("\ufeff"+good)) // some editors put a byte order mark in front
	if err != nil {
		t.Fatal(err)
	}
	if f.Revision != 7 || string(f.Text) != "\ufeff"+good {
		t.Errorf("revision %d", f.Revision)
	}
	for path, want := range map[string]tenants.Entry{
		"web":       {Path: "web", Tokens: 30, Max: 60},
		"ads/etl":   {Path: "ads/etl", Tokens: 3},
		"ads/night": {Path: "ads/night", Tokens: 2, Queue: 5},
		"ads/new":   {Path: tenants.Default, Tokens: 2, Queue: 50},
		"":          {Path: tenants.Default, Tokens: 2, Queue: 50},
	} {
		if e := f.Entry(path); !reflect.DeepEqual(*e, want) {
			t.Errorf("entry of %q: %+v, want %+v", path, *e, want)
		}
	}
	for tenant, want := range map[string][]uint32{"web": {30}, "ads/etl": {10, 3}, "ads/etl/x": {10, 3, 2}, "": {2}} {
		if ws := f.Weights(tenant); !slices.Equal(ws, want) {
			t.Errorf("weights of %q: %v, want %v", tenant, ws, want)
		}
	}
	var none *tenants.File
	if none.Weights("web") != nil || none.Entry("web").Tokens != 1 {
		t.Error("without a file, tenants weigh the same, and nothing is said of it")
	}
}

func hashOf(n byte) string { return fmt.Sprintf("%x", tenants.Hash{n}) }

// The tenants of tokens and certificates, and the functions tenants may run.
func TestIdentities(t *testing.T) {
	f, err := Parse("f",
		[]byte("revision: 1\ntenants:\n  ads: {functions: [echo, sum]}\n  ads/etl:\n    token-hashes: ["+hashOf(
			1)+", "+hashOf(2)+"]\n    certificates: [client/night]\n    functions: [sum, sort]\n"))
	if err != nil {
		t.Fatal(err)
	}
	for n, want := range map[byte]string{1: "ads/etl", 2: "ads/etl", 3: ""} {
		if tenant, known := f.OfToken(tenants.Hash{n}); tenant != want || known != (want != "") {
			t.Errorf("token %d is of %q", n, tenant)
		}
	}
	if a, b := f.OfCertificate("night"), f.OfCertificate("day"); a != "ads/etl" || b != "day" {
		t.Errorf("certificates are of %q and %q", a, b)
	}
	for _, c := range []struct{ tenant, function, by string }{{"ads/etl", "sum", ""}, {"ads/etl", "echo", "ads/etl"},
		{"ads/etl/x", "sort", "ads"}, {"ads", "sort", "ads"}, {"web", "sort", ""}} {
		if by, may := f.MayRun(c.tenant, c.function); by != c.by || may != (by == "") {
			t.Errorf("%s runs %s: %v, by %q", c.tenant, c.function, may, by)
		}
	}
	for _, c := range []struct {
		tenant, other string
		covers        bool
	}{{"ads", "ads", true}, {"ads", "ads/etl", true}, {"ads", "adsense", false}, {"ads/etl", "ads", false}, {"", "",
		true}, {"", "/x", false}, {"", "x", false}} {
		if probe.TenantCovers(c.tenant, c.other) != c.covers {
			t.Errorf("%q covers %q: %v", c.tenant, c.other, !c.covers)
		}
	}
	if (*tenants.File)(nil).TakesTokens() || !f.TakesTokens() {
		t.Error("whether tokens are taken")
	}
}

// A tenant's jobs have at most the priority in the tenant's entry, and in the entries above.
func TestPriorities(t *testing.T) {
	f, err := Parse("f", []byte(
		"revision: 1\ntenants: {ads: {priority: 5}, ads/etl: {priority: 9}, web: {priority: 0}}"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		tenant   string
		priority int32
		by       string
	}{{"ads", 5, ""}, {"ads/etl", 6, "ads"}, {"web", 0, ""}, {"web", 1, "web"}, {"web", -1, ""}, {"other", 9, ""}} {
		by := ""
		if e, may := f.MayPrioritize(c.tenant, c.priority); !may {
			by = e.Path
		}
		if by != c.by {
			t.Errorf("%s asks for priority %d: denied by %q, want %q", c.tenant, c.priority, by, c.by)
		}
	}
}

// Parse reports all flaws at once, each with a line and a remedy.
func TestFlaws(t *testing.T) {
	for text, want := range map[string][]string{
		"":                              {"f:1: the file is empty: want a revision and tenants"},
		"- a":                           {"f:1: want a revision and tenants"},
		"revision: 1\n--- 2":            {"f:2: a second document"},
		"a: [":                          {"f:1: ", "want a revision and tenants"},
		"tenants: {}":                   {"f:1: the revision is missing: write revision: 1"},
		"revision: 0":                   {`f:1: revision "0": want a whole number from 1 to`},
		"revision: 9223372036854775807": {`from 1 to 4611686018427387903, higher with each change`},
		"revision: -2":                  {`f:1: revision "-2": want a whole number`},
		"revision: 1.5":                 {`f:1: revision "1.5"`},
		"revision: 1\ntenant: {}":       {`f:2: unknown key "tenant"`},
		"revision: 1\nrevision: 2": {
			`f:2: mapping key "revision" already defined`,
		},
		"revision: 1\ntenants: 5": {"f:2: tenants: want paths"},
		"revision: 1\ntenants:\n  web: {tokens: -3}\n  ads: {tokens: 0}\n  x: {tokens: many, queue: 1.5, max: -1}\n  y:\n  z: {token: 1}\n  p: {priority: -1}\n  q: {priority: 2147483648}": {
			`f:3: tenant "web": tokens "-3": want a whole number from 1`, `f:4: tenant "ads": tokens "0"`,
			`f:5: tenant "x": tokens "many"`, `f:5: tenant "x": queue "1.5"`,
			`f:5: tenant "x": max "-1": want a whole number from 1`, `f:6: tenant "y": want an entry`,
			`f:7: tenant "z": unknown key "token": it is one of ["certificates" "functions" "max" "priority" "queue" "rate" "token-hashes" "tokens"]`,
			`f:8: tenant "p": priority "-1": want the highest priority of the tenant's jobs, a whole number from 0`,
			`f:9: tenant "q": priority "2147483648"`,
		},
		"revision: 1\ntenants:\n  a//b: {tokens: 1}\n  /a: {tokens: 1}\n  a/*: {tokens: 1}\n  1/2/3/4/5/6/7/8/9: {tokens: 1}\n  c+operator: {tokens: 1}": {
			`f:3: tenant "a//b": a part of the path is empty`, `f:4: tenant "/a"`,
			`f:5: tenant "a/*": "*" stands for all tenants`, `f:6: tenant "1/2/3/4/5/6/7/8/9": the path has 9 parts`,
			`f:7: tenant "c+operator": a + joins the roles of a certificate`,
		},
		"revision: 1\ntenants:\n  a: {tokens: 1}\n  a: {tokens: 2}": {`f:4: mapping key "a" already defined`},
		"revision: 1\ntenants:\n  a: {functions: []}\n  b: {token-hashes: [geheim]}\n  c: {token-hashes: 00}\n  d: {certificates: [web]}\n  e: {rate: 0}": {
			`f:3: tenant "a": functions want the names`,
			`f:4: tenant "b": token-hashes want the hashes that phoebe token prints`,
			`f:5: tenant "c": token-hashes want`,
			`f:6: tenant "d": certificates want`, `f:7: tenant "e": rate "0"`,
		},
		"revision: 1\ntenants:\n  a: {token-hashes: [" + hashOf(1) +
			"], certificates: [client/x]}\n  b: {certificates: [client/x]}\n  c: {token-hashes: [" + hashOf(1) +
			"]}\n  \"*\": {certificates: [client/y]}": {
			`f:4: tenant "b": the certificate client/x belongs to "a", too`,
			`f:5: tenant "c": the token of ` + hashOf(1) + ` belongs to "a", too`,
			`f:6: tenant "*" stands for other tenants and has no clients`,
		},
		"revision: 1\ntenants: &all\n  a: *all": {"f:2: anchors, aliases and <<",
			"f:3: anchors, aliases"},
		"revision: 1\ntenants: {a: " + strings.Repeat(" ", MaxText) + "}": {"f:1: the file has "},
	} {
		f, err := Parse("f", []byte(text))
		if err == nil {
			t.Errorf("%.60q is read: %+v", text, f)
			continue
		}
		if flaw := (*Flaw)(nil); !errors.As(err, &flaw) || flaw.Line == 0 {
			t.Errorf("%.60q: %v names no line", text, err)
		}
		at := 0
		for _, w := range want {
			i := strings.Index(err.Error()[at:], w)
			if i < 0 {
				t.Errorf("%.60q: want %q, in order, in\n%v", text, w, err)
				break
			}
			at += i
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(good))
	f.Add([]byte("revision: 1\ntenants: &all\n  a: *all"))
	f.Fuzz(func(t *testing.T, text []byte) {
		file, err := Parse("f", text)
		if (file == nil) == (err == nil) {
			t.Fatalf("%v and %v", file, err)
		}
		if file != nil && file.Entry("x").Tokens < 1 {
			t.Fatalf("%+v", file.Entry("x"))
		}
	})
}
