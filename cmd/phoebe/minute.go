package main

import (
	"fmt"

	"github.com/phoebe-sched/phoebe/frontend/client/admin"
	"github.com/phoebe-sched/phoebe/probe/units"
)

// minuteJSON holds the counts of the last minute.
type minuteJSON struct {
	Seconds        float64 `json:"seconds"` // length of the counted time: less than 60 at the start of a frontend
	Jobs           int64   `json:"jobs"`    // ended
	Tasks          int64   `json:"tasks"`   // with an outcome
	Failed         int64   `json:"failed"`  // tasks without a result
	JobsPerSecond  float64 `json:"jobs_per_s"`
	TasksPerSecond float64 `json:"tasks_per_s"`
	P99Micros      int64   `json:"response_p99_us"` // of the jobs; 0: no job has ended
}

// minuteOf converts counts to JSON. Nil stays nil.
func minuteOf(m *admin.LastMinute) *minuteJSON {
	if m == nil {
		return nil
	}
	return &minuteJSON{
		Seconds: m.Length.Seconds(), Jobs: m.Jobs, Tasks: m.Tasks, Failed: m.Failed,
		JobsPerSecond: perSecond(m, m.Jobs), TasksPerSecond: perSecond(m, m.Tasks),
		P99Micros: m.Responses.Quantile(0.99).Microseconds(),
	}
}

// perSecond returns the rate of n events in the counted time.
func perSecond(m *admin.LastMinute, n int64) float64 {
	if m.Length <= 0 {
		return 0
	}
	return float64(n) / m.Length.Seconds()
}

// addMinute adds the counts of another frontend to a sum. Nil adds nothing.
func addMinute(sum, m *admin.LastMinute) {
	if m == nil {
		return
	}
	sum.Length = max(sum.Length, m.Length)
	sum.Jobs, sum.Tasks, sum.Failed = sum.Jobs+m.Jobs, sum.Tasks+m.Tasks, sum.Failed+m.Failed
	sum.Responses.Merge(&m.Responses)
}

// sumMinutes returns the counts of all frontends with an answer. Nil: no frontend counts, or the caller may not see.
func sumMinutes(answers []answer) (sum *admin.LastMinute) {
	for _, a := range distinctAnswers(answers) {
		if sum == nil && a.cluster.LastMinute != nil {
			sum = &admin.LastMinute{}
		}
		addMinute(sum, a.cluster.LastMinute)
	}
	return sum
}

// countsText formats counts for status and top.
func countsText(m *admin.LastMinute) string {
	return fmt.Sprintf("%d jobs ended (%s/s, p99 %s), %d tasks (%s/s), %d of them without a result",
		m.Jobs, units.Rate(perSecond(m, m.Jobs)), quantileText(&m.Responses, 0.99), m.Tasks,
		units.Rate(perSecond(m, m.Tasks)), m.Failed)
}

// minuteColumns returns the columns of phoebe tenants about the last minute.
func minuteColumns(m *admin.LastMinute) string {
	if m == nil {
		return "0\t0\t0\t-"
	}
	return fmt.Sprintf("%s\t%s\t%d\t%s", units.Rate(perSecond(m, m.Jobs)), units.Rate(perSecond(m, m.Tasks)), m.Failed,
		quantileText(&m.Responses, 0.99))
}
