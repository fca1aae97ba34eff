package files

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// answers is an origin in the test's own time: it returns the answer to each request, counted from 1.
type answers func(try int, req *http.Request) (*http.Response, error)

// serveTo makes answers the origin of a cache, and counts the requests.
func (a answers) serveTo(c *Cache) *atomic.Int64 {
	n := new(atomic.Int64)
	c.origin.Transport = roundTripper(func(req *http.Request) (*http.Response, error) { return a(int(n.Add(1)), req) })
	return n
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

func answer(status int, body io.Reader) *http.Response {
	return &http.Response{StatusCode: status, ContentLength: -1, Body: io.NopCloser(body)}
}

// slowReader waits for delay before each read of step bytes. It ends when its request ends.
type slowReader struct {
	req   *http.Request
	r     io.Reader
	step  int
	delay time.Duration
}

func (s *slowReader) Read(p []byte) (int, error) {
	select {
	case <-time.After(s.delay):
		return s.r.Read(p[:min(len(p), s.step)])
	case <-s.req.Context().Done():
		return 0, s.req.Context().Err()
	}
}

// A slow file arrives while it makes progress, however long the fetch takes. Without progress the fetch ends within
// a known time, after a known number of tries.
func TestSlowOrigins(t *testing.T) {
	b := content(1, 2*chunk+100)
	whole := func() io.Reader { return strings.NewReader(string(b)) }
	drip := func(req *http.Request, step int, after time.Duration) (*http.Response, error) {
		return answer(200, &slowReader{req, whole(), step, after}), nil
	}
	hang := func(_ int, req *http.Request) (*http.Response, error) {
		<-req.Context().Done()
		return nil, req.Context().Err()
	}
	fails := func(status, times int) answers {
		return func(try int, _ *http.Request) (*http.Response, error) {
			if try <= times {
				return answer(status, strings.NewReader("not now")), nil
			}
			return answer(200, whole()), nil
		}
	}
	for _, tt := range []struct {
		name     string
		origin   answers
		tries    int64
		reason   Reason // 0: the file arrives
		says     []string
		min, max time.Duration
	}{
		{"slow", func(_ int, req *http.Request) (*http.Response, error) { return drip(req, 30<<10, 29*time.Second) },
			1, 0, nil, 8 * time.Minute, 10 * time.Minute},
		{"hangs", hang, 3, Unreachable, []string{"sent nothing for 30s", "tried 3 times", "is it up"},
			91 * time.Second, 100 * time.Second},
		{"hangs twice", func(try int, req *http.Request) (*http.Response, error) {
			if try < 3 {
				return hang(try, req)
			}
			return answer(200, whole()), nil
		}, 3, 0, nil, 61 * time.Second, 70 * time.Second},
		{"hangs in the middle", func(_ int, req *http.Request) (*http.Response, error) {
			return answer(200, io.MultiReader(strings.NewReader(string(b[:chunk+1])),
				&slowReader{req, whole(), 1, time.Hour})), nil
		}, 3, Unreachable, []string{"sent nothing for 30s"}, 91 * time.Second, 100 * time.Second},
		{"drips", func(_ int, req *http.Request) (*http.Response, error) { return drip(req, 1, 20*time.Second) },
			3, Unreachable, []string{"less than 256 KiB within 5m0s"}, 15 * time.Minute, 16 * time.Minute},
		{"unavailable for good", fails(503, 9), 3, Unreachable,
			[]string{"503 Service Unavailable", "tried 3 times", "overloaded"}, time.Second, 5 * time.Second},
		{"unavailable twice", fails(503, 2), 3, 0, nil, time.Second, 5 * time.Second},
		{"too many requests", fails(429, 1), 2, 0, nil, time.Second / 2, 2 * time.Second},
		{"not there", fails(404, 1), 1, Missing, []string{"404"}, 0, 0},
		{"partial", fails(206, 1), 1, Unreachable, []string{"206"}, 0, 0},
		{"refuses, then is cut off", func(try int, req *http.Request) (*http.Response, error) {
			switch try {
			case 1:
				return nil, errors.New("connection refused")
			case 2:
				return answer(200, io.MultiReader(strings.NewReader(string(b[:chunk+1])), cutReader{})), nil
			}
			return answer(200, whole()), nil
		}, 3, 0, nil, time.Second, 5 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCache(t, 1<<22, Options{})
				asked := tt.origin.serveTo(c)
				began := time.Now()
				h, err := c.Fetch(t.Context(), fileOf("http://127.0.0.1/slow", b), nil)
				if tt.reason != 0 {
					wantError(t, err, tt.reason, append(tt.says, "http://127.0.0.1/slow")...)
				} else if err != nil {
					t.Fatal(err)
				} else {
					h.Release()
				}
				if took := time.Since(began); took < tt.min || took > tt.max {
					t.Errorf("Fetch took %v, want %v to %v", took, tt.min, tt.max)
				}
				if n := asked.Load(); n != tt.tries {
					t.Errorf("the origin was asked %d times, want %d", n, tt.tries)
				}
			})
		})
	}
}

type cutReader struct{}

func (cutReader) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// Requests to a hanging host do not delay files of other hosts. Each host has its own limit of parallel requests.
func TestHostsAreApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := content(1, 100)
		c := newCache(t, 1<<20, Options{Parallel: 2, Hosts: []string{"up", "down"}})
		var at atomic.Int64
		answers(func(_ int, req *http.Request) (*http.Response, error) {
			if req.URL.Host == "up" {
				return answer(200, strings.NewReader(string(b))), nil
			}
			if n := at.Add(1); n > 2 {
				t.Errorf("%d requests at a time", n)
			}
			defer at.Add(-1)
			<-req.Context().Done()
			return nil, req.Context().Err()
		}).serveTo(c)
		var all []chan result
		for i := range 5 {
			f := fileOf(fmt.Sprintf("http://down/%d", i), b)
			f.Digest[0] ^= byte(1 + i)
			all = append(all, fetchAsync(c, t.Context(), f))
		}
		synctest.Wait()
		if at.Load() != 2 {
			t.Errorf("%d requests at a time, want 2", at.Load())
		}
		began := time.Now()
		mustFetch(t, c, fileOf("http://up/x", b)).Release()
		if took := time.Since(began); took > 0 {
			t.Errorf("a file of another host took %v", took)
		}
		for _, done := range all {
			wantError(t, (<-done).err, Unreachable, "tried 3 times")
		}
		if n := len(c.hostLimits); n != 0 {
			t.Errorf("%d limits of hosts are left", n)
		}
	})
}
