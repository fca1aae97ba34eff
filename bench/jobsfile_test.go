package bench

import (
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

const someJobs = `# submit_s n_tasks mean_task_s d1 … dn
10.5 2 90.5811 100.25 80.9

0 1 1e-3 0.0015
10.5	3 2 1 2 3
`

func TestReadJobs(t *testing.T) {
	ms := time.Millisecond
	want := &JobsFile{
		Jobs: []Job{
			{0, 0, []time.Duration{1500 * time.Microsecond}},
			{1, 10500 * ms, []time.Duration{100250 * ms, 80900 * ms}},
			{2, 10500 * ms, []time.Duration{1000 * ms, 2000 * ms, 3000 * ms}},
		},
		Means: []time.Duration{ms, 90581100 * time.Microsecond, 2000 * ms},
	}
	got, err := readJobs(strings.NewReader(someJobs), false)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}

	// Whole seconds apply to durations and means, not to submit times.
	want.Jobs[0].Tasks[0], want.Jobs[1].Tasks[0], want.Jobs[1].Tasks[1] = 0, 100*time.Second, 80*time.Second
	want.Means[0], want.Means[1] = 0, 90*time.Second
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	if _, err := z.Write([]byte(strings.TrimSuffix(someJobs, "\n"))); err != nil || z.Close() != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "jobs.gz")
	if err := os.WriteFile(name, zipped.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err = LoadJobs(name, true); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
}

func TestReadJobsRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"":                         "no jobs: write a line submit_s",
		"# nothing\n":              "no jobs",
		"1 1 1 1\nx 1 1 1":         `line 2, field 1 (submit_s): "x" is not a number of seconds`,
		"-1 1 1 1":                 `line 1, field 1 (submit_s): "-1" is not a number`,
		"1e300 1 1 1":              `field 1 (submit_s): "1e300" is not a number of seconds from 0 to`,
		"\n\n5":                    "line 3, field 2 (n_tasks): missing",
		"5 0 1":                    `field 2 (n_tasks): "0" is not a number of tasks, 1 or more`,
		"5 1.5 1 1":                `field 2 (n_tasks): "1.5" is not a number`,
		"5 1":                      "field 3 (mean_task_s): missing; a line is",
		"5 1 NaN 1":                `field 3 (mean_task_s): "NaN" is not a number`,
		"5 2 1 1":                  "field 2 (n_tasks): 1 durations follow the mean, not 2",
		"5 1 1 1 1":                "field 2 (n_tasks): 2 durations follow the mean, not 1",
		"5 99999999999999999999 1": `field 2 (n_tasks)`,
		"5 3 1 1 2 3s":             `field 6 (d3): "3s" is not a number of seconds`,
		"5 2 1 1 -2":               `field 5 (d2): "-2" is not a number`,
	} {
		if _, err := readJobs(strings.NewReader(text), false); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want it to say %q", text, err, want)
		}
	}
	name := filepath.Join(t.TempDir(), "jobs")
	if _, err := LoadJobs(name, false); err == nil || !strings.Contains(err.Error(), name) {
		t.Error(err)
	}
	if err := os.WriteFile(name, []byte("1 1 1 x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadJobs(name, false); err == nil || !strings.Contains(err.Error(), name+": line 1, field 4 (d1)") {
		t.Error(err)
	}
}
