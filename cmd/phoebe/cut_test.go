package main_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// adminURL returns the URL of the admin port of a process with --admin and --log-level info.
func adminURL(t testing.TB, p *process) (url string) {
	t.Helper()
	waitUntil(t, func() error {
		if _, rest, ok := strings.Cut(p.errs.String(), `msg="admin port serves" address=`); ok {
			url = "http://" + strings.Fields(rest)[0]
			return nil
		}
		return fmt.Errorf("no admin port: %s", p.errs.String())
	})
	return url
}

// An interrupted benchmark prints and writes its measurements so far.
func TestBenchCutShort(t *testing.T) {
	t.Parallel()
	c := startDev(t, "--admin", ":0", "--log-level", "info")
	url := adminURL(t, c.process)
	results := regexp.MustCompile(`phoebe_frontend_tasks_total\{outcome="result"\} (\d+)`)
	dir := t.TempDir()
	jsonFile, htmlFile := filepath.Join(dir, "b.json"), filepath.Join(dir, "b.html")
	b := startPhoebe(t, "bench", "--connect", c.connect, "--load", "0.1", "--task-duration", "fixed:2ms",
		"--tasks-per-job",
		"2", "--warmup", "0s", "--for", "10m",
		"--policy", "phoebe,random", "--json", jsonFile, "--html", htmlFile)
	waitUntil(t, func() error {
		res, err := http.Get(url + "/metrics")
		if err != nil {
			return err
		}
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		if err != nil {
			return err
		}
		if m := results.FindSubmatch(body); m != nil {
			if n, _ := strconv.Atoi(string(m[1])); n >= 100 {
				return nil
			}
		}
		return fmt.Errorf("few results")
	})
	b.sendSignal(syscall.SIGINT)
	if code := b.awaitEnd(); code != 130 {
		t.Errorf("exit code %d", code)
	}
	b.awaitLines("phoebe", 1)
	b.awaitLines("cut", 1)
	text, err := os.ReadFile(jsonFile)
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		CutShort string `json:"cut_short"`
		Runs     []struct {
			Jobs, Errors int
			CutShortS    float64 `json:"cut_short_s"`
			Achieved     float64 `json:"achieved_tasks_per_s"`
		}
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(doc.CutShort, "interrupt") || len(doc.Runs) != 1 || doc.Runs[0].Jobs < 10 ||
		doc.Runs[0].CutShortS <= 0 ||
		doc.Runs[0].Achieved*doc.Runs[0].CutShortS < float64(doc.Runs[0].Jobs) {
		t.Errorf("%+v", doc)
	}
	if html, err := os.ReadFile(htmlFile); err != nil || !strings.Contains(string(html), "Cut short") ||
		!strings.Contains(string(html), "</html>") {
		t.Errorf("%v in %.100s", err, html)
	}
}

// A benchmark that is interrupted before the first measurement prints nothing, and writes no file.
func TestBenchCutShortAtOnce(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "b.json")
	c := startDev(t)
	b := startPhoebe(t, "bench", "--connect", c.connect, "--warmup", "10m", "--for", "10m", "--json", name)
	cl := newClient(t, c.frontends...)
	waitUntil(t, func() error {
		said, err := cl.Cluster(t.Context())
		if err == nil && said.Jobs == 0 {
			err = fmt.Errorf("no jobs")
		}
		return err
	})
	b.sendSignal(syscall.SIGTERM)
	if code := b.awaitEnd(); code != 143 {
		t.Errorf("exit code %d", code)
	}
	if _, err := os.Stat(name); !os.IsNotExist(err) {
		t.Errorf("%v", err)
	}
}
