package record

import (
	"maps"
	"time"

	"github.com/phoebe-sched/phoebe/probe"
)

// A job that was listed is kept for ListedFor, so that a reader of the list may open the job. MaxListedBytes bounds the
// estimated memory of such jobs. A job beyond the bound may be forgotten earlier.
const (
	ListedFor      = time.Minute
	MaxListedBytes = 16 << 20
)

// attemptBytes is an upper bound of the packed size of an attempt: attemptFields numbers, and half are long.
const attemptBytes = 160

// OpenJobBytes estimates the memory of a job with a number of tasks, after its end.
func OpenJobBytes(tasks int) int { return 1024 + tasks*attemptBytes }

// listedJobs holds the jobs that were listed within ListedFor.
type listedJobs struct {
	byID  map[probe.JobID]*listedJob
	bytes int
}

// listedJob is a job that was listed. While the job is under way, the field job is empty.
type listedJob struct {
	until time.Time
	bytes int
	job   Kept
}

// NoteListed notes that a kept job is listed. If there is no room to remember the job for ListedFor, fits is false.
func (k *Jobs) NoteListed(now time.Time, j Kept) (fits bool) {
	return k.listed.addJob(now, j.ID, j.jobBytes(), j)
}

// NoteListedOpen notes that a job under way is listed. bytes is the job's OpenJobBytes.
func (k *Jobs) NoteListedOpen(now time.Time, id probe.JobID, bytes int) (fits bool) {
	return k.listed.addJob(now, id, bytes, Kept{})
}

// DropListed forgets the jobs that were listed more than ListedFor ago.
func (k *Jobs) DropListed(now time.Time) {
	maps.DeleteFunc(k.listed.byID, func(_ probe.JobID, l *listedJob) bool {
		isOld := !now.Before(l.until)
		if isOld {
			k.listed.bytes -= l.bytes
		}
		return isOld
	})
}

func (s *listedJobs) addJob(now time.Time, id probe.JobID, bytes int, j Kept) (fits bool) {
	before := 0
	if l := s.byID[id]; l != nil {
		before = l.bytes
	}
	if s.bytes-before+bytes > MaxListedBytes {
		return false
	}
	s.bytes += bytes - before
	s.byID[id] = &listedJob{now.Add(ListedFor), bytes, j}
	return true
}

// keepJob keeps a job that has ended, if the job was listed while under way. fits is false if the job was not listed,
// or if there is no room for the job.
func (s *listedJobs) keepJob(c Chosen) (fits bool) {
	l := s.byID[c.ID]
	if l == nil {
		return false
	}
	s.bytes += c.jobBytes() - l.bytes
	l.bytes, l.job = c.jobBytes(), Kept{c.Job, c.Why}
	if s.bytes > MaxListedBytes {
		s.bytes -= l.bytes
		delete(s.byID, c.ID)
		return false
	}
	return true
}
