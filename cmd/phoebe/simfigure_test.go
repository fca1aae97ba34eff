package main_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A figure has the same bytes, whatever the number of processors.
func TestSimFigure(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	jsonFile, htmlFile := filepath.Join(dir, "f.json"), filepath.Join(dir, "f.html")
	args := []string{"sim", "figure", "additions-1ms", "--jobs", "20", "--seeds", "2", "--seed", "5", "--json",
		jsonFile, "--html", htmlFile}
	wall := regexp.MustCompile(`"wall_s": .*`)
	var first string
	for i, procs := range []string{"1", "3"} {
		s := runPhoebeIn(t, "", []string{"GOMAXPROCS=" + procs}, args...).wantExit(t, 0, "Claim: ",
			"means of seeds 5 to 6",
			"phoebe-share", "additions-1ms: ")
		same := s.out
		for _, name := range []string{jsonFile, htmlFile} {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			same += wall.ReplaceAllString(string(text), "")
		}
		if i == 0 {
			first = same
		} else if same != first {
			t.Errorf("GOMAXPROCS=%s gives another output", procs)
		}
	}
	if !strings.Contains(first, `"holds": `) || !strings.Contains(first, "<svg") {
		t.Errorf("%.300s", first)
	}
}

func TestSimFigureNames(t *testing.T) {
	t.Parallel()
	runPhoebe(t, "sim", "figure", "list").wantExit(t, 0, "late-binding  ", "cluster-size  ", "additions-uneven ")
	for _, test := range []struct {
		args []string
		says string
	}{
		{[]string{"best"}, `figure "best" is unknown: use one of load, late-binding`},
		{nil, "<name>"},
		{[]string{"load", "--scale", "huge"}, "--scale"},
		{[]string{"load", "--seeds=-1"}, "--seeds"},
		{[]string{"load", "--jobs=-1"}, "--jobs"},
		{[]string{"load", "--html", "/nonexistent/f.html"}, "--html: "},
	} {
		runPhoebe(t, append([]string{"sim", "figure"}, test.args...)...).wantExit(t, 2, test.says)
	}
}
