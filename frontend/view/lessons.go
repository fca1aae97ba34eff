package view

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/phoebe-sched/phoebe/frontend/estimate"
	"github.com/phoebe-sched/phoebe/probe"
)

// The history of a frontend ends with the process. So frontends tell each other lessons, and a frontend that starts
// knows the long functions at once. Of several lessons about the same tasks the best counts (Lesson.isBetterThan). The
// order of lessons is total, and each frontend passes on the best known lesson. So all frontends come to hold the same
// lessons, in any order and for any number of messages.

const (
	// renewLessonAfter is the age at which a full lesson is made anew, if the function has run since. A new lesson goes
	// to all frontends, so lessons must not change with each run. The time was chosen.
	renewLessonAfter = 10 * time.Minute
	// keepLessonsFor is the age up to which a lesson counts, and a frontend passes the lesson on. An older lesson
	// counts as no lesson.
	keepLessonsFor = 7 * 24 * time.Hour
	// maxLessonAhead bounds the lead of another frontend's clock. Without a bound, the lessons of a clock that is a
	// year ahead would count for a year.
	maxLessonAhead = time.Hour
	// maxShareLevels bounds the levels of tenants that share the room for lessons. For each level, all lessons are
	// sorted each second. A path may have 127 levels, which took a twentieth of a core. The number was chosen.
	maxShareLevels = 8
	// maxLessonName bounds the bytes of a tenant's path, and of a name. Longer ones are not told.
	maxLessonName = 255
)

// Lesson is a summary of a tenant's history of the tasks remembered by a name. A Lesson never changes.
type Lesson struct {
	Tenant, Name      string
	Made              int64 // Unix time in seconds, by the clock of the frontend that made the lesson
	Runs              uint32
	Longest, Shortest time.Duration // whole microseconds
	Used              probe.Demand
	Samples           []estimate.RunSample // 1 to estimate.MaxSamples
}

// heardLesson is a lesson of another frontend, and the history that follows from the lesson.
type heardLesson struct {
	lesson  *Lesson
	history history
}

// isBetterThan reports whether l counts rather than m: the lesson with more samples, then the lesson made later. The
// further comparisons only make the order total. m may be nil.
func (l *Lesson) isBetterThan(m *Lesson) bool {
	if m == nil {
		return true
	}
	order := cmp.Or(cmp.Compare(len(l.Samples), len(m.Samples)), cmp.Compare(l.Made, m.Made),
		cmp.Compare(l.Runs, m.Runs))
	if order == 0 && l != m {
		order = bytes.Compare(l.appendTo(nil), m.appendTo(nil))
	}
	return order > 0
}

// isCurrent reports whether l may be passed on, taken and used.
func (l *Lesson) isCurrent(now time.Time) bool {
	age := now.Sub(time.Unix(l.Made, 0))
	return -maxLessonAhead <= age && age <= keepLessonsFor
}

// Lessons returns the best known lesson about each function with a recent run of at least leastRun, own lessons and
// lessons of other frontends, in no order. Shorter functions are learnt again in a moment.
func (v *View) Lessons(leastRun time.Duration, now time.Time) []*Lesson {
	var lessons []*Lesson
	for _, r := range v.runs.entries {
		if r.own.longest >= leastRun {
			r.updateLesson(now)
		}
		var best *Lesson
		if r.lesson != nil && r.lesson.isCurrent(now) {
			best = r.lesson
		}
		if r.heard != nil && r.heard.lesson.isCurrent(now) && r.heard.lesson.isBetterThan(best) {
			best = r.heard.lesson
		}
		if best != nil {
			lessons = append(lessons, best)
		}
	}
	return lessons
}

// updateLesson makes a lesson of the own runs, if the last lesson is thin or old, and there are new runs.
func (r *Runs) updateLesson(now time.Time) {
	h, last := &r.own, r.lesson
	runs := uint32(min(h.stats.N(), math.MaxInt32))
	if runs == 0 || len(r.key.tenant) > maxLessonName || len(r.key.name) > maxLessonName {
		return
	}
	if last != nil && (last.Runs == runs || len(last.Samples) == estimate.MaxSamples &&
		now.Sub(time.Unix(last.Made, 0)) < renewLessonAfter) {
		return
	}
	r.lesson = &Lesson{Tenant: r.key.tenant, Name: r.key.name, Made: now.Unix(), Runs: runs,
		Longest: h.longest.Truncate(time.Microsecond), Shortest: h.shortest.Truncate(time.Microsecond),
		Used: h.stats.Used(), Samples: h.stats.Samples()}
}

// TakeLessons takes lessons of other frontends. While the table of runs is full, lessons about tasks without an entry
// do not count, because the history of this frontend comes first.
func (v *View) TakeLessons(lessons []*Lesson, now time.Time) {
	v.ForgetOldLessons(now)
	t := &v.runs
	for _, l := range lessons {
		if !l.isCurrent(now) {
			continue
		}
		r := t.entries[runsKey{l.Tenant, l.Name}]
		if r == nil {
			if len(t.entries) >= maxRuns {
				continue
			}
			r = v.EnsureRuns(l.Tenant, l.Name)
		}
		r.takeLesson(l)
		r.others.takeLesson(l.withoutTenant())
		t.noteLessonEnd(r)
	}
}

// ForgetOldLessons forgets the lessons of other frontends that are older than keepLessonsFor (7 days).
func (v *View) ForgetOldLessons(now time.Time) {
	if !v.runs.lessonsUntil.IsZero() { // seldom: so most steps cost no call
		v.runs.forgetOldLessons(now)
	}
}

func (t *runsTable) forgetOldLessons(now time.Time) {
	if !now.After(t.lessonsUntil) {
		return
	}
	for _, r := range t.entries {
		r.forgetOldLesson(now)
		r.others.forgetOldLesson(now)
	}
	t.lessonsUntil = time.Time{}
	for _, r := range t.entries {
		if r.heard != nil { // an old lesson may have kept this lesson from the others
			r.others.takeLesson(r.heard.lesson.withoutTenant())
		}
		t.noteLessonEnd(r)
	}
}

// noteLessonEnd notes when the lessons of r, and of the others of r, become too old.
func (t *runsTable) noteLessonEnd(r *Runs) {
	for _, x := range [...]*Runs{r, r.others} {
		if x.heard == nil {
			continue
		}
		end := time.Unix(x.heard.lesson.Made, 0).Add(keepLessonsFor)
		if t.lessonsUntil.IsZero() || end.Before(t.lessonsUntil) {
			t.lessonsUntil = end
		}
	}
}

func (r *Runs) forgetOldLesson(now time.Time) {
	if r.heard != nil && !r.heard.lesson.isCurrent(now) {
		r.heard = nil
	}
}

func (r *Runs) takeLesson(l *Lesson) {
	if r.heard != nil && !l.isBetterThan(r.heard.lesson) {
		return
	}
	r.heard = &heardLesson{l, history{count: int(l.Runs), longest: l.Longest, shortest: l.Shortest,
		stats: estimate.StatsOf(l.Samples, int(l.Runs), l.Used)}}
}

// withoutTenant returns l as a lesson for other tenants, without the errors of the tenant's estimates.
func (l *Lesson) withoutTenant() *Lesson {
	m := *l
	m.Tenant, m.Samples = "", slices.Clone(l.Samples)
	for i := range m.Samples {
		m.Samples[i].HintRatio = 0
	}
	return &m
}

// slotTime returns the time for which the tasks behind a lesson have kept a slot.
func (l *Lesson) slotTime() float64 {
	sum := 0.0
	for i := range l.Samples {
		sum += l.Samples[i].Work.Seconds()
	}
	return sum / float64(len(l.Samples)) * float64(l.Runs)
}

// EncodeLessons encodes lessons for other frontends, in at most maxBytes. If not all lessons fit, each tenant has the
// same room, for the functions with the most slot time. The tenants below a tenant share the room of the tenant in the
// same way, for maxShareLevels levels. The order of lessons does not matter.
//
//	lesson = length of the rest | tenant | name | made | runs | longest | shortest | CPU | memory |
//	         number of samples | work, bytes and ratio of each sample
//
// Strings begin with their length. Times are in microseconds. Readers ignore bytes behind the known fields.
func EncodeLessons(lessons []*Lesson, maxBytes int) []byte {
	candidates := make([]candidate, len(lessons))
	total := 0
	for i, l := range lessons {
		b := l.appendTo(nil)
		candidates[i] = candidate{Lesson: l, encoded: b, slotTime: l.slotTime()}
		total += len(b)
	}
	if total > maxBytes {
		sortByShare(candidates)
		total = 0
		for i := range candidates {
			if total += len(candidates[i].encoded); total > maxBytes {
				candidates = candidates[:i]
				break
			}
		}
	}
	slices.SortFunc(candidates, candidate.compareKey)
	var b []byte
	for i := range candidates {
		b = append(b, candidates[i].encoded...)
	}
	return b
}

// candidate is a lesson that may be told.
type candidate struct {
	*Lesson
	encoded  []byte
	slotTime float64
	turn     int // among the lessons of its tenant at a level
}

func (c candidate) compareKey(d candidate) int {
	return cmp.Or(strings.Compare(c.Tenant, d.Tenant), strings.Compare(c.Name, d.Name))
}

// sortByShare sorts lessons so that each beginning of the list is shared among tenants. The lessons of each tenant
// are ordered by slot time, and then take turns with the lessons of the tenants beside, level by level.
func sortByShare(candidates []candidate) {
	deepest := 0
	for i := range candidates {
		deepest = min(max(deepest, 1+strings.Count(candidates[i].Tenant, "/")), maxShareLevels)
	}
	slices.SortFunc(candidates, func(c, d candidate) int {
		return cmp.Or(cmp.Compare(d.slotTime, c.slotTime), c.compareKey(d))
	})
	for level := deepest; level > 0; level-- {
		turns := map[string]int{}
		for i := range candidates {
			tenant := tenantAbove(candidates[i].Tenant, level)
			candidates[i].turn = turns[tenant]
			turns[tenant]++
		}
		slices.SortStableFunc(candidates, func(c, d candidate) int { return cmp.Compare(c.turn, d.turn) })
	}
}

// tenantAbove returns the first levels of a tenant's path.
func tenantAbove(path string, levels int) string {
	for i := range len(path) {
		if path[i] == '/' {
			if levels--; levels == 0 {
				return path[:i]
			}
		}
	}
	return path
}

// appendTo appends the encoding of l with its length.
func (l *Lesson) appendTo(b []byte) []byte {
	var room [256]byte
	fields := room[:0]
	add := func(n int64) { fields = binary.AppendUvarint(fields, uint64(max(n, 0))) }
	for _, s := range []string{l.Tenant, l.Name} {
		add(int64(len(s)))
		fields = append(fields, s...)
	}
	add(l.Made)
	add(int64(l.Runs))
	add(l.Longest.Microseconds())
	add(l.Shortest.Microseconds())
	add(int64(l.Used.CPU))
	add(int64(l.Used.Mem))
	add(int64(len(l.Samples)))
	for _, s := range l.Samples {
		add(s.Work.Microseconds())
		add(s.Bytes)
		add(int64(s.HintRatio))
	}
	return append(binary.AppendUvarint(b, uint64(len(fields))), fields...)
}

var errLesson = errors.New("a lesson is cut short, or out of range")

// DecodeLessons decodes lessons of another frontend. If the error is not nil, the lessons before the error are valid.
func DecodeLessons(b []byte) (lessons []*Lesson, err error) {
	for len(b) > 0 {
		size, n := binary.Uvarint(b)
		if n <= 0 || size > uint64(len(b)-n) {
			return lessons, errLesson
		}
		r := lessonReader{buf: b[n : n+int(size)]}
		l := r.readLesson()
		if r.failed {
			return lessons, fmt.Errorf("lesson %d: %w", len(lessons), errLesson)
		}
		lessons, b = append(lessons, l), b[n+int(size):]
	}
	return lessons, nil
}

// lessonReader takes fields off the front of buf. After a failure all fields are zero.
type lessonReader struct {
	buf    []byte
	failed bool
}

func (r *lessonReader) readUpTo(most uint64) uint64 {
	v, n := binary.Uvarint(r.buf)
	if n <= 0 || v > most {
		r.failed, r.buf = true, nil
		return 0
	}
	r.buf = r.buf[n:]
	return v
}

func (r *lessonReader) readTime() time.Duration {
	return time.Duration(r.readUpTo(uint64(math.MaxInt64/time.Microsecond))) * time.Microsecond
}

func (r *lessonReader) readName() string {
	n := int(r.readUpTo(min(maxLessonName, uint64(len(r.buf)))))
	if n > len(r.buf) {
		r.failed, r.buf = true, nil
		return ""
	}
	s := string(r.buf[:n])
	r.buf = r.buf[n:]
	return s
}

func (r *lessonReader) readLesson() *Lesson {
	l := &Lesson{Tenant: r.readName(), Name: r.readName(), Made: int64(r.readUpTo(math.MaxInt32 << 8)),
		Runs: uint32(r.readUpTo(math.MaxUint32)), Longest: r.readTime(), Shortest: r.readTime()}
	l.Used = probe.Demand{CPU: probe.Millicores(r.readUpTo(math.MaxInt32)), Mem: probe.MiB(r.readUpTo(math.MaxInt32))}
	l.Samples = make([]estimate.RunSample, r.readUpTo(estimate.MaxSamples))
	for i := range l.Samples {
		l.Samples[i] = estimate.RunSample{Work: r.readTime(), Bytes: int64(r.readUpTo(estimate.MaxBytes)),
			HintRatio: uint32(r.readUpTo(math.MaxUint32))}
	}
	if len(l.Samples) == 0 || l.Runs == 0 || l.Shortest > l.Longest {
		r.failed = true
	}
	return l
}
