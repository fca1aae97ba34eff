package bench

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// JobsFile is a workload listed in a file, job by job.
type JobsFile struct {
	Jobs  []Job           // by At; durations are whole nanoseconds, and may be 0
	Means []time.Duration // by job: the mean duration of its tasks as given in the file
}

// LoadJobs reads a file of jobs, plain or gzipped. A line has numbers with blanks in between,
//
//	submit_s n_tasks mean_task_s d1 … dn
//
// in seconds and fractions of a second. Lines may come in any order of their submit times. LoadJobs skips empty
// lines, and lines that begin with #. With wholeSeconds, durations and means lose their fractions, as in simulators
// that count in seconds; submit times keep theirs.
func LoadJobs(path string, wholeSeconds bool) (*JobsFile, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("jobs file: %w", err)
	}
	defer f.Close()
	jobs, err := readJobs(f, wholeSeconds)
	if err != nil {
		return nil, fmt.Errorf("jobs file %s: %w", path, err)
	}
	return jobs, nil
}

func readJobs(r io.Reader, wholeSeconds bool) (*JobsFile, error) {
	in := bufio.NewReader(r)
	if magic, _ := in.Peek(2); bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		z, err := gzip.NewReader(in)
		if err != nil {
			return nil, err
		}
		in = bufio.NewReader(z)
	}
	type row struct {
		job  Job
		mean time.Duration
	}
	var rows []row
	for line := 1; ; line++ {
		text, err := in.ReadString('\n')
		if err != nil && err != io.EOF {
			return nil, fmt.Errorf("line %d: %w", line, err)
		}
		if fields := strings.Fields(text); len(fields) > 0 && !strings.HasPrefix(fields[0], "#") {
			job, mean, err := parseJob(fields, wholeSeconds)
			if err != nil {
				return nil, fmt.Errorf("line %d, %w", line, err)
			}
			rows = append(rows, row{job, mean})
		}
		if err == io.EOF {
			break
		}
	}
	if len(rows) == 0 {
		return nil, errors.New("no jobs: write a line submit_s n_tasks mean_task_s d1 … dn for each job")
	}
	slices.SortStableFunc(rows, func(a, b row) int { return cmp.Compare(a.job.At, b.job.At) })
	file := &JobsFile{Jobs: make([]Job, len(rows)), Means: make([]time.Duration, len(rows))}
	for i, row := range rows {
		file.Jobs[i], file.Means[i] = row.job, row.mean
		file.Jobs[i].Index = i
	}
	return file, nil
}

// maxSubmit, a hundred years, bounds every field of a jobs file in seconds.
const maxSubmit = 100 * 365 * 24 * time.Hour

// parseJob reads the fields of a line. Its errors name the field, and follow "line N, ".
func parseJob(fields []string, wholeSeconds bool) (job Job, mean time.Duration, err error) {
	seconds := func(i int, name string, whole bool) (time.Duration, error) {
		if i >= len(fields) {
			return 0, fmt.Errorf("field %d (%s): missing; a line is submit_s n_tasks mean_task_s d1 … dn", i+1, name)
		}
		v, err := strconv.ParseFloat(fields[i], 64)
		if err != nil || !(v >= 0 && v <= maxSubmit.Seconds()) {
			return 0, fmt.Errorf("field %d (%s): %q is not a number of seconds from 0 to %.0f", i+1, name,
				fields[i], maxSubmit.Seconds())
		}
		if whole {
			v = math.Trunc(v)
		}
		return time.Duration(math.Round(v * float64(time.Second))), nil
	}
	if job.At, err = seconds(0, "submit_s", false); err != nil {
		return job, 0, err
	}
	if len(fields) < 2 {
		return job, 0, errors.New("field 2 (n_tasks): missing; a line is submit_s n_tasks mean_task_s d1 … dn")
	}
	n, err := strconv.Atoi(fields[1])
	if err != nil || n < 1 {
		return job, 0, fmt.Errorf("field 2 (n_tasks): %q is not a number of tasks, 1 or more", fields[1])
	}
	if mean, err = seconds(2, "mean_task_s", wholeSeconds); err != nil {
		return job, 0, err
	}
	if found := len(fields) - 3; found != n {
		return job, 0, fmt.Errorf("field 2 (n_tasks): %d durations follow the mean, not %d", found, n)
	}
	job.Tasks = make([]time.Duration, n)
	for i := range job.Tasks {
		if job.Tasks[i], err = seconds(3+i, fmt.Sprint("d", i+1), wholeSeconds); err != nil {
			return job, 0, err
		}
	}
	return job, mean, nil
}
