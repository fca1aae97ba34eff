// Package grafana holds the dashboard and the alerts, and tests them.
package grafana

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/phoebe-sched/phoebe/probe/ports/porttest"
)

// query is a query of a panel, or the value compared by an alert. owner is the panel's title, or the name of the
// alert.
type query struct{ owner, expr string }

// readQueries reads all queries of phoebe.json and alerts.yaml, with the variables filled in.
func readQueries(t *testing.T) (list []query) {
	t.Helper()
	var board struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	text, err := os.ReadFile("phoebe.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &board); err != nil {
		t.Fatal(err)
	}
	variables := strings.NewReplacer("$__rate_interval", "30s", "$policy", ".*", "$tenant", ".*", "$path", ".*")
	for _, p := range board.Panels {
		for _, target := range p.Targets {
			list = append(list, query{p.Title, variables.Replace(target.Expr)})
		}
	}
	alerts, err := os.ReadFile("alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	name := ""
	for line := range strings.Lines(string(alerts)) {
		if alert, ok := strings.CutPrefix(strings.TrimSpace(line), "- alert: "); ok {
			name = alert
		}
		if expr, ok := strings.CutPrefix(strings.TrimSpace(line), "expr: "); ok {
			i := strings.LastIndexAny(expr, "<>")
			list = append(list, query{name, strings.NewReplacer("[5m]", "[30s]", "[10m]", "[30s]").Replace(expr[:i])})
		}
	}
	if len(list) < 30 {
		t.Fatalf("only %d queries are found", len(list))
	}
	return list
}

// The table of metrics has every metric in panels and alerts.
func TestNames(t *testing.T) {
	table, err := os.ReadFile("../../probe/exposition/METRICS.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range readQueries(t) {
		for _, name := range regexp.MustCompile(`phoebe_[a-z_]+`).FindAllString(q.expr, -1) {
			if !strings.Contains(string(table), "`"+strings.TrimSuffix(name, "_bucket")+"`") {
				t.Errorf("%s asks for %s, which is not exposed", q.owner, name)
			}
		}
	}
}

// alerts.test.yaml tests that each alert fires, and that it clears.
func TestAlertsTested(t *testing.T) {
	read := func(file string) string {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	alerts, tests := regexp.MustCompile(`- alert: (\w+)`).FindAllStringSubmatch(read("alerts.yaml"), -1),
		read("alerts.test.yaml")
	if len(alerts) < 10 {
		t.Fatalf("only %d alerts are found", len(alerts))
	}
	for _, alert := range alerts {
		for event, expected := range map[string]string{"fires": `\[\{`, "clears": `\[\]`} {
			if !regexp.MustCompile(`alertname: ` + alert[1] + `(,|\n) *exp_alerts: ` + expected).MatchString(tests) {
				t.Errorf("no test tells that %s %s", alert[1], event)
			}
		}
	}
}

// Real databases scrape a cluster under load, and each query gives a number in both databases.
func TestDatabases(t *testing.T) {
	phoebe := os.Getenv("DASHBOARDS")
	if phoebe == "" {
		t.Skip("make dashboards runs it")
	}
	for _, name := range []string{"prometheus", "promtool", "victoria-metrics"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Fatalf("%v: install Debian's prometheus and victoria-metrics", err)
		}
	}
	tool := func(in io.Reader, args ...string) {
		cmd := exec.CommandContext(t.Context(), "promtool", args...)
		cmd.Stdin = in
		out, err := cmd.CombinedOutput()
		if err != nil || args[0] == "check" && args[1] == "metrics" && len(out) > 0 {
			t.Errorf("promtool %v: %v: %s", args, err, out)
		}
	}
	tool(nil, "check", "rules", "alerts.yaml")
	tool(nil, "test", "rules", "alerts.test.yaml")

	frontend, admin := "", ""
	startProcess(t, func(line string) bool {
		kind, value, _ := strings.Cut(line, " ")
		if kind == "frontend" && frontend == "" {
			frontend = value
		}
		if kind == "page" {
			admin = value
		}
		return admin != ""
	}, phoebe, "dev", "--frontend-port", "0", "--drain-timeout", "1s")
	// A second frontend gossips, and exposes the metrics of gossip.
	gossips := ""
	startProcess(t, func(line string) bool {
		_, rest, ok := strings.Cut(line, `msg="admin port serves" address=`)
		gossips, _, _ = strings.Cut(rest, " ")
		return ok
	}, phoebe, "--log-level", "info", "frontend", "--listen", "127.0.0.1:0", "--gossip", "127.0.0.1:0",
		"--heartbeat", "127.0.0.1:0", "--admin", "127.0.0.1:0")
	at, err := url.Parse(admin)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	config := filepath.Join(dir, "scrape.yaml")
	text := fmt.Sprintf(
		"global: {scrape_interval: 2s}\nscrape_configs:\n- {job_name: phoebe, static_configs: [{targets: [%q, %q]}]}\n",
		at.Host, gossips)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	databases := map[string]string{"prometheus": porttest.FreeAddress(t), "victoria-metrics": porttest.FreeAddress(t)}
	startProcess(t, nil, "prometheus", "--config.file="+config, "--storage.tsdb.path="+filepath.Join(dir, "p"),
		"--web.listen-address="+databases["prometheus"])
	startProcess(t, nil, "victoria-metrics", "-promscrape.config="+config, "-storageDataPath="+filepath.Join(dir,
		"v"), "-httpListenAddr="+databases["victoria-metrics"], "-search.latencyOffset=0s")

	measured := filepath.Join(dir, "bench.json")
	if out, err := exec.CommandContext(t.Context(), phoebe, "bench", "--connect", frontend, "--tasks-per-job", "10",
		"--task-duration", "task-exp:200ms", "--load", "0.3", "--policy", "phoebe", "--warmup", "0s", "--for",
		"15s", "--json", measured).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	p99 := benchP99(t, measured)
	for name, addr := range databases {
		var seen float64
		for try := 0; try < 120; try++ { // until it is scraped
			_, seen, err = queryNumbers(t.Context(), addr,
				"histogram_quantile(0.99, sum by (le) (phoebe_frontend_job_response_seconds_bucket))")
			if off := seen / p99; err == nil && off > 1/bucketRatio && off < bucketRatio {
				break
			}
			time.Sleep(time.Second)
		}
		t.Logf("%s: p99 is %.3f s, by the bench %.3f s", name, seen, p99)
		if off := seen / p99; err != nil || !(off > 1/bucketRatio && off < bucketRatio) {
			t.Errorf("%s: p99 is %v s, by the bench %v s: %v", name, seen, p99, err)
		}
	}
	run := exec.CommandContext(t.Context(), phoebe, "bench", "--connect", frontend, "--tasks-per-job", "10",
		"--task-duration", "mix:90%5ms,10%200ms", "--load", "0.5", "--policy", "phoebe", "--warmup", "1s", "--for",
		"300s")
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = run.Process.Kill(); _ = run.Wait() })
	long := exec.CommandContext(t.Context(), phoebe, "run", "--connect", frontend, "--mode", "estimate",
		"--estimate", "100ms", "--tasks", "400", "--function", "sleep", "--payload", "700ms")
	if err := long.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = long.Process.Kill(); _ = long.Wait() })

	until := time.Now().Add(3 * time.Minute)
	for name, addr := range databases {
		for _, q := range readQueries(t) {
			for {
				n, _, err := queryNumbers(t.Context(), addr, q.expr)
				if err == nil && n > 0 {
					break
				}
				if time.Now().After(until) {
					t.Errorf("%s: %s: %d numbers, %v: %s", name, q.owner, n, err, q.expr)
					break
				}
				time.Sleep(time.Second) // until it was scraped often enough
			}
		}
	}
	res, err := http.Get("http://" + at.Host + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	tool(res.Body, "check", "metrics")
}

// bucketRatio is the greatest ratio of neighbouring buckets' bounds in /metrics.
const bucketRatio = 1.5

// benchP99 reads the p99 of the response from the JSON of phoebe bench, in seconds.
func benchP99(t *testing.T, file string) float64 {
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var result struct {
		Runs []struct {
			Response struct{ P99 float64 } `json:"response_ms"`
		}
	}
	if err := json.Unmarshal(text, &result); err != nil || len(result.Runs) != 1 {
		t.Fatalf("%d runs: %v", len(result.Runs), err)
	}
	return result.Runs[0].Response.P99 / 1000
}

// queryNumbers counts the numbers in the answer to a query, and returns the last number.
func queryNumbers(ctx context.Context, addr, expr string) (n int, last float64, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet,
		"http://"+addr+"/api/v1/query?query="+url.QueryEscape(expr), nil)
	if err != nil {
		return 0, 0, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, 0, err
	}
	defer res.Body.Close()
	var answer struct {
		Error string
		Data  struct {
			Result []struct{ Value [2]any }
		}
	}
	if err := json.NewDecoder(res.Body).Decode(&answer); err != nil {
		return 0, 0, err
	}
	for _, r := range answer.Data.Result {
		text, _ := r.Value[1].(string)
		if x, err := strconv.ParseFloat(text, 64); err == nil && x == x { // a number
			n, last = n+1, x
		}
	}
	if answer.Error != "" {
		err = fmt.Errorf("%s", answer.Error)
	}
	return n, last, err
}

// startProcess runs a process until the test ends. It returns when found accepts a line of the output.
func startProcess(t *testing.T, found func(line string) bool, name string, args ...string) {
	t.Helper()
	cmd := exec.Command(name, args...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = cmd.Stdout // the lines of both
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	lines := bufio.NewScanner(out)
	said := ""
	for found != nil && lines.Scan() {
		said += lines.Text() + "\n"
		if found(lines.Text()) {
			found = nil
		}
	}
	if found != nil {
		t.Fatalf("%s %v ends early, %v: %s", name, args, lines.Err(), said)
	}
	go func() {
		for lines.Scan() { // it must not wait for a reader
		}
	}()
}
