package view

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/phoebe-sched/phoebe/frontend/estimate"
	"github.com/phoebe-sched/phoebe/probe"
)

var lessonTime = time.Unix(1_000_000, 0)

const most = 64 << 10

// tellLessons encodes the lessons of one view and lets another view take them.
func tellLessons(t *testing.T, from, to *View, now time.Time) {
	t.Helper()
	lessons, err := DecodeLessons(EncodeLessons(from.Lessons(time.Second, now), most))
	if err != nil {
		t.Fatal(err)
	}
	to.TakeLessons(lessons, now)
}

func drawLesson(t *rapid.T) *Lesson {
	micros := func(name string, most int64) time.Duration {
		return time.Duration(rapid.Int64Range(0, most).Draw(t, name)) * time.Microsecond
	}
	l := &Lesson{Tenant: rapid.SampledFrom([]string{"", "a", "a/b", "c"}).Draw(t, "tenant"),
		Name: rapid.SampledFrom([]string{"f", "g"}).Draw(t, "name"),
		Made: lessonTime.Unix() - rapid.Int64Range(0, 3).Draw(t, "age"),
		Runs: rapid.Uint32Range(1, 9).Draw(t, "runs"), Shortest: micros("shortest", 10),
		Used: probe.Demand{CPU: probe.Millicores(rapid.IntRange(0, 2).Draw(t, "cpu"))}}
	l.Longest = l.Shortest + micros("longer", 1e9)
	for range rapid.IntRange(1, estimate.MaxSamples).Draw(t, "samples") {
		l.Samples = append(l.Samples, estimate.RunSample{Work: micros("work", 1e9),
			Bytes: rapid.Int64Range(0, 1e12).Draw(t, "bytes"), HintRatio: rapid.Uint32Range(0, 5000).Draw(t, "ratio")})
	}
	return l
}

// Frontends come to know the same lessons, in any order of messages, and if messages repeat.
func TestLessonsMergeInAnyOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lessons := rapid.SliceOfN(rapid.Custom(drawLesson), 1, 12).Draw(t, "lessons")
		read, err := DecodeLessons(EncodeLessons(lessons, most))
		if err != nil || len(read) != len(lessons) {
			t.Fatalf("%d of %d lessons are read, %v", len(read), len(lessons), err)
		}
		for _, l := range lessons {
			if !slices.ContainsFunc(read, func(m *Lesson) bool { return reflect.DeepEqual(l, m) }) {
				t.Fatalf("%+v does not survive the wire", l)
			}
			for _, m := range lessons {
				if l.isBetterThan(m) && m.isBetterThan(l) {
					t.Fatalf("%+v and %+v beat each other", l, m)
				}
			}
		}
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		whole, parts := New(estimate.Config{}, nil), New(estimate.Config{}, nil)
		whole.TakeLessons(lessons, lessonTime)
		for range 2 {
			for _, i := range rng.Perm(len(lessons)) {
				parts.TakeLessons(lessons[i:i+1], lessonTime)
			}
		}
		parts.TakeLessons(whole.Lessons(0, lessonTime), lessonTime) // from a frontend that merged the lessons
		merged := EncodeLessons(whole.Lessons(0, lessonTime), most)
		if got := EncodeLessons(parts.Lessons(0, lessonTime), most); !bytes.Equal(got, merged) {
			t.Fatalf("in one message they are %q, one by one %q", merged, got)
		}
		for _, l := range lessons {
			for _, tenant := range []string{l.Tenant, "stranger"} {
				x, y := whole.KnownRuns(tenant, l.Name), parts.KnownRuns(tenant, l.Name)
				if x.Longest() != y.Longest() || x.Shortest() != y.Shortest() || *x.Stats() != *y.Stats() {
					t.Fatalf("%s expects %+v of %s, or %+v", tenant, x.history(), l.Name, y.history())
				}
			}
		}
	})
}

// A restarted frontend has the history back after one exchange: run times, and the errors of the tenant's hints. Other
// tenants get the run times alone. Own runs count from the eighth on.
func TestRestartedFrontendIsTaught(t *testing.T) {
	const s = time.Second
	first, second, again := New(estimate.Config{}, nil), New(estimate.Config{}, nil), New(estimate.Config{}, nil)
	for i := range 20 {
		learnRun(first, "ads", time.Duration(4+i%3)*s, 50*s)
	}
	tellLessons(t, first, second, lessonTime)
	tellLessons(t, second, again, lessonTime.Add(time.Minute)) // second never ran the function
	r := again.EnsureRuns("ads", "f")
	w := estimate.Expect(0, 0, nil, r.Stats(), s)
	if w.Run != 5*s || w.Source != estimate.FromPeers || w.Samples != 20 {
		t.Errorf("a task without a hint is %v, by %v", w, w.Source)
	}
	if r.Longest() < 6*s*3/4 || !r.Any() || r.Correct(50*s).Round(s) != 5*s {
		t.Errorf("the longest run is %v, a hint of 50 s becomes %v", r.Longest(), r.Correct(50*s))
	}
	stranger := again.EnsureRuns("polite", "f")
	if stranger.Stats().Typical() != 5*s || stranger.Correct(50*s) != 50*s {
		t.Errorf("another tenant expects %v, and a hint of 50 s becomes %v", stranger.Stats().Typical(),
			stranger.Correct(50*s))
	}
	if w := estimate.Expect(50*s, 0, nil, stranger.Stats(), s); w.Run != 50*s || w.Source != estimate.FromHint {
		t.Errorf("another tenant's task with a hint of 50 s is %v", w)
	}
	for i := range estimate.MaxSamples {
		if got := r.Stats().Typical(); got != 5*s {
			t.Fatalf("after %d own runs a task is expected to run for %v", i, got)
		}
		learnRun(again, "ads", 30*s, 0)
	}
	if w := estimate.Expect(0, 0, nil, r.Stats(), s); w.Run != 30*s || w.Source != estimate.FromFunction {
		t.Errorf("after %d own runs a task is %v", estimate.MaxSamples, w)
	}
	tellLessons(t, again, second, lessonTime.Add(2*time.Minute))
	if got := second.KnownRuns("ads", "f").Stats().Typical(); got != 30*s {
		t.Errorf("the newest full lesson says %v", got)
	}
}

// A thin lesson changes with each run. A full lesson changes every ten minutes, if the function runs at all.
func TestLessonsAreRenewed(t *testing.T) {
	v := New(estimate.Config{}, nil)
	made := func(now time.Time) *Lesson {
		list := v.Lessons(time.Second, now)
		if len(list) == 0 {
			return nil
		}
		return list[0]
	}
	learnRun(v, "a", time.Second/2, 0)
	if made(lessonTime) != nil {
		t.Error("a short function is told")
	}
	for i := range estimate.MaxSamples {
		learnRun(v, "a", time.Minute, 0)
		if l := made(lessonTime); len(l.Samples) != min(2+i, estimate.MaxSamples) || int(l.Runs) != 2+i && i < 7 {
			t.Fatalf("after %d runs the lesson has %d samples", 2+i, len(l.Samples))
		}
	}
	full := made(lessonTime)
	for range 20 {
		learnRun(v, "a", 2*time.Minute, 0)
	}
	if made(lessonTime.Add(renewLessonAfter-1)) != full {
		t.Error("a full lesson changes at once")
	}
	later := lessonTime.Add(renewLessonAfter)
	renewed := made(later)
	if renewed == full || renewed.Made != later.Unix() {
		t.Error("a full lesson is not renewed")
	}
	if made(later.Add(keepLessonsFor)) != renewed || made(later.Add(keepLessonsFor+time.Second)) != nil {
		t.Error("a lesson of a function that runs no more is kept for another time than a week")
	}
	other := New(estimate.Config{}, nil)
	for _, age := range []time.Duration{-maxLessonAhead - time.Second, keepLessonsFor + time.Second} {
		if other.TakeLessons([]*Lesson{renewed}, later.Add(age)); other.KnownRuns("a", "f") != nil {
			t.Errorf("a lesson of age %v is taken", age)
		}
	}
}

// A lesson older than a week counts as no lesson, even if newer lessons are thinner.
func TestOldLessonsCountAsNone(t *testing.T) {
	lesson := func(tenant string, made time.Time, samples int, run time.Duration) *Lesson {
		l := &Lesson{Tenant: tenant, Name: "f", Made: made.Unix(), Runs: uint32(samples), Longest: run, Shortest: run}
		for range samples {
			l.Samples = append(l.Samples, estimate.RunSample{Work: run})
		}
		return l
	}
	end := lessonTime.Add(keepLessonsFor)
	later := end.Add(time.Second)
	old := lesson("a", lessonTime, estimate.MaxSamples, time.Minute)
	thin := lesson("a", end, 1, time.Second)
	neighbour := lesson("b", end, 1, time.Hour)
	wantLesson := func(v *View, want *Lesson) {
		t.Helper()
		if got := v.Lessons(time.Second, later); !slices.Equal(got, []*Lesson{want}) {
			t.Errorf("a frontend tells %+v", got)
		}
	}
	wantLongest := func(v *View, tenant string, want time.Duration) {
		t.Helper()
		if got := v.KnownRuns(tenant, "f").Longest(); got != want {
			t.Errorf("the longest run of %q is %v, want %v", tenant, got, want)
		}
	}

	v := New(estimate.Config{}, nil)
	v.TakeLessons([]*Lesson{old, neighbour}, end)
	wantLongest(v, "a", time.Minute)
	wantLongest(v, "stranger", time.Minute)
	v.ForgetOldLessons(end)
	wantLongest(v, "a", time.Minute)
	v.ForgetOldLessons(later)
	wantLongest(v, "a", time.Hour)
	wantLongest(v, "stranger", time.Hour)
	v.ForgetOldLessons(later.Add(keepLessonsFor))
	wantLongest(v, "b", 0)
	wantLongest(v, "stranger", 0)

	v = New(estimate.Config{}, nil)
	v.TakeLessons([]*Lesson{old, thin}, end)
	v.TakeLessons([]*Lesson{thin}, later)
	wantLesson(v, thin)
	wantLongest(v, "a", time.Second)

	v = New(estimate.Config{}, nil)
	for range estimate.MaxSamples {
		learnRun(v, "a", time.Minute, 0)
	}
	v.Lessons(time.Second, lessonTime)
	v.TakeLessons([]*Lesson{thin}, end)
	wantLesson(v, thin)
}

// If a tenant brings many functions, and many tenants below, lessons of other tenants have room, and the bound holds. A
// full table takes no lessons about unknown functions.
func TestLessonsAreShared(t *testing.T) {
	lesson := func(tenant, name string, runs uint32) *Lesson {
		return &Lesson{Tenant: tenant, Name: name, Made: lessonTime.Unix(), Runs: runs, Longest: time.Hour,
			Samples: []estimate.RunSample{{Work: time.Hour}}}
	}
	var list []*Lesson
	for i := range 4000 {
		list = append(list, lesson("bully/u"+fmt.Sprint(i), "f", 1000), lesson("bully", fmt.Sprint("f", i), 1000))
	}
	polite := []*Lesson{lesson("polite", "f", 1), lesson("polite/a", "f", 1), lesson("bully/w/x", "rare", 1)}
	list = append(list, polite...)
	for i := range 4 {
		list = append(list, lesson("busy", fmt.Sprint("f", i), uint32(1+i)))
	}
	rand.New(rand.NewPCG(1, 1)).Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	b := EncodeLessons(list, 4000)
	got, err := DecodeLessons(b)
	if err != nil || len(b) > 4000 || len(b) < 3900 {
		t.Fatalf("%d bytes, %v", len(b), err)
	}
	tells := func(l *Lesson) bool {
		return slices.ContainsFunc(got, func(m *Lesson) bool { return reflect.DeepEqual(l, m) })
	}
	if !tells(polite[0]) || !tells(polite[1]) {
		t.Error("a bully takes the room of a polite tenant")
	}
	b = EncodeLessons(list, 200)
	if got, _ = DecodeLessons(b); !tells(lesson("busy", "f3", 4)) || tells(lesson("busy", "f0", 1)) {
		t.Error("the function with the most work is not told first")
	}
	var deep []*Lesson
	for i := range 10 {
		deep = append(deep, lesson("1/2/3/4/5/6/7/8/busy", fmt.Sprint("f", i), 1000),
			lesson("1/2/3/4/5/6/7/8/idle", fmt.Sprint("f", i), 1))
	}
	got, _ = DecodeLessons(EncodeLessons(deep, 200))
	if len(got) < 2 || tells(lesson("1/2/3/4/5/6/7/8/idle", "f0", 1)) {
		t.Errorf("of %d lessons, some are of a tenant that shares the room of the tenant above", len(got))
	}

	v := New(estimate.Config{}, nil)
	for i := range maxRuns {
		v.EnsureRuns("mine", fmt.Sprint(i))
	}
	v.TakeLessons(polite[:1], lessonTime)
	if v.KnownRuns("polite", "f") != nil || len(v.runs.entries) != maxRuns {
		t.Error("a lesson pushes out what this frontend has seen")
	}
}

func FuzzLessons(f *testing.F) {
	l := &Lesson{Tenant: "a/b", Name: "f\x00class", Made: lessonTime.Unix(), Runs: 3, Longest: time.Hour,
		Samples: []estimate.RunSample{{Work: time.Hour, Bytes: estimate.MaxBytes, HintRatio: 700}, {Work: time.Second}}}
	b := l.appendTo(nil)
	f.Add(b)
	f.Add(append(append([]byte{b[0] + 2}, b[1:]...), 1, 2)) // with appended fields
	f.Add(b[:len(b)-1])
	f.Fuzz(func(t *testing.T, b []byte) {
		lessons, err := DecodeLessons(b)
		again, errAgain := DecodeLessons(EncodeLessons(lessons, most))
		if errAgain != nil || len(b) <= most/2 && len(again) != len(lessons) {
			t.Fatalf("%d lessons are read, %v; and then %d, %v", len(lessons), err, len(again), errAgain)
		}
		v := New(estimate.Config{}, nil)
		v.TakeLessons(lessons, lessonTime)
		for _, l := range lessons {
			if r := v.KnownRuns(l.Tenant, l.Name); r != nil {
				r.Stats().TimeLeft(time.Second, time.Hour, 1e9, 0)
				if w := estimate.Expect(0, 1<<62, nil, r.Stats(), time.Second); w.Run < 0 || w.Dev < 0 {
					t.Fatalf("%+v makes a run of %v", l, w)
				}
			}
		}
	})
}

// BenchmarkLessons collects and encodes lessons from a full table, as a frontend does once a second. Only the
// collection holds up the core.
func BenchmarkLessons(b *testing.B) {
	v := New(estimate.Config{}, nil)
	for i := range maxRuns {
		for range estimate.MaxSamples {
			r := v.EnsureRuns("t"+fmt.Sprint(i%100), fmt.Sprint("f", i))
			r.NoteRun(time.Minute)
			r.Learn(estimate.Finished{Run: time.Minute})
		}
	}
	lessons := v.Lessons(time.Second, lessonTime)
	b.Run("collect", func(b *testing.B) {
		for b.Loop() {
			v.Lessons(time.Second, lessonTime)
		}
	})
	b.Run("encode", func(b *testing.B) {
		for b.Loop() {
			EncodeLessons(lessons, most)
		}
	})
}
