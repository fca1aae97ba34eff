package record

import (
	"testing"
	"time"
)

// A listed job is kept for a minute, as far as the room goes, although other jobs take its place.
func TestListedJobs(t *testing.T) {
	k, now := NewJobs(), start
	chosen := func(n uint64, why Why, tasks int) Chosen {
		j := &Job{ID: jobID(n), Came: start, Tasks: tasks, Trace: Trace{packed: make([]byte, tasks*100)}}
		return Chosen{Job: j, Why: why, ticket: &ticket{}}
	}
	first := chosen(1, Slow, 10)
	k.Keep(first)
	if !k.NoteListed(now, Kept{first.Job, Slow}) {
		t.Error("no room for the first job")
	}
	second := chosen(2, Slow, 10)
	second.replacesSlow = first.ticket
	k.Keep(second)
	if !k.NoteListedOpen(now, jobID(3), OpenJobBytes(10)) {
		t.Error("no room for the second job")
	}
	k.Keep(chosen(3, Listed, 10))
	found := func(n uint64) bool { _, found := k.Find(jobID(n)); return found }
	k.DropListed(now.Add(ListedFor - 1))
	if !found(1) || !found(2) || !found(3) {
		t.Errorf("found %v %v %v", found(1), found(2), found(3))
	}
	if all := k.Copy(); len(all) != 1 {
		t.Errorf("%d jobs are listed again, although only one is kept", len(all))
	}
	k.NoteListed(now.Add(time.Second), Kept{first.Job, Slow})
	k.DropListed(now.Add(ListedFor))
	if !found(1) || !found(2) || found(3) {
		t.Errorf("found %v %v %v after a minute", found(1), found(2), found(3))
	}
	k.DropListed(now.Add(ListedFor + time.Second))
	if found(1) || k.listed.bytes != 0 {
		t.Errorf("found %v, %d bytes", found(1), k.listed.bytes)
	}

	big := MaxListedBytes / attemptBytes / 2
	if !k.NoteListedOpen(now, jobID(4), OpenJobBytes(big)) || k.NoteListedOpen(now, jobID(5), OpenJobBytes(big)) {
		t.Error("the room is not bounded")
	}
	if !k.NoteListedOpen(now, jobID(4), OpenJobBytes(big)) {
		t.Error("a job listed twice takes room twice")
	}
	k.Keep(chosen(4, Listed, 10))
	if !k.NoteListedOpen(now, jobID(5), OpenJobBytes(big)) {
		t.Error("the job takes its estimated room after its end")
	}
	lost := k.Lost()
	k.Keep(chosen(5, Listed, 2*MaxListedBytes/100))
	if found(5) || k.listed.bytes > MaxListedBytes || k.Lost() != lost+1 {
		t.Errorf("found %v, %d bytes, %d lost", found(5), k.listed.bytes, k.Lost())
	}
}
