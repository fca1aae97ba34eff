package ui

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/flate"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/phoebe-sched/phoebe/frontend/client"
	"github.com/phoebe-sched/phoebe/frontend/client/admin"
)

// fakeFleet fakes a fleet with a single frontend.
type fakeFleet struct {
	Fleet
	workers int
	windows []admin.Window
	clock   time.Time // of the frontend a
	watched atomic.Int64
	err     error
}

func (f *fakeFleet) Watch(context.Context, time.Duration, time.Time, int) (*admin.Watched, error) {
	f.watched.Add(1)
	if f.err != nil {
		return nil, f.err
	}
	windows := f.windows
	if windows == nil {
		windows = []admin.Window{
			{At: time.Unix(1000, 0), Length: time.Second, Series: []admin.Series{{Path: "sampling", Tenant: hostile}}}}
	}
	return &admin.Watched{
		Windows:   windows,
		Frontends: []admin.FrontendReport{{Name: "b"}, {Name: "a", Clock: f.clock}, {Name: "0", Err: "no answer"}},
	}, nil
}

func (f *fakeFleet) Figures(_ context.Context, frontend string, known int64) (*admin.Figures, error) {
	if frontend != "a" {
		return nil, fmt.Errorf("asked of %q", frontend)
	}
	list := &admin.Figures{List: 7, Workers: make([]admin.Figure, f.workers)}
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range list.Workers {
		list.Workers[i] = admin.Figure{State: stateUp, CPU: uint8(rng.IntN(256)), Wait: uint8(rng.IntN(256)),
			RoundTrip: uint8(60 + rng.IntN(30)), Silence: uint8(100 + rng.IntN(60))}
	}
	return list, nil
}

// FleetHistory has two samples of two workers, by a clock that is an hour ahead.
func (f *fakeFleet) FleetHistory(context.Context, string) (*admin.FleetHistory, error) {
	at := time.Now().Add(time.Hour)
	up := admin.Figure{State: stateUp, CPU: 255, Wait: waitFrom, RoundTrip: 255, Silence: 255}
	off := admin.Figure{State: 255, Wait: 255, RoundTrip: 255, Silence: 255}
	return &admin.FleetHistory{
		Clock: at, At: []time.Time{at.Add(-4 * time.Second), at.Add(-2 * time.Second)},
		Addresses: []string{"a:1", "b:1"},
		Samples:   [][]admin.Figure{{up, up}, {up, off}}, Gone: []admin.GoneWorker{{Name: hostile, Off: true}},
	}, nil
}

func (f *fakeFleet) ClusterPage(_ context.Context, q admin.ClusterQuery) (*admin.Cluster, error) {
	if q.Frontend == "b" {
		return &admin.Cluster{}, nil
	}
	return &admin.Cluster{Workers: []admin.Worker{{Worker: client.Worker{Name: q.Worker}}}}, nil
}

func (f *fakeFleet) Cancel(context.Context, client.Handle, string) (int, error) { return 3, nil }

func (f *fakeFleet) Trace(_ context.Context, job string, _, _ int) (*admin.Trace, error) {
	if job == "running" {
		return &admin.Trace{Trace: client.Trace{
			UnderWay: []client.UnderWay{{Task: 3, Worker: hostile, State: "runs"}},
		}}, nil
	}
	return nil, &client.RefusedError{Reason: client.UnknownJob}
}

func (f *fakeFleet) Drain(_ context.Context, worker string) error {
	if worker != "w" {
		return &client.RefusedError{Reason: client.NoWorker, Message: "not linked"}
	}
	return nil
}

func (f *fakeFleet) Maintenance(_ context.Context, _ string, in, lasts time.Duration) error {
	return fmt.Errorf("away in %v for %v", in, lasts)
}

func (f *fakeFleet) Recordings(context.Context) ([]admin.Recording, []admin.FrontendReport, error) {
	return []admin.Recording{{Frontend: "a", Name: hostile}}, nil, nil
}

func (f *fakeFleet) Recording(_ context.Context, frontend, name string, w io.Writer) error {
	if name != "x.gz" {
		return &client.RefusedError{Reason: client.Invalid, Message: "no recording"}
	}
	_, err := fmt.Fprintf(w, "%s of %s", name, frontend)
	return err
}

const hostile = `</script><img src=x onerror=alert(1)>`

// Frames are composed once for all viewers, while there is a viewer. A viewer that does not take frames in time skips
// some. At most 64 viewers are served.
func TestLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var composed atomic.Int64
		l := frameStream{composeFrame: func(context.Context) []byte {
			return fmt.Appendf(nil, "frame %d", composed.Add(1))
		}}
		var viewers []chan *frame
		for range maxViewers {
			v, ok := l.addViewer()
			if !ok {
				t.Fatal("a viewer is refused")
			}
			viewers = append(viewers, v)
		}
		if _, ok := l.addViewer(); ok {
			t.Error("there are more viewers than may be")
		}
		time.Sleep(3*frameEvery + frameEvery/2)
		synctest.Wait()
		if n := composed.Load(); n != 4 {
			t.Errorf("%d frames in 3.5 s", n)
		}
		if got := string((<-viewers[0]).plain); got != "frame 1" {
			t.Errorf("a slow viewer is sent %s first", got)
		}
		time.Sleep(frameEvery)
		synctest.Wait()
		if got := string((<-viewers[0]).plain); got != "frame 5" {
			t.Errorf("then %s, although it had skipped some", got)
		}
		for _, v := range viewers {
			l.removeViewer(v)
		}
		time.Sleep(2 * frameEvery)
		synctest.Wait()
		if n := composed.Load(); n != 5 {
			t.Errorf("%d frames, although nobody looks", n)
		}
		if v, ok := l.addViewer(); !ok {
			t.Error("nobody is let in again")
		} else if synctest.Wait(); string((<-v).plain) != "frame 6" {
			t.Error("the first frame is an old one")
		} else {
			l.removeViewer(v)
		}
		time.Sleep(2 * frameEvery)
	})
}

// A viewer of the gzip stream reads the frames from any frame on.
func TestStream(t *testing.T) {
	s := httptest.NewServer(New(&fakeFleet{workers: 4}, ""))
	defer s.Close()
	for _, encoding := range []string{"", "gzip"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+Path+"api/live", nil)
		if err != nil {
			t.Fatal(err)
		}
		if encoding != "" {
			req.Header.Set("Accept-Encoding", encoding)
		}
		c := &http.Client{Transport: &http.Transport{DisableCompression: true}}
		res, err := c.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body := io.Reader(res.Body)
		if encoding != "" {
			if body, err = gzip.NewReader(res.Body); err != nil {
				t.Fatal(err)
			}
		}
		lines := bufio.NewScanner(body)
		for n := 0; n < 2 && lines.Scan(); {
			if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				var f frameJSON
				if err := json.Unmarshal([]byte(data), &f); err != nil || f.Error != "" || len(f.Fleet.Levels) != 8 ||
					f.Fleet.Frontend != "a" {
					t.Fatalf("%v in %s", err, data)
				}
				n++
			}
		}
		if err := lines.Err(); err != nil {
			t.Error(err)
		}
		res.Body.Close()
	}
}

// squeezedSize returns the bytes of a frame as sent.
func squeezedSize(t *testing.T, plain []byte) int {
	var b bytes.Buffer
	z, err := flate.NewWriter(&b, squeezeLevel)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := z.Write(streamEvent(plain)); err != nil {
		t.Fatal(err)
	}
	if err := z.Flush(); err != nil {
		t.Fatal(err)
	}
	return b.Len()
}

// A frame of a large fleet is small, and a frame without an answer says so.
func TestFrame(t *testing.T) {
	large := New(&fakeFleet{workers: 20_000}, "").composeFrame(t.Context())
	if n := squeezedSize(t, large); n > 100_000 {
		t.Errorf("a frame of 20,000 workers takes %d bytes", n)
	} else {
		t.Logf("a frame of 20,000 workers takes %d bytes", n)
	}
	windows, rng := make([]admin.Window, 5), rand.New(rand.NewPCG(1, 2))
	for i := range windows {
		for range 1000 {
			name := make([]byte, 64)
			for k := range name {
				name[k] = byte(' ' + rng.IntN('~'-' '))
			}
			windows[i].Series = append(windows[i].Series, admin.Series{Tenant: string(name)})
		}
	}
	tenants := New(&fakeFleet{workers: 20_000, windows: windows}, "").composeFrame(t.Context())
	if n := squeezedSize(t, tenants); n > 100_000 {
		t.Errorf("a frame of 20,000 workers and very many tenants takes %d bytes", n)
	} else {
		t.Logf("a frame of 20,000 workers and very many tenants takes %d bytes of %d", n, len(tenants))
	}
	var f frameJSON
	if err := json.Unmarshal(New(&fakeFleet{err: errors.New("nobody")}, "").composeFrame(t.Context()),
		&f); err != nil || f.Error != "nobody" {
		t.Errorf("%v: %+v", err, f)
	}
}

// Series beyond the limit are summed up, and no count is lost.
func TestFold(t *testing.T) {
	var w windowJSON
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range 64 {
		s := seriesJSON{Tenant: fmt.Sprint("tenant-", i)}
		for range client.Measures {
			var h admin.Histogram
			for range 100 {
				h.Add(time.Duration(rng.ExpFloat64() * 1e7))
			}
			s.Histograms = h.Append(s.Histograms)
		}
		w.Series = append(w.Series, s)
	}
	sums := func() (sum admin.Histograms, bytes int) {
		for _, s := range w.Series {
			b := s.Histograms
			bytes += len(b)
			for m := range sum {
				b, _ = sum[m].MergeFrom(b)
			}
		}
		return sum, bytes
	}
	was, _ := sums()
	w.foldSeries(10_000)
	now, bytes := sums()
	if now != was {
		t.Error("together they are not what they were")
	}
	if last := w.Series[len(w.Series)-1]; bytes > 14_000 || len(w.Series) < 5 || last.Tenant != otherSeries ||
		w.Series[0].Tenant != "tenant-0" {
		t.Errorf("%d series of %d bytes, the last of %q", len(w.Series), bytes, last.Tenant)
	}
}

// A question asked by many viewers in a second is asked once.
func TestShared(t *testing.T) {
	f := &fakeFleet{}
	p := New(f, "")
	began := time.Now()
	for range 200 {
		if w := request(p, http.MethodGet, "api/watch?window=10", nil); w.Code != http.StatusOK ||
			!bytes.Contains(w.Body.Bytes(), []byte(`\u003c/script\u003e`)) {
			t.Fatalf("%d: %s", w.Code, w.Body)
		}
	}
	seconds := time.Since(began).Seconds()
	if n := f.watched.Load(); float64(n) > 2+seconds {
		t.Errorf("200 viewers ask the fleet %d times in %.1f s", n, seconds)
	}
}

// Browsers that take gzip get long answers compressed, and other browsers get them plain. Short answers are plain.
func TestCompressedAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		series := make([]admin.Series, 100)
		for i := range series {
			series[i].Tenant = fmt.Sprint("tenant-", i)
		}
		p := New(&fakeFleet{workers: 2000, windows: []admin.Window{{Series: series}}}, "")
		for what, isLong := range map[string]bool{
			"api/watch?window=10": true, "api/frame": true, "api/trace?job=x": false,
		} {
			plain := request(p, http.MethodGet, what, nil)
			if plain.Header().Get("Content-Encoding") != "" || !json.Valid(plain.Body.Bytes()) {
				t.Errorf("%s: %v is sent to a browser without gzip", what, plain.Header())
			}
			got := request(p, http.MethodGet, what, map[string]string{"Accept-Encoding": "gzip, br"})
			if got.Header().Get("Vary") != "Accept-Encoding" {
				t.Errorf("%s: caches are told %v", what, got.Header())
			}
			if isSqueezed := got.Header().Get("Content-Encoding") == "gzip"; isSqueezed != isLong {
				t.Errorf("%s: compressed is %v", what, isSqueezed)
				continue
			}
			body := io.Reader(got.Body)
			if isLong {
				if got.Body.Len() > plain.Body.Len()/2 {
					t.Errorf("%s: %d bytes of %d are sent", what, got.Body.Len(), plain.Body.Len())
				}
				var err error
				if body, err = gzip.NewReader(body); err != nil {
					t.Fatal(err)
				}
			}
			if text, err := io.ReadAll(body); err != nil || !bytes.Equal(text, plain.Body.Bytes()) {
				t.Errorf("%s: %d bytes arrive, %v", what, len(text), err)
			}
		}
		time.Sleep(pollFor + 2*frameEvery) // the frames end
	})
}

func request(p *Page, method, what string, header map[string]string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, Path+what, nil)
	for k, v := range header {
		r.Header.Set(k, v)
	}
	w := httptest.NewRecorder()
	p.ServeHTTP(w, r)
	return w
}

// Rights of viewers, and the answers to bad requests.
func TestAsk(t *testing.T) {
	const token = "secret"
	shown := map[string]string{"Authorization": "Bearer " + token}
	foreign := map[string]string{"Authorization": "Bearer " + token, "Sec-Fetch-Site": "cross-site"}
	for _, x := range []struct {
		token        Token
		method, what string
		header       map[string]string
		code         int
		says         string
	}{
		{"", "GET", "", nil, 200, "main.js"},
		{"", "GET", "main.js", nil, 200, ""},
		{"", "GET", "main.css", map[string]string{"If-None-Match": assets()["main.css"].etag}, 304, ""},
		{"", "GET", "api/nothing", nil, 404, ""},
		{"", "GET", "../../etc/passwd", nil, 307, ""},
		{"", "GET", "api/watch?window=2", nil, 400, "want 1, 10 or 300"},
		{"", "GET", "api/jobs?slower=-1", nil, 400, "slower"},
		{"", "GET", "api/trace?job=x", nil, 200, `{"Unknown":"`},
		{"", "GET", "api/trace?job=running", nil, 200, `"UnderWay":[{"Task":3,"Stage":0,"Tries":0,"Worker":"\u003c/`},
		{"", "GET", "api/trace?job=x&from=1e9", nil, 400, "from"},
		// Numbers that would become other numbers on the way.
		{"", "GET", "api/trace?job=x&from=4294967296", nil, 400, "from"},
		{"", "GET", "api/explain?job=x&task=4294967296", nil, 400, "task"},
		{"", "GET", "api/jobs?slower=9007199254740992", nil, 400, "slower"},
		{"", "GET", "api/recordings", nil, 200, `"Frontend":"a","Name":"\u003c/script\u003e`},
		{"", "GET", "api/recording/a%2Fb/x.gz", nil, 200, "x.gz of a/b"},
		{"", "GET", "api/recording/a/y.gz", nil, 400, "no recording"},
		{"", "POST", "api/cancel?job=x", nil, 403, "--admin-token-file"},
		{token, "POST", "api/cancel?job=x", nil, 401, "the admin token is missing"},
		{token, "POST", "api/cancel?job=x", map[string]string{"Authorization": "Bearer secre"}, 401, ""},
		{token, "GET", "api/cancel?job=x", map[string]string{"Authorization": "Bearer " + token}, 405, ""},
		{token, "POST", "api/cancel?job=x", foreign, 403, "cross-origin"},
		{token, "POST", "api/cancel?job=x",
			map[string]string{"Authorization": "Bearer " + token, "Origin": "http://elsewhere"}, 403, "cross-origin"},
		{token, "POST", "api/cancel?job=x",
			map[string]string{"Authorization": "Bearer " + token, "Sec-Fetch-Site": "same-origin"}, 200, "3"},
		{"", "POST", "api/drain?worker=w", nil, 403, "--admin-token-file"},
		{token, "POST", "api/drain?worker=w", nil, 401, "--admin-token-file"},
		{token, "POST", "api/drain?worker=w", foreign, 403, "cross-origin"},
		{token, "POST", "api/drain?worker=w", shown, 200, "{}"},
		{token, "POST", "api/drain?worker=v", shown, 400, "not linked"},
		{token, "GET", "api/drain?worker=w", shown, 405, ""},
		{token, "POST", "api/maintenance?worker=w&in=60&for=3600", foreign, 403, "cross-origin"},
		{token, "POST", "api/maintenance?worker=w&in=60&for=3600", shown, 502, "away in 1m0s for 1h0m0s"},
		{token, "POST", "api/maintenance?worker=w&in=-1", shown, 400, "in="},
	} {
		w := request(New(&fakeFleet{}, x.token), x.method, x.what, x.header)
		if w.Code != x.code || !strings.Contains(w.Body.String(), x.says) {
			t.Errorf("%s %s: %d: %.200s", x.method, x.what, w.Code, w.Body)
		}
		if csp := w.Header().Get("Content-Security-Policy"); !strings.HasPrefix(csp, "default-src 'self'") {
			t.Errorf("%s %s: the policy is %q", x.method, x.what, csp)
		}
	}
}

// The history of the workers comes a sample after the other, with times by the clock of frames.
func TestHistory(t *testing.T) {
	w := request(New(&fakeFleet{}, ""), "GET", "api/history?frontend=a", nil)
	var h historyJSON
	if err := json.Unmarshal(w.Body.Bytes(), &h); err != nil || len(h.At) != 2 || len(h.Addresses) != 2 ||
		len(h.Gone) != 1 || h.Gone[0].Name != hostile {
		t.Fatalf("%d %s: %v", w.Code, w.Body, err)
	}
	if want := []byte{0x1e, 0xff, 0x1e, 0xff, 0x1e, 0xff, 0xff, 0xff}; !bytes.Equal(h.Levels, want) {
		t.Errorf("levels are %x, want %x", h.Levels, want)
	}
	if ago := time.Since(time.UnixMilli(h.At[1])); ago < time.Second || ago > time.Minute {
		t.Errorf("the last sample is %v old", ago)
	}
}

// Each frontend is asked about a worker, all at once.
func TestWorkerInEachView(t *testing.T) {
	for range 20 { // of which the race detector finds one, if the calls share the request
		w := request(New(&fakeFleet{}, ""), "GET", "api/worker?name=w+1", nil)
		var list []seenJSON
		if err := json.Unmarshal(w.Body.Bytes(), &list); err != nil || len(list) != 3 {
			t.Fatalf("%d %s: %v", w.Code, w.Body, err)
		}
		if list[0].Error == "" || list[1].Worker == nil || list[1].Worker.Name != "w 1" || list[2].Worker != nil {
			t.Errorf("%s", w.Body)
		}
	}
}

// JSON knows no time after the year 9999. A frontend with such a clock makes no frame, and ends no process.
func TestFrameOfAbsurdClock(t *testing.T) {
	p := New(&fakeFleet{clock: time.UnixMicro(1 << 60)}, "")
	var f frameJSON
	if err := json.Unmarshal(p.composeFrame(t.Context()), &f); err != nil || !strings.Contains(f.Error, "year") {
		t.Errorf("the frame says %q, %v", f.Error, err)
	}
}

// silentWriter is a viewer that does not read.
type silentWriter struct {
	*httptest.ResponseRecorder
	reads chan struct{}
}

func (s *silentWriter) Write(b []byte) (int, error) {
	<-s.reads
	return s.ResponseRecorder.Write(b)
}

// A viewer that does not read delays no question of another viewer.
func TestSilentViewers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(&fakeFleet{}, "")
		reads := make(chan struct{})
		for range 2 * maxQuestions {
			go p.ServeHTTP(&silentWriter{httptest.NewRecorder(), reads},
				httptest.NewRequest(http.MethodGet, Path+"api/trace?job=x", nil))
		}
		synctest.Wait()
		if w := request(p, http.MethodGet, "api/trace?job=x", nil); w.Code != http.StatusOK {
			t.Errorf("%d: %s", w.Code, w.Body)
		}
		close(reads)
	})
}

// deadWriter is a viewer whose connection takes a few bytes, and then none until the deadline.
type deadWriter struct {
	*httptest.ResponseRecorder
	until  time.Time
	writes int
}

func (d *deadWriter) SetWriteDeadline(until time.Time) error {
	d.until = until
	return nil
}

func (d *deadWriter) Write(b []byte) (int, error) {
	if d.writes++; d.writes == 1 {
		return d.ResponseRecorder.Write(b)
	}
	time.Sleep(time.Until(d.until))
	return 0, os.ErrDeadlineExceeded
}

// A dead viewer counts as gone, and meanwhile the other viewers get each frame.
func TestDeadViewer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l frameStream
		l.composeFrame = func(context.Context) []byte { return []byte("frame") }
		gaveUp := make(chan time.Duration, 1)
		began := time.Now()
		go func() {
			l.serveStream(&deadWriter{ResponseRecorder: httptest.NewRecorder()},
				httptest.NewRequest(http.MethodGet, Path+"api/live", nil))
			gaveUp <- time.Since(began)
		}()
		synctest.Wait()
		v, ok := l.addViewer()
		if !ok {
			t.Fatal("a viewer is refused")
		}
		<-v // the latest frame
		for range 4 {
			at := time.Now()
			if <-v; time.Since(at) > frameEvery {
				t.Errorf("a frame comes %v after the one before", time.Since(at))
			}
		}
		if took := <-gaveUp; took > maxWriting+frameEvery {
			t.Errorf("a dead viewer is dropped after %v", took)
		}
		l.removeViewer(v)
		if len(l.viewers) != 0 {
			t.Errorf("%d viewers remain", len(l.viewers))
		}
		time.Sleep(2 * frameEvery)
	})
}

// A level is a step of the logarithm.
func TestLevels(t *testing.T) {
	got := packLevels([]admin.Figure{
		{State: stateUp, CPU: 255, Wait: 255, RoundTrip: 0, Silence: 254},
		{State: 4, CPU: 255, Wait: waitFrom, RoundTrip: tripFrom - 1, Silence: silenceFrom + levelStep},
		{State: stateUp, CPU: 128, Wait: waitFrom - 1, RoundTrip: tripFrom, Silence: 255},
	})
	if b := packStale(
		append(make([]admin.Figure, 7), admin.Figure{WaitAge: 167}, admin.Figure{WaitAge: 168},
			admin.Figure{WaitAge: 255})); !bytes.Equal(b, []byte{0, 1}) {
		t.Errorf("stale are %x", b) // 167 stands for 1.92 s, 168 for 2.10 s
	}
	if want := []byte{0xfe, 0x0e, 0x1f, 0x02, 0x07, 0x1f}; !bytes.Equal(got, want) {
		t.Errorf("levels are %x, want %x", got, want)
	}
}

// The page names every field of an answer as the server does. An older name would be undefined in the page.
func TestPageNamesFieldsOfAnswers(t *testing.T) {
	source, err := os.ReadFile("src/api.ts")
	if err != nil {
		t.Fatal(err)
	}
	answers := map[string]any{
		"Cluster": admin.Cluster{}, "Decision": client.Decision{}, "Demand": client.Demand{}, "Earlier": earlierJSON{},
		"Estimates": admin.EstimateReport{}, "Explanation": client.Explanation{}, "Candidate": client.Candidate{},
		"Frame": frameJSON{}, "Frontend": frontendJSON{}, "FunctionOf": functionJSON{}, "Gone": admin.GoneWorker{},
		"Handle": client.Handle{}, "History": historyJSON{}, "Job": client.JobSummary{}, "JobPage": pageJSON{},
		"Names": namesJSON{}, "Seen": seenJSON{}, "Series": seriesJSON{}, "SlotUse": admin.SlotUse{},
		"TracePage": traceJSON{}, "UnderWay": underWayJSON{}, "Watched": watchedJSON{}, "WindowOf": windowJSON{},
		"Worker": admin.Worker{},
	}
	comment, field := regexp.MustCompile("//.*"), regexp.MustCompile(`(\w+)\??:`)
	for part := range strings.SplitSeq(comment.ReplaceAllString(string(source), ""), "\nexport ") {
		name, body, isInterface := strings.Cut(strings.TrimPrefix(part, "interface "), " {")
		if !isInterface || !strings.HasPrefix(part, "interface ") {
			continue
		}
		if answers[name] == nil {
			t.Errorf("interface %s: unknown to this test", name)
			continue
		}
		known := map[string]bool{}
		addFieldNames(reflect.TypeOf(answers[name]), known)
		for _, m := range field.FindAllStringSubmatch(body, -1) {
			if !known[m[1]] {
				t.Errorf("interface %s: the answer has no field %s", name, m[1])
			}
		}
	}
}

// addFieldNames adds the names of the fields of t in JSON, and of the types in t.
func addFieldNames(t reflect.Type, names map[string]bool) {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		addFieldNames(t.Elem(), names)
	case reflect.Struct:
		for f := range t.Fields() {
			tag, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			names[cmp.Or(tag, f.Name)] = true
			addFieldNames(f.Type, names)
		}
	}
}
