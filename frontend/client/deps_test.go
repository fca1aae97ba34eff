package client

import (
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// A program gets few packages with the client: no Kitex (Kitex alone imports 499 packages), no net/http, no code of
// frontends and workers, and no operators' calls. Codecs beside JSON are in packages of their own.
func TestDependencies(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	const module = "github.com/phoebe-sched/phoebe/"
	refused := regexp.MustCompile(`^(` + strings.Join([]string{
		`net/http`, `testing`, `html/.*`,
		`github\.com/cloudwego/(kitex|netpoll|dynamicgo|frugal|thriftgo|localsession)/.*`,
		`github\.com/bytedance/sonic.*`, `google\.golang\.org/.*`, `github\.com/golang/protobuf.*`,
		`github\.com/(hashicorp|panjf2000)/.*`,
		`go\.opentelemetry\.io/otel/propagation`, `go\.opentelemetry\.io/otel/sdk.*`,
		module + `(worker|bench|cmd)\b.*`, module + `frontend/(serve|record|estimate|place|ui|view|tenants)`,
		module + `frontend/client/admin`, module + `idl/gen/phoebe/v1/phoebe`, module + `idl/typed/.*`,
		module + `probe/(histogram|gossip|exposition).*`,
	}, "|") + `)$`)
	packages := strings.Fields(string(out))
	for _, p := range packages {
		if refused.MatchString(p) {
			t.Errorf("the client depends on %s", p)
		}
	}
	// At the time of the limit: 172 packages of the standard library, and 29 others.
	if n := len(packages); n < 100 || n > 230 {
		t.Errorf("the client depends on %d packages, want 230 at most", n)
	}
}
