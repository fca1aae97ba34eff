package files

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/phoebe-sched/phoebe/probe"
	"github.com/phoebe-sched/phoebe/probe/identity"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// content returns size bytes; different seeds give different bytes.
func content(seed byte, size int) []byte {
	b := make([]byte, size)
	for i := range b {
		b[i] = seed + byte(i%251)
	}
	return b
}

func fileOf(url string, content []byte) probe.File {
	return probe.File{Digest: sha256.Sum256(content), URL: url, Bytes: uint64(len(content))}
}

func openCache(t testing.TB, dir string, max int64, opts Options) *Cache {
	t.Helper()
	if opts.Hosts == nil {
		opts.Hosts = []string{"127.0.0.1"}
	}
	c, err := Open(dir, max, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if c.closed {
			return // the test closed the cache, and may have changed the folder
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		c.verify(t)
	})
	return c
}

// newCache makes a cache in a folder of its own.
func newCache(t testing.TB, max int64, opts Options) *Cache {
	return openCache(t, filepath.Join(t.TempDir(), "cache"), max, opts)
}

func serveHTTP(t testing.TB, h http.HandlerFunc) string {
	s := httptest.NewServer(h)
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0)
	t.Cleanup(s.Close)
	return s.URL
}

// serveContent serves b and counts the requests.
func serveContent(t testing.TB, b []byte) (url string, asked *atomic.Int64) {
	asked = new(atomic.Int64)
	return serveHTTP(t, func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		w.Write(b)
	}) + "/data", asked
}

func servePeer(t testing.TB, c *Cache) string { return serveHTTP(t, c.Handler().ServeHTTP) }

func mustFetch(t testing.TB, c *Cache, f probe.File, peers ...string) *Held {
	t.Helper()
	h, err := c.Fetch(t.Context(), f, peers)
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(h.Path)
	if err != nil {
		t.Fatal(err)
	}
	if sha256.Sum256(got) != f.Digest {
		t.Fatalf("%s has %d bytes of other content", h.Path, len(got))
	}
	return h
}

// wantError expects an Error with the reason and all of says in the text.
func wantError(t testing.TB, err error, reason Reason, says ...string) {
	t.Helper()
	got, ok := errors.AsType[*Error](err)
	if !ok {
		t.Fatalf("got %v, want an Error that is %v", err, reason)
	}
	if got.Reason != reason {
		t.Errorf("reason %v, want %v: %v", got.Reason, reason, err)
	}
	for _, s := range says {
		if !strings.Contains(err.Error(), s) {
			t.Errorf("%q does not say %q", err, s)
		}
	}
}

// verify checks the invariants of an inactive cache, and compares the folder with the cache's entries.
func (c *Cache) verify(t testing.TB) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	var used, loose uint64
	want := []string{"lock"}
	for d, e := range c.entries {
		used += e.charge
		if e.element != nil {
			loose += e.charge
		}
		if e.digest != d || e.dropped || e.state == stateComing || e.fetch != nil {
			t.Errorf("entry %x is %+v", d[:4], e)
		}
		if (e.pins == 0) != (e.element != nil) {
			t.Errorf("entry %x has %d pins; evictable: %v", d[:4], e.pins, e.element != nil)
		}
		if e.charge != chargeOf(e.bytes) {
			t.Errorf("entry %x of %d bytes counts %d", d[:4], e.bytes, e.charge)
		}
		want = append(want, hex.EncodeToString(d[:]))
	}
	if used != c.usedBytes || loose != c.evictableBytes || used > c.maxBytes || c.comingCount != 0 ||
		len(c.abandoned) != 0 {
		t.Errorf("used %d (entries: %d) of %d, evictable %d (entries: %d), %d coming, %d abandoned",
			c.usedBytes, used, c.maxBytes, c.evictableBytes, loose, c.comingCount, len(c.abandoned))
	}
	if got := fileNames(t, c.dir); !slices.Equal(got, slices.Sorted(slices.Values(want))) {
		t.Errorf("the folder has %v, the cache %v", got, want)
	}
}

func fileNames(t testing.TB, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestFetchAndHit(t *testing.T) {
	for _, size := range []int{0, 1, 4095, chunk - 1, chunk, chunk + 1, 3*chunk + 17} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			b := content(1, size)
			url, asked := serveContent(t, b)
			c := newCache(t, 1<<20, Options{})
			h := mustFetch(t, c, fileOf(url, b))
			if h.Fetched != uint64(size) {
				t.Errorf("fetched %d bytes, want %d", h.Fetched, size)
			}
			again := mustFetch(t, c, fileOf("", b)) // a hit needs no source
			if again.Fetched != 0 || again.Path != h.Path || asked.Load() != 1 {
				t.Errorf("the second time: %d bytes fetched, asked %d times, %s", again.Fetched, asked.Load(),
					again.Path)
			}
			if got := c.Digests(math.MaxInt); !slices.Equal(got, [][32]byte{sha256.Sum256(b)}) {
				t.Errorf("digests are %x", got)
			}
			info, err := os.Stat(h.Path)
			if err != nil || info.Mode() != 0o500 {
				t.Errorf("the file has %v, %v", info.Mode(), err)
			}
			again.Release()
			again.Release() // no effect
			if s := c.Stats(); s.Held == 0 {
				t.Error("the first holder's pin is gone")
			}
			h.Release()
			if s, want := c.Stats(), (Stats{Hits: 1, Misses: 1, FromHTTP: uint64(size), Entries: 1,
				Bytes: chargeOf(uint64(size))}); s != want {
				t.Errorf("stats are %+v, want %+v", s, want)
			}
		})
	}
}

func TestSourcesThatFail(t *testing.T) {
	b := content(1, 3*chunk)
	other := content(2, len(b))
	tests := []struct {
		name   string
		serve  http.HandlerFunc
		reason Reason
		says   []string
	}{
		{"not there", http.NotFound, Missing, []string{"404 Not Found", "is the URL right"}},
		{"forbidden", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(403) }, Missing,
			[]string{"403", "that workers may read"}},
		{"broken", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) }, Unreachable, []string{"503"}},
		{"partial content", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(206); w.Write(b) },
			Unreachable, []string{"206"}},
		{"wrong content", func(w http.ResponseWriter, _ *http.Request) { w.Write(other) }, WrongDigest,
			[]string{"another sha256"}},
		{"says to be longer", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", fmt.Sprint(1<<40))
			w.Write(b)
		}, WrongSize, []string{fmt.Sprint(1 << 40), fmt.Sprint(len(b))}},
		{"is longer, endless", func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				if _, err := w.Write(b); err != nil {
					return
				}
			}
		}, WrongSize, []string{"longer", fmt.Sprint(len(b))}},
		{"is shorter", func(w http.ResponseWriter, _ *http.Request) {
			w.Write(b[:chunk+1])
			w.(http.Flusher).Flush()
		}, WrongSize, []string{fmt.Sprint(chunk + 1), fmt.Sprint(len(b)), "ended"}},
		{"is cut off", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", fmt.Sprint(len(b)))
			w.Write(b[:chunk+1])
			panic(http.ErrAbortHandler)
		}, Unreachable, []string{"broke off after", "cut"}},
		{"says nothing", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, Unreachable,
			[]string{"nothing for 50ms", "is it up"}},
		{"stops in the middle", func(w http.ResponseWriter, r *http.Request) {
			w.Write(b[:chunk+1])
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}, Unreachable, []string{"nothing for 50ms"}},
		{"redirects for ever", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, r.URL.Path+"x",
				http.StatusFound)
		}, Unreachable, []string{"more than 5 times"}},
		{"redirects to a file", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "file:///etc/passwd", http.StatusFound)
		}, BadURL, []string{`scheme "file"`}},
		{"redirects to a host that is not allowed", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://169.254.169.254/latest", http.StatusFound)
		}, Refused, []string{"169.254.169.254:80", "operator"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			opts := Options{Tries: 1}
			if strings.Contains(tt.says[0], "50ms") {
				opts.Timeout = 50 * time.Millisecond
			}
			c := newCache(t, 1<<22, opts)
			url := serveHTTP(t, tt.serve) + "/d?signature=hush"
			_, err := c.Fetch(t.Context(), fileOf(url, b), nil)
			wantError(t, err, tt.reason, append(tt.says, "/d")...)
			if strings.Contains(err.Error(), "hush") {
				t.Errorf("%q tells the query", err)
			}
			if strings.Contains(err.Error(), fmt.Sprintf("%x", sha256.Sum256(other))[:12]) {
				t.Errorf("%q tells the digest of the content", err)
			}
			c.verify(t)
			if s := c.Stats(); s.Failures != 1 || s.Bytes != 0 {
				t.Errorf("stats are %+v", s)
			}
			if s := c.Stats(); s.FromHTTP > uint64(len(b)+1) {
				t.Errorf("%d bytes were read for %d announced", s.FromHTTP, len(b))
			}
			good, _ := serveContent(t, b)
			c.opts.Timeout = 30 * time.Second
			mustFetch(t, c, fileOf(good, b)).Release() // a failure is not cached
		})
	}
}

func TestRedirectsAreFollowed(t *testing.T) {
	b := content(1, 100)
	var redirects int
	url := serveHTTP(t, func(w http.ResponseWriter, r *http.Request) {
		if redirects--; redirects >= 0 {
			http.Redirect(w, r, "/x", http.StatusFound)
			return
		}
		w.Write(b)
	})
	c := newCache(t, 1<<20, Options{})
	redirects = maxRedirects + 1
	_, err := c.Fetch(t.Context(), fileOf(url, b), nil)
	wantError(t, err, Unreachable, "redirects")
	redirects = maxRedirects
	mustFetch(t, c, fileOf(url, b)).Release()
}

func TestHTTPS(t *testing.T) {
	b := content(1, 3*chunk)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write(b) }))
	s.EnableHTTP2 = true
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0)
	s.StartTLS()
	defer s.Close()
	c := newCache(t, 1<<20, Options{})
	_, err := c.Fetch(t.Context(), fileOf(s.URL, b), nil)
	wantError(t, err, Unreachable, "certificate")
	c.origin.Transport.(*http.Transport).TLSClientConfig = s.Client().Transport.(*http.Transport).TLSClientConfig
	mustFetch(t, c, fileOf(s.URL, b)).Release()
}

func TestBadFiles(t *testing.T) {
	root := t.TempDir()
	outside := t.TempDir()
	b := content(1, 100)
	write := func(path string) string {
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write(filepath.Join(root, "good"))
	write(filepath.Join(outside, "secret"))
	for _, link := range []struct{ to, name string }{{filepath.Join(outside, "secret"), "out"}, {"good", "in"},
		{outside, "folder"}} {
		if err := os.Symlink(link.to, filepath.Join(root, link.name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(root, "fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		url    string
		bytes  uint64
		check  Reason // expected from Check; 0: none
		reason Reason // expected from Fetch; 0: none
		says   string
	}{
		{"file://" + root + "/good", 100, 0, 0, ""},
		{"file://localhost" + root + "/./x/../good", 100, 0, 0, ""},
		{"file://" + root + "/in", 100, 0, 0, ""},
		{"file://" + root + "/good", 99, 0, WrongSize, "it has 100 bytes, announced were 99"},
		{"file://" + root + "/good", 101, 0, WrongSize, "it has 100 bytes, announced were 101"},
		{"file://" + root + "/bad", 100, 0, Missing, "no such file"},
		{"file://" + root + "/out", 100, 0, Refused, "escapes"},
		{"file://" + root + "/folder/secret", 100, 0, Refused, "escapes"},
		{"file://" + root + "/fifo", 100, 0, Missing, "regular"},
		{"file://" + root, 100, 0, Missing, "regular"},
		{"file://" + root + "/../" + filepath.Base(outside) + "/secret", 100, Refused, Refused, "not below"},
		{"file://" + root + "/%2e%2e/" + filepath.Base(outside) + "/secret", 100, Refused, Refused, root},
		{"file://" + root + "2/good", 100, Refused, Refused, "not below"},
		{"file://" + root + "/a%00b", 100, BadURL, BadURL, "zero byte"},
		{"file://elsewhere" + root + "/good", 100, BadURL, BadURL, "file:///path"},
		{"file:good", 100, BadURL, BadURL, "file:///path"},
		{"ftp://127.0.0.1/x", 100, BadURL, BadURL, "use http, https or file"},
		{"good", 100, BadURL, BadURL, `scheme ""`},
		{"http:///x", 100, BadURL, BadURL, "no host"},
		{"http://u:hush@127.0.0.1:x/", 100, BadURL, BadURL, "invalid port"},
		{"http://example.com/x", 100, Refused, Refused, "host example.com:80 is not among"},
		{"https://127.0.0.2/x", 100, Refused, Refused, "host 127.0.0.2:443 is not among"},
		{"http://127.0.0.1/x", 1<<20 + 1, TooLarge, TooLarge, "1048577 bytes, the whole cache of this worker 1048576"},
		{"http://127.0.0.1/x", math.MaxUint64, TooLarge, TooLarge, "larger cache"},
		{"", 100, 0, Missing, "give the file a URL"},
	}
	for _, tt := range tests {
		t.Run(tt.url, func(t *testing.T) {
			c := newCache(t, 1<<20, Options{Roots: []string{t.TempDir(), root}})
			f := probe.File{Digest: sha256.Sum256(b), URL: tt.url, Bytes: tt.bytes}
			err := c.Check(f)
			if tt.check == 0 {
				if err != nil {
					t.Error(err)
				}
			} else {
				wantError(t, err, tt.check, tt.says)
			}
			h, err := c.Fetch(t.Context(), f, nil)
			if tt.reason == 0 {
				if err != nil {
					t.Fatal(err)
				}
				h.Release()
				if s := c.Stats(); s.FromFiles != 100 {
					t.Errorf("stats are %+v", s)
				}
				return
			}
			wantError(t, err, tt.reason, tt.says)
			if strings.Contains(err.Error(), "hush") {
				t.Errorf("%q tells the password", err)
			}
		})
	}
	t.Run("no roots", func(t *testing.T) {
		c := newCache(t, 1<<20, Options{})
		wantError(t, c.Check(fileOf("file://"+root+"/good", b)), Refused, "no file URLs")
	})
}

// By default the cache sends no request to a loopback, link-local or multicast address, under any name.
func TestLocalAddresses(t *testing.T) {
	b := content(1, 10)
	url, asked := serveContent(t, b)
	c := newCache(t, 1<<20, Options{Hosts: []string{}})
	_, port, _ := net.SplitHostPort(strings.TrimSuffix(strings.TrimPrefix(url, "http://"), "/data"))
	for _, host := range []string{"127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "127.1.2.3"} {
		_, err := c.Fetch(t.Context(), fileOf("http://"+host+":"+port+"/data", b), nil)
		wantError(t, err, Refused, "its address", "operator")
	}
	if asked.Load() != 0 {
		t.Errorf("asked %d times", asked.Load())
	}
}

// A redirect tells the next host nothing about the URL, whose query may be a secret.
func TestRedirectTellsNoReferer(t *testing.T) {
	b := content(1, 10)
	url := serveHTTP(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/data" {
			http.Redirect(w, r, "/elsewhere", http.StatusFound)
			return
		}
		if from := r.Header.Get("Referer"); from != "" {
			t.Errorf("the request comes from %s", from)
		}
		w.Write(b)
	})
	mustFetch(t, newCache(t, 1<<20, Options{}), fileOf(url+"/data?signature=hush", b)).Release()
}

// Some addresses are never asked. Private addresses and loopback are asked if the operator names their range or host.
func TestAddresses(t *testing.T) {
	const (
		anybody = iota
		namedRange
		namedHost
		nobody
	)
	for address, who := range map[string]int{
		"192.0.2.1:443": anybody, "[2001:db8::1]:443": anybody, "172.32.0.1:80": anybody, "100.128.0.1:80": anybody,
		"10.0.0.1:80": namedRange, "172.16.0.1:80": namedRange, "192.168.1.1:80": namedRange,
		"[fd00::1]:80":         namedRange,
		"[::ffff:10.0.0.1]:80": namedRange, "[fc00:1::1]:80": namedRange,
		"127.0.0.1:80": namedHost, "[::1]:80": namedHost,
		"169.254.169.254:80": nobody, "[fd00:ec2::254]:80": nobody, "[fd20:ce::254]:80": nobody, // metadata services
		"100.100.100.200:80": nobody, "168.63.129.16:80": nobody, "192.0.0.192:80": nobody,
		"100.64.0.1:80": nobody, "100.127.255.255:80": nobody, // carrier-grade NAT
		"[fe80::1%eth0]:80": nobody, "169.254.0.1:80": nobody, // link-local
		"[64:ff9b::a9fe:a9fe]:80": nobody, "[64:ff9b:1::a00:1]:80": nobody, // translated
		"[2002:a9fe:a9fe::1]:80": nobody,
		"[::a9fe:a9fe]:80":       nobody, "224.0.0.1:80": nobody, "[ff02::1]:80": nobody, "255.255.255.255:80": nobody,
		"0.0.0.0:80": nobody, "[::]:80": nobody, "[::ffff:0.0.0.0]:80": nobody, "0.1.2.3:80": nobody,
	} {
		for least, opts := range map[int]Options{
			anybody:    {},
			namedRange: {Private: []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}},
			namedHost:  {Hosts: []string{"host"}},
		} {
			err := opts.refuseAddr("tcp", address, nil)
			if allowed := who <= least; allowed != (err == nil) {
				t.Errorf("%s, if the operator names %d: %v", address, least, err)
			}
			if err == nil {
				continue
			}
			if reasonOf(err) != Refused {
				t.Errorf("%s: the reason is %v", address, reasonOf(err))
			}
			want := map[int]string{namedRange: "--file-private", namedHost: "--file-hosts", nobody: "never"}[who]
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v does not tell %s", address, err, want)
			}
		}
	}
}

func TestPeersFirst(t *testing.T) {
	b := content(1, chunk+5)
	origin, asked := serveContent(t, b)
	f := fileOf(origin, b)
	first := newCache(t, 1<<20, Options{Secrets: identity.NewSecrets("s")})
	second := newCache(t, 1<<20, Options{Secrets: identity.NewSecrets("s")})
	a, z := servePeer(t, first), servePeer(t, second)

	mustFetch(t, first, f, z).Release() // the peer lacks the file
	if s := first.Stats(); s.FromHTTP != f.Bytes || s.PeerFailures != 1 {
		t.Errorf("the first worker: %+v", s)
	}
	h := mustFetch(t, second, f, a)
	h.Release()
	if s := second.Stats(); h.Fetched != f.Bytes || s.FromPeers != f.Bytes || s.FromHTTP != 0 {
		t.Errorf("the second worker: %+v", s)
	}
	// The fetch may end before the peer counts it.
	first.waitUntil(func() bool {
		return first.sending[peer].total == 0 && first.stats.Served == 1 && first.stats.ServedBytes == f.Bytes
	})
	if asked.Load() != 1 {
		t.Errorf("the origin was asked %d times", asked.Load())
	}

	// Workers fetch from each other, at the same time, without an origin.
	other := content(2, 1000)
	mustFetch(t, second, fileOf(func() string { u, _ := serveContent(t, other); return u }(), other)).Release()
	third := newCache(t, 1<<20, Options{Secrets: identity.NewSecrets("s")})
	c := servePeer(t, third)
	var wg sync.WaitGroup
	for _, get := range []struct {
		at   *Cache
		file probe.File
	}{{third, fileOf("", b)}, {third, fileOf("", other)}, {first, fileOf("", other)}} {
		wg.Go(func() {
			h, err := get.at.Fetch(t.Context(), get.file, []string{c, a, z})
			if err != nil {
				t.Error(err)
				return
			}
			h.Release()
		})
	}
	wg.Wait()
}

func TestPeersThatFail(t *testing.T) {
	b := content(1, 1000)
	origin, asked := serveContent(t, b)
	var redirected atomic.Bool
	trap := serveHTTP(t, func(http.ResponseWriter, *http.Request) { redirected.Store(true) })
	closed := httptest.NewServer(nil)
	closed.Close()
	full := newCache(t, 1<<20, Options{Secrets: identity.NewSecrets("s")})
	mustFetch(t, full, fileOf(origin, b)).Release()
	full.opts.Serve = 0 // as if the peer served its maximum
	strange := newCache(t, 1<<20, Options{Secrets: identity.NewSecrets("t")})
	peers := map[string]string{
		"wrong content": serveHTTP(t, func(w http.ResponseWriter, _ *http.Request) { w.Write(content(2, 1000)) }),
		"too long":      serveHTTP(t, func(w http.ResponseWriter, _ *http.Request) { w.Write(content(1, 1001)) }),
		"does not have": serveHTTP(t, http.NotFound),
		"redirects": serveHTTP(t,
			func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, trap, http.StatusFound) }),
		"not there":      closed.URL,
		"not a URL":      "::",
		"not HTTP":       "file:///etc",
		"with a path":    "http://127.0.0.1:1/x",
		"other secret":   servePeer(t, strange),
		"busy elsewhere": servePeer(t, full),
	}
	for name, peer := range peers {
		t.Run(name, func(t *testing.T) {
			asked.Store(0)
			c := newCache(t, 1<<20, Options{Secrets: identity.NewSecrets("s")})
			mustFetch(t, c, fileOf(origin, b), peer).Release()
			if s := c.Stats(); s.PeerFailures != 1 || asked.Load() != 1 {
				t.Errorf("the origin was asked %d times; %+v", asked.Load(), s)
			}
		})
	}
	if redirected.Load() {
		t.Error("a peer's redirect was followed: it could take the secret anywhere")
	}

	c := newCache(t, 1<<20, Options{Secrets: identity.NewSecrets("s")})
	_, err := c.Fetch(t.Context(), fileOf("", b), []string{peers["wrong content"], peers["does not have"]})
	wantError(t, err, Missing, "404", "before that, peer 127.0.0.1", "sha256",
		"the file has no URL: give the file a URL")
	gone := serveHTTP(t, http.NotFound)
	_, err = c.Fetch(t.Context(), fileOf(gone+"/x", b), []string{peers["wrong content"]})
	wantError(t, err, Missing, "404", gone+"/x", "before that, peer 127.0.0.1")

	_, err = c.Fetch(t.Context(), fileOf(closed.URL+"/x?signature=hush", b), nil)
	wantError(t, err, Unreachable, "refused", "/x", "is the host right and up?")
	if strings.Contains(err.Error(), "hush") {
		t.Errorf("%q tells the query", err)
	}

	many := slices.Repeat([]string{peers["does not have"]}, 100)
	c = newCache(t, 1<<20, Options{})
	mustFetch(t, c, fileOf(origin, b), many...).Release()
	if s := c.Stats(); s.PeerFailures != maxPeers {
		t.Errorf("%d peers were asked, want %d", s.PeerFailures, maxPeers)
	}
}

// The secret goes to peers only.
func TestSecretIsForPeers(t *testing.T) {
	b := content(1, 10)
	var got []string
	server := func(w http.ResponseWriter, r *http.Request) {
		got = append(got, r.Header.Get(secretHeader))
		if len(got) > 1 {
			w.Write(b)
		}
	}
	peer, origin := serveHTTP(t, server), serveHTTP(t, server)
	mustFetch(t, newCache(t, 1<<20, Options{Secrets: identity.NewSecrets("s")}), fileOf(origin, b), peer).Release()
	if !slices.Equal(got, []string{"s", ""}) {
		t.Errorf("peer and origin got %q", got)
	}
}

// gate is a server; the test decides when to release the answers.
type gate struct {
	url     string
	begun   chan string   // paths of requests
	gone    chan struct{} // an element for each request abandoned by its client
	release chan struct{} // closed: send the answers
}

func newGate(t *testing.T, b []byte) *gate {
	g := &gate{begun: make(chan string, 100), gone: make(chan struct{}, 100), release: make(chan struct{})}
	g.url = serveHTTP(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", fmt.Sprint(len(b)))
		w.Write(b[:len(b)/2])
		w.(http.Flusher).Flush()
		g.begun <- r.URL.Path
		select {
		case <-g.release:
			w.Write(b[len(b)/2:])
		case <-r.Context().Done():
			g.gone <- struct{}{}
		}
	})
	return g
}

type result struct {
	held *Held
	err  error
}

func fetchAsync(c *Cache, ctx context.Context, f probe.File, peers ...string) chan result {
	done := make(chan result, 1)
	go func() {
		h, err := c.Fetch(ctx, f, peers)
		done <- result{h, err}
	}()
	return done
}

// waitUntil waits for a state of the cache that other goroutines bring about.
func (c *Cache) waitUntil(cond func() bool) {
	for ok := false; !ok; runtime.Gosched() {
		c.mu.Lock()
		ok = cond()
		c.mu.Unlock()
	}
}

func TestOneFetchForAll(t *testing.T) {
	b := content(1, 1000)
	g := newGate(t, b)
	c := newCache(t, 1<<20, Options{})
	f := fileOf(g.url, b)
	const n = 20
	first := fetchAsync(c, t.Context(), f)
	<-g.begun
	var rest []chan result
	for range n - 1 {
		rest = append(rest, fetchAsync(c, t.Context(), f))
	}
	quitter, quit := context.WithCancel(t.Context())
	quitterDone := fetchAsync(c, quitter, f)
	c.waitUntil(func() bool { return c.stats.Shared == n })
	quit()
	if r := <-quitterDone; !errors.Is(r.err, context.Canceled) {
		t.Errorf("the caller that left got %v", r.err)
	}
	close(g.release)
	var fetched uint64
	for _, done := range append(rest, first) {
		r := <-done
		if r.err != nil {
			t.Fatal(r.err)
		}
		fetched += r.held.Fetched
		defer r.held.Release()
	}
	if s := c.Stats(); s.FromHTTP != 1000 || fetched != 1000 || s.Misses != 1 || len(g.begun) != 0 {
		t.Errorf("%d bytes counted, %d more requests, %+v", fetched, len(g.begun), s)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.entries[f.Digest]; e.pins != n {
		t.Errorf("%d pins, want %d", e.pins, n)
	}
}

// A fetch from a slow server ends when its last caller leaves, and not before. The next fetch is not affected.
func TestCancel(t *testing.T) {
	b := content(1, 1000)
	g := newGate(t, b)
	c := newCache(t, 1<<20, Options{})
	f := fileOf(g.url, b)
	why := errors.New("the job was cancelled")
	ctx1, cancel1 := context.WithCancelCause(t.Context())
	ctx2, cancel2 := context.WithCancelCause(t.Context())
	one := fetchAsync(c, ctx1, f)
	<-g.begun
	two := fetchAsync(c, ctx2, f)
	c.waitUntil(func() bool { return c.stats.Shared == 1 })
	cancel1(why)
	if r := <-one; !errors.Is(r.err, why) || !strings.Contains(r.err.Error(), g.url) {
		t.Errorf("the first got %v", r.err)
	}
	if len(g.gone) != 0 {
		t.Error("the fetch ended with the first of two callers")
	}
	cancel2(why)
	if r := <-two; !errors.Is(r.err, why) {
		t.Errorf("the second got %v", r.err)
	}
	<-g.gone
	close(g.release)
	mustFetch(t, c, f).Release()
	if s := c.Stats(); s.Failures != 0 {
		t.Errorf("a cancelled fetch counts as failed: %+v", s)
	}
}

func TestCancelledBeforeAndAfterClose(t *testing.T) {
	b := content(1, 1000)
	g := newGate(t, b)
	c := newCache(t, 1<<20, Options{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Fetch(ctx, fileOf(g.url, b), nil); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	waiting := fetchAsync(c, t.Context(), fileOf(g.url, b))
	<-g.begun
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if r := <-waiting; !errors.Is(r.err, ErrClosed) {
		t.Errorf("the caller that waited got %v", r.err)
	}
	if _, err := c.Fetch(t.Context(), fileOf(g.url, b), nil); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

// The bad URL or the wrong size in another task's call for the same file does not fail this call.
func TestSharedFailureIsTriedAgain(t *testing.T) {
	b := content(1, 1000)
	good, _ := serveContent(t, b)
	for name, theirs := range map[string]func(url string) probe.File{
		"other URL":  func(url string) probe.File { return fileOf(url, b) },
		"other size": func(url string) probe.File { f := fileOf(url, b); f.Bytes = 999; return f },
	} {
		t.Run(name, func(t *testing.T) {
			begun, release := make(chan struct{}), make(chan struct{})
			bad := serveHTTP(t, func(w http.ResponseWriter, _ *http.Request) {
				close(begun)
				<-release
				w.WriteHeader(404)
			})
			c := newCache(t, 1<<20, Options{})
			first := fetchAsync(c, t.Context(), theirs(bad))
			<-begun
			second := fetchAsync(c, t.Context(), fileOf(good, b))
			if name == "other URL" {
				c.waitUntil(func() bool { return c.stats.Shared == 1 })
			}
			close(release)
			wantError(t, (<-first).err, Missing)
			r := <-second
			if r.err != nil {
				t.Fatal(r.err)
			}
			r.held.Release()
		})
	}
}

func TestParallelIsBounded(t *testing.T) {
	b := content(1, 100)
	g := newGate(t, b)
	c := newCache(t, 1<<20, Options{Parallel: 2})
	var all []chan result
	for i := range 6 {
		f := fileOf(g.url, b)
		f.Digest[0] ^= byte(i)
		all = append(all, fetchAsync(c, t.Context(), f))
	}
	<-g.begun
	<-g.begun
	c.waitUntil(func() bool { return c.comingCount == 6 })
	if n := len(g.begun) + len(c.hostLimits[strings.TrimPrefix(g.url, "http://")].running); n != 2 {
		t.Errorf("%d more requests or fetches than 2", n-2)
	}
	close(g.release)
	for _, done := range all {
		if r := <-done; r.err == nil {
			r.held.Release()
		}
	}
}

func TestEvictionUnderPins(t *testing.T) {
	files := map[byte]probe.File{}
	data := map[string][]byte{}
	url := serveHTTP(t, func(w http.ResponseWriter, r *http.Request) { w.Write(data[r.URL.Path]) })
	for i := byte(1); i <= 6; i++ {
		b := content(i, 2*block)
		path := fmt.Sprint("/", i)
		data[path], files[i] = b, fileOf(url+path, b)
	}
	var mu sync.Mutex
	known := map[[32]byte]bool{}
	changed := make(chan struct{}, 100)
	c := newCache(t, 3*2*block, Options{OnChange: func(added, removed [][32]byte) {
		mu.Lock()
		defer mu.Unlock()
		for _, d := range removed {
			delete(known, d)
		}
		for _, d := range added {
			known[d] = true
		}
		changed <- struct{}{}
	}})
	has := func(want ...byte) {
		t.Helper()
		var wanted [][32]byte
		for _, i := range want {
			wanted = append(wanted, files[i].Digest)
		}
		if got := c.Digests(math.MaxInt); !slices.Equal(got, wanted) {
			t.Fatalf("the cache has %x, want %v", got, want)
		}
	}
	mustFetch(t, c, files[1]).Release()
	mustFetch(t, c, files[2]).Release()
	mustFetch(t, c, files[3]).Release()
	mustFetch(t, c, files[1]).Release() // used again
	has(1, 3, 2)
	held := mustFetch(t, c, files[2])
	alsoHeld := mustFetch(t, c, files[3])
	for most := range 5 {
		got := c.Digests(most)
		isHeld := func(d [32]byte) bool { return d == files[2].Digest || d == files[3].Digest }
		for i, d := range got {
			if isHeld(d) != (i < 2) {
				t.Fatalf("of %d files asked for, number %d is held: %t", most, i, isHeld(d))
			}
		}
		if len(got) != min(most, 3) {
			t.Fatalf("%d files, %d were asked for", len(got), most)
		}
	}
	held.Release()
	alsoHeld.Release()
	mustFetch(t, c, files[1]).Release()
	has(1, 3, 2)
	mustFetch(t, c, files[4]).Release() // evicts 2
	has(4, 1, 3)
	three := mustFetch(t, c, files[3])
	four := mustFetch(t, c, files[4])
	mustFetch(t, c, files[5]).Release() // evicts 1, the only file not held
	if s := c.Stats(); s.Evictions != 2 || s.Held != 4*block {
		t.Errorf("stats are %+v", s)
	}
	five := mustFetch(t, c, files[5])
	_, err := c.Fetch(t.Context(), files[6], nil)
	wantError(t, err, NoSpace, "hold 24576 of the cache's 24576 bytes", "another worker")
	for _, h := range []*Held{three, four, five} {
		if _, err := os.Stat(h.Path); err != nil {
			t.Error(err)
		}
	}
	four.Release()
	six := mustFetch(t, c, files[6])
	three.Release()
	five.Release()
	six.Release()
	has(6, 5, 3)
	for {
		mu.Lock()
		same := len(known) == 3 && known[files[6].Digest] && known[files[5].Digest] && known[files[3].Digest]
		mu.Unlock()
		if same {
			break
		}
		<-changed
	}
}

// Fetch evicts nothing for a file too large for the room of all evictable files.
func TestNoNeedlessEviction(t *testing.T) {
	small, large := content(1, 10), content(2, 3*block)
	smallURL, _ := serveContent(t, small)
	largeURL, _ := serveContent(t, large)
	c := newCache(t, 3*block, Options{})
	mustFetch(t, c, fileOf(smallURL, small)).Release()
	g := newGate(t, content(3, block))
	held := fetchAsync(c, t.Context(), fileOf(g.url, content(3, block)))
	<-g.begun
	_, err := c.Fetch(t.Context(), fileOf(largeURL, large), nil)
	wantError(t, err, NoSpace)
	if s := c.Stats(); s.Evictions != 0 {
		t.Errorf("%d evictions", s.Evictions)
	}
	close(g.release)
	(<-held).held.Release()
	mustFetch(t, c, fileOf(largeURL, large)).Release()
	if s := c.Stats(); s.Evictions != 2 {
		t.Errorf("%d evictions", s.Evictions)
	}
}

// Fetch waits for the room of a cancelled fetch.
func TestRoomOfAbandonedFetches(t *testing.T) {
	b := content(1, 2*block)
	url, _ := serveContent(t, b)
	c := newCache(t, 2*block, Options{})
	for range 20 {
		g := newGate(t, content(2, 2*block))
		ctx, cancel := context.WithCancel(t.Context())
		dying := fetchAsync(c, ctx, fileOf(g.url, content(2, 2*block)))
		<-g.begun
		cancel()
		<-dying
		mustFetch(t, c, fileOf(url, b)).Release()
	}
}

func TestUnknownSize(t *testing.T) {
	b := content(1, 3*block)
	f := fileOf("", b)
	f.Bytes = 0
	url, _ := serveContent(t, b[:100]) // small enough for net/http to send the length
	small := probe.File{Digest: sha256.Sum256(b[:100]), URL: url}
	c := newCache(t, 4*block, Options{})
	mustFetch(t, c, small).Release()
	if s := c.Stats(); s.Bytes != block {
		t.Errorf("stats are %+v", s)
	}
	mustFetch(t, c, small).Release()

	f.URL = serveHTTP(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Write(b[:1])
		w.(http.Flusher).Flush()
		w.Write(b[1:])
	})
	_, err := c.Fetch(t.Context(), f, nil)
	wantError(t, err, WrongSize, "announce it")

	f.URL = serveHTTP(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", fmt.Sprint(5*block))
		w.Write(make([]byte, 5*block))
	})
	_, err = c.Fetch(t.Context(), f, nil)
	wantError(t, err, TooLarge)
	c.verify(t)

	// A peer sends a wrong size, then the origin sends the true size; the cache makes room for the true size.
	peer := serveHTTP(t, func(w http.ResponseWriter, _ *http.Request) { w.Write(content(9, 10)) })
	f.URL = serveHTTP(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", fmt.Sprint(len(b)))
		w.Write(b)
	})
	h := mustFetch(t, c, f, peer)
	if s := c.Stats(); s.Held != 3*block || s.Evictions != 0 {
		t.Errorf("stats are %+v", s)
	}
	other := content(5, 2*block)
	otherURL := serveHTTP(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", fmt.Sprint(len(other)))
		w.Write(other)
	})
	_, err = c.Fetch(t.Context(), probe.File{Digest: sha256.Sum256(other), URL: otherURL}, nil)
	wantError(t, err, NoSpace)
	h.Release()
	mustFetch(t, c, probe.File{Digest: sha256.Sum256(other), URL: otherURL}).Release()

	empty := probe.File{Digest: sha256.Sum256(nil),
		URL: serveHTTP(t, func(w http.ResponseWriter, _ *http.Request) { w.Write(b) })}
	_, err = c.Fetch(t.Context(), empty, nil)
	wantError(t, err, WrongSize)
}

// A call with another announced size neither joins the fetch nor gets its file.
func TestAnnouncedSizeOfASharedFetch(t *testing.T) {
	b := content(1, 1000)
	g := newGate(t, b)
	c := newCache(t, 1<<20, Options{})
	f := fileOf(g.url, b)
	right := fetchAsync(c, t.Context(), f)
	<-g.begun
	f.Bytes = 999
	if e, w, _, err := c.pinOrFetch(f, nil); e != nil || w == nil || err != nil {
		t.Fatalf("got entry %v, fetch %v, %v", e, w, err)
	}
	wrong := fetchAsync(c, t.Context(), f)
	close(g.release)
	(<-right).held.Release()
	wantError(t, (<-wrong).err, WrongSize)
}

func TestAnnouncedSizeOfAHit(t *testing.T) {
	b := content(1, 100)
	url, _ := serveContent(t, b)
	c := newCache(t, 1<<20, Options{})
	mustFetch(t, c, fileOf(url, b)).Release()
	f := fileOf(url, b)
	f.Bytes = 99
	_, err := c.Fetch(t.Context(), f, nil)
	wantError(t, err, WrongSize, "announced with 99 bytes and has 100")
}

func TestRestart(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cache")
	var files []probe.File
	var asked []*atomic.Int64
	for i := range 4 {
		b := content(byte(i), 5000)
		url, n := serveContent(t, b)
		files, asked = append(files, fileOf(url, b)), append(asked, n)
	}
	c := openCache(t, dir, 1<<20, Options{})
	for i, f := range files {
		h := mustFetch(t, c, f)
		if err := os.Chtimes(h.Path, time.Time{}, time.Unix(int64(1000+i), 0)); err != nil {
			t.Fatal(err)
		}
		h.Release()
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	name := func(f probe.File) string { return filepath.Join(dir, hex.EncodeToString(f.Digest[:])) }
	// After a crash: the content of a file never reached the disk, another file is cut off.
	for i, b := range [][]byte{1: make([]byte, 5000), 2: content(2, 4096)} {
		if b != nil {
			if err := os.Chmod(name(files[i]), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(name(files[i]), b, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Chtimes(name(files[i]), time.Time{}, time.Unix(int64(1000+i), 0)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, leftover := range []string{"partial-1", "partial-77"} {
		if err := os.WriteFile(filepath.Join(dir, leftover), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var mu sync.Mutex
	var removed [][32]byte
	c = openCache(t, dir, 1<<20, Options{OnChange: func(_, r [][32]byte) {
		mu.Lock()
		defer mu.Unlock()
		removed = append(removed, r...)
	}})
	if got := c.Digests(math.MaxInt); len(got) != 4 || got[0] != files[3].Digest || got[3] != files[0].Digest {
		t.Errorf("found %x", got)
	}
	c.verify(t) // verify fails if partial files are left
	for i, f := range files {
		mustFetch(t, c, f).Release()
		if want := []int64{1, 2, 2, 1}[i]; asked[i].Load() != want {
			t.Errorf("file %d was fetched %d times, want %d", i, asked[i].Load(), want)
		}
	}
	if s := c.Stats(); s.Hits != 2 || s.Misses != 2 || s.Spoilt != 2 || s.FromHTTP != 10000 {
		t.Errorf("stats are %+v", s)
	}

	// With a smaller limit, Open evicts the oldest files.
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	for i, f := range files {
		if err := os.Chtimes(name(f), time.Time{}, time.Unix(int64(2000+i), 0)); err != nil {
			t.Fatal(err)
		}
	}
	c = openCache(t, dir, 4*block, Options{})
	if got := c.Digests(math.MaxInt); len(got) != 2 || got[0] != files[3].Digest || got[1] != files[2].Digest {
		t.Errorf("kept %x", got)
	}
}

// The check of a file from an earlier process goes on while a call waits, and a later call starts it anew.
func TestCheckCalledOff(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cache")
	b := content(1, 1000)
	url, asked := serveContent(t, b)
	c := openCache(t, dir, 1<<20, Options{})
	mustFetch(t, c, fileOf(url, b)).Release()
	c.Close()
	c = openCache(t, dir, 1<<20, Options{Parallel: 1})
	busy := make(chan struct{}, 1)
	busy <- struct{}{} // as if another file were being checked
	c.hostLimits[""] = &hostLimit{users: 1, running: busy}
	ctx, cancel := context.WithCancel(t.Context())
	done := fetchAsync(c, ctx, fileOf(url, b))
	c.waitUntil(func() bool { return c.entries[sha256.Sum256(b)].fetch != nil })
	cancel()
	if r := <-done; !errors.Is(r.err, context.Canceled) {
		t.Error(r.err)
	}
	<-busy
	// The same during hashing: the slot is free and the context has ended, so either may come first.
	e := c.entries[sha256.Sum256(b)]
	for range 50 {
		if _, err := c.checkOrFetch(e, &fetch{file: fileOf(url, b), ctx: ctx}); !errors.Is(err, context.Canceled) ||
			e.state != stateFound {
			t.Fatalf("state %d, %v", e.state, err)
		}
	}
	mustFetch(t, c, fileOf(url, b)).Release()
	if asked.Load() != 1 {
		t.Error("the file was fetched again")
	}
}

// alterByte changes a byte of the file at path, and restores mode and time.
func alterByte(path string) error {
	before, err := os.Stat(path)
	if err != nil {
		return err
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	b[len(b)/2]++
	return errors.Join(os.Chmod(path, 0o700), os.WriteFile(path, b, 0), os.Chmod(path, before.Mode()),
		os.Chtimes(path, before.ModTime(), before.ModTime()))
}

// An unchanged file is not fetched again, even after a link or a touch. It is hashed again only after a link or a
// touch.
func TestTouchedEntries(t *testing.T) {
	b := content(1, 1000)
	url, asked := serveContent(t, b)
	c := newCache(t, 1<<20, Options{})
	e := func() *entry { return c.entries[sha256.Sum256(b)] }
	h := mustFetch(t, c, fileOf(url, b))
	h.Release()
	time.Sleep(2 * tick) // the clock of the disk
	hashed := func() bool {
		before := e().stamp.taken
		mustFetch(t, c, fileOf(url, b)).Release()
		return e().stamp.taken != before
	}
	// A busy machine may take longer than a tick from the change to the stamp.
	if fresh := e().stamp.taken.Sub(e().stamp.changed) <= tick; hashed() != fresh {
		t.Errorf("fetched just before its stamp: %t, but the file was hashed again: %t; a change since could have the "+
			"same time", fresh, !fresh)
	}
	if hashed() {
		t.Error("an unchanged file was hashed again")
	}
	if err := os.Link(h.Path, filepath.Join(t.TempDir(), "link")); err != nil {
		t.Fatal(err)
	}
	time.Sleep(2 * tick)
	if !hashed() || hashed() {
		t.Error("want a touched file hashed again once, and then no more")
	}
	if s := c.Stats(); asked.Load() != 1 || s.Spoilt != 0 {
		t.Errorf("fetched %d times, %+v", asked.Load(), s)
	}
}

// The next hit notices changes to the folder by other programs.
func TestSpoiltEntries(t *testing.T) {
	b := content(1, 1000)
	for name, spoil := range map[string]func(path string) error{
		"removed":   os.Remove,
		"cut off":   func(path string) error { return os.Truncate(path, 10) },
		"rewritten": func(path string) error { os.Remove(path); return os.WriteFile(path, content(2, 1000), 0o600) },
		"replaced": func(path string) error {
			os.Remove(path)
			return os.Symlink("/dev/zero", path)
		},
		"altered": alterByte,
		"altered when nobody would hash it again": func(path string) error {
			time.Sleep(2 * tick) // the clock of the disk
			return alterByte(path)
		},
	} {
		t.Run(name, func(t *testing.T) {
			url, asked := serveContent(t, b)
			c := newCache(t, 1<<20, Options{})
			h := mustFetch(t, c, fileOf(url, b))
			mustFetch(t, c, fileOf(url, b)).Release()
			if err := spoil(h.Path); err != nil {
				t.Fatal(err)
			}
			mustFetch(t, c, fileOf(url, b)).Release()
			if s := c.Stats(); asked.Load() != 2 || s.Spoilt != 1 {
				t.Errorf("fetched %d times, %+v", asked.Load(), s)
			}
			h.Release()
			if s := c.Stats(); s.Held != 0 {
				t.Errorf("stats are %+v", s)
			}
		})
	}
}

func TestOpenRefuses(t *testing.T) {
	open := func(mode os.FileMode) string {
		dir := t.TempDir()
		if err := os.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	used := newCache(t, 1<<20, Options{})
	file := filepath.Join(open(0o755), "file")
	if err := os.WriteFile(file, nil, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		dir  string
		max  int64
		opts Options
		says string
	}{
		{filepath.Dir(file), 1 << 20, Options{}, "chmod 700"},
		{open(0o770), 1 << 20, Options{}, "chmod 700"},
		{open(0o700), 0, Options{}, "limit of 0 bytes"},
		{open(0o700), -1, Options{}, "limit of -1 bytes"},
		{used.dir, 1 << 20, Options{}, "another worker"},
		{file, 1 << 20, Options{}, "not a directory"},
		{open(0o700), 1 << 20, Options{Roots: []string{"data"}}, "absolute"},
		{open(0o700), 1 << 20, Options{Hosts: []string{"http://x"}}, "not a URL"},
		{open(0o700), 1 << 20, Options{Parallel: -1, Serve: -1, Timeout: -1}, "\n"},
	} {
		if c, err := Open(tt.dir, tt.max, tt.opts); err == nil {
			t.Errorf("%s, %d, %+v: no error", tt.dir, tt.max, tt.opts)
			c.Close()
		} else if !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%q does not say %q", err, tt.says)
		}
	}
	if info, err := os.Stat(used.dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the folder has %v, %v", info.Mode(), err)
	}
}

// Open closes an empty folder to other users.
func TestOpenClosesFolder(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	c, err := Open(dir, 1<<20, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the folder has %v, %v", info.Mode(), err)
	}
}

func TestFullDisk(t *testing.T) {
	c := newCache(t, 1<<20, Options{})
	err := c.diskFailure(&os.PathError{Op: "write", Path: "x", Err: syscall.ENOSPC})
	if reasonOf(err) != Disk || !strings.Contains(err.Error(), c.dir) {
		t.Errorf("%v: %v", reasonOf(err), err)
	}
	// A read-only folder is not a source's fault: the cache does not ask a second source.
	c = newCache(t, 1<<20, Options{})
	b := content(1, 10)
	url, asked := serveContent(t, b)
	if err := os.WriteFile(filepath.Join(c.dir, "partial-1"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = c.Fetch(t.Context(), fileOf(url, b), []string{strings.TrimSuffix(url, "/data")})
	wantError(t, err, Disk, "cannot write to the cache")
	if asked.Load() != 1 {
		t.Errorf("%d sources were asked", asked.Load())
	}
	os.Remove(filepath.Join(c.dir, "partial-1"))
}

func TestHandler(t *testing.T) {
	b := content(1, 3*chunk+9)
	origin, _ := serveContent(t, b)
	c := newCache(t, 1<<20, Options{Secrets: identity.NewSecrets("open sesame")})
	mustFetch(t, c, fileOf(origin, b)).Release()
	url := servePeer(t, c)
	name := fmt.Sprintf("%x", sha256.Sum256(b))
	tests := []struct {
		method, path, secret string
		status               int
	}{
		{"GET", "/files/" + name, "open sesame", 200},
		{"HEAD", "/files/" + name, "open sesame", 200},
		{"GET", "/files/" + name + "?x", "open sesame", 200},
		{"GET", "/files/" + name, "", 401},
		{"GET", "/files/" + name, "open sesam", 401},
		{"GET", "/", "", 401},
		{"PUT", "/files/" + name, "open sesame", 405},
		{"DELETE", "/files/" + name, "open sesame", 405},
		{"GET", "/files/" + strings.Repeat("0", 64), "open sesame", 404},
		{"GET", "/files/" + strings.ToUpper(name), "open sesame", 400},
		{"GET", "/files/" + name[:63], "open sesame", 400},
		{"GET", "/files/" + name + "/", "open sesame", 400},
		{"GET", "/files/../files/" + name, "open sesame", 400},
		{"GET", "/files//" + name, "open sesame", 400},
		{"GET", "/files/lock", "open sesame", 400},
		{"GET", "/files/%2e%2e/lock", "open sesame", 400},
		{"GET", "/files/%" + fmt.Sprintf("%x", name[0]) + name[1:], "open sesame", 400},
		{"GET", "/" + name, "open sesame", 400},
	}
	for _, tt := range tests {
		req, err := http.NewRequest(tt.method, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.URL.Opaque = strings.TrimPrefix(url, "http:") + tt.path // unescaped, as it is
		req.Header.Set(secretHeader, tt.secret)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != tt.status {
			t.Errorf("%s %s with %q: %s, %v", tt.method, tt.path, tt.secret, resp.Status, err)
			continue
		}
		if tt.status == 200 && (resp.ContentLength != int64(len(b)) || tt.method == "GET" && !bytes.Equal(body, b)) {
			t.Errorf("%s %s: %d bytes, says %d", tt.method, tt.path, len(body), resp.ContentLength)
		}
	}
	http.DefaultClient.CloseIdleConnections()

	c.Close()
	w := httptest.NewRecorder()
	req := httptest.NewRequest("GET", "/files/"+name, nil)
	req.Header.Set(secretHeader, "open sesame")
	c.Handler().ServeHTTP(w, req)
	if w.Code != 503 {
		t.Errorf("after Close: %d", w.Code)
	}
}

// stuckWriter is the connection to a peer after the peer stopped reading.
type stuckWriter struct {
	http.ResponseWriter
	deadline chan time.Time
}

func (w *stuckWriter) SetWriteDeadline(t time.Time) error { w.deadline <- t; return nil }

func (w *stuckWriter) Write([]byte) (int, error) { return 0, os.ErrDeadlineExceeded }

func TestPeerThatDoesNotRead(t *testing.T) {
	b := content(1, 3*chunk)
	origin, _ := serveContent(t, b)
	c := newCache(t, 1<<20, Options{Serve: 1})
	f := fileOf(origin, b)
	mustFetch(t, c, f).Release()
	w := &stuckWriter{httptest.NewRecorder(), make(chan time.Time, 100)}
	func() {
		defer func() {
			if r := recover(); r != http.ErrAbortHandler {
				t.Errorf("recovered %v", r)
			}
		}()
		c.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/files/"+hex.EncodeToString(f.Digest[:]), nil))
	}()
	if len(w.deadline) != 1 || (<-w.deadline).IsZero() {
		t.Error("no deadline was set")
	}
	// The only slot of the peer for serving is free again.
	mustFetch(t, newCache(t, 1<<20, Options{}), fileOf("", b), servePeer(t, c)).Release()
}

// A peer gets a whole file even if the entry is evicted meanwhile.
func TestEvictedWhileServed(t *testing.T) {
	b := content(1, 1<<20)
	origin, _ := serveContent(t, b)
	c := newCache(t, 1<<20, Options{})
	f := fileOf(origin, b)
	mustFetch(t, c, f).Release()
	resp, err := http.Get(servePeer(t, c) + "/files/" + hex.EncodeToString(f.Digest[:]))
	if err != nil {
		t.Fatal(err)
	}
	defer http.DefaultClient.CloseIdleConnections()
	defer resp.Body.Close()
	other := content(2, 1<<20)
	url, _ := serveContent(t, other)
	mustFetch(t, c, fileOf(url, other)).Release()
	if got, err := io.ReadAll(resp.Body); err != nil || !bytes.Equal(got, b) {
		t.Errorf("got %d bytes, %v", len(got), err)
	}
}

func FuzzParsePath(f *testing.F) {
	name := strings.Repeat("0a", 32)
	for _, s := range []string{"/files/" + name, "/files/" + name + "/", "/files/../" + name,
		"/files/" + strings.ToUpper(name), "", "/files/", name, "/files/%30" + name[1:]} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, path string) {
		digest, ok := parsePath(path)
		if ok != (path == "/files/"+hex.EncodeToString(digest[:])) {
			t.Errorf("%q: %x, %v", path, digest, ok)
		}
	})
}

// No URL gives a source outside the roots.
func FuzzOrigin(f *testing.F) {
	c := &Cache{opts: Options{Roots: []string{"/data/a"}, Hosts: []string{"good"}}}
	for _, s := range []string{"file:///data/a/x", "file:///data/a/../b", "file:///data/a%2f..%2f..%2fx",
		"file:/data/a/x", "http://good/x", "http://good@bad/", "http://bad\\@good/", "http://good:80#@bad/"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		s, err := c.originOf(raw)
		if err != nil {
			if reasonOf(err) != BadURL && reasonOf(err) != Refused {
				t.Errorf("%q: %v", raw, err)
			}
			return
		}
		rest, local := strings.CutPrefix(strings.ToLower(raw), "file:")
		if local != (s.kind == fromDisk) {
			t.Errorf("%q is of kind %d", raw, s.kind)
		}
		if local && !strings.Contains(rest, "a") {
			t.Errorf("%q leads somewhere", raw)
		}
	})
}

func BenchmarkHit(b *testing.B) {
	data := content(1, 1<<20)
	url, _ := serveContent(b, data)
	c := newCache(b, 1<<24, Options{})
	f := fileOf(url, data)
	mustFetch(b, c, f).Release()
	b.ReportAllocs()
	for b.Loop() {
		h, err := c.Fetch(context.Background(), f, nil)
		if err != nil {
			b.Fatal(err)
		}
		h.Release()
	}
}

func BenchmarkFetchFile(b *testing.B) {
	root := b.TempDir()
	data := content(1, 16<<20)
	path := filepath.Join(root, "data")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		b.Fatal(err)
	}
	c := newCache(b, 1<<28, Options{Roots: []string{root}})
	f := fileOf("file://"+path, data)
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		h, err := c.Fetch(context.Background(), f, nil)
		if err != nil {
			b.Fatal(err)
		}
		h.Release()
		c.mu.Lock()
		c.evictOldest()
		c.unlockAndDelete()
	}
}

// With TLS, a worker takes files only from peers with a worker's certificate.
func TestPeersByTLS(t *testing.T) {
	ca, err := identity.NewAuthority("test", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	keys := map[string]*identity.Keys{}
	for _, role := range []string{"worker", "frontend"} {
		dir := t.TempDir()
		id, _ := identity.Parse(role)
		if err := ca.Issue(dir, id, time.Hour, ca); err != nil {
			t.Fatal(err)
		}
		if keys[role], err = identity.Open(dir); err != nil {
			t.Fatal(err)
		}
	}
	b := content(1, chunk+5)
	origin, asked := serveContent(t, b)
	f := fileOf(origin, b)
	first := newCache(t, 1<<20, Options{Keys: keys["worker"]})
	mustFetch(t, first, f).Release()
	before := asked.Load()
	for _, role := range []string{"worker", "frontend"} {
		peer := httptest.NewUnstartedServer(first.Handler())
		peer.Listener = keys[role].Listen(peer.Listener, identity.Worker)
		peer.Start()
		t.Cleanup(peer.Close)
		mustFetch(t, newCache(t, 1<<20, Options{Keys: keys["worker"]}), f, peer.URL).Release()
		if fromOrigin := asked.Load() > before; fromOrigin != (role == "frontend") {
			t.Errorf("from the origin: %v, where the peer is a %s", fromOrigin, role)
		}
	}
}

// Peers that download slowly take no room from readers of results, and readers none from peers. Of each kind, a single
// caller cannot take all room.
func TestPeersAndReadersAreApart(t *testing.T) {
	c := newCache(t, 64<<20, Options{Serve: 4, ServeParts: 4})
	digest := commit(t, c, content(1, 16<<20))
	url := servePeer(t, c) + filesPath + hex.EncodeToString(digest[:])
	open := func(from, part string) int {
		t.Helper()
		dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
		client := &http.Client{Transport: &http.Transport{DialContext: dialer.DialContext}}
		t.Cleanup(client.CloseIdleConnections)
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		if part != "" {
			req.Header.Set("Range", part)
		}
		resp, err := client.Do(req) // nobody reads the body
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { resp.Body.Close() })
		return resp.StatusCode
	}
	const part, wholePart, busy = "bytes=0-16777215", http.StatusPartialContent, http.StatusServiceUnavailable
	for i, step := range []struct {
		from, part string
		want       int
	}{
		{"127.0.0.1", "", 200}, {"127.0.0.1", "", 200}, {"127.0.0.1", "", busy}, // half of the room for each peer
		{"127.0.0.2", "", 200}, {"127.0.0.3", "", 200}, {"127.0.0.4", "", busy},
		{"127.0.0.1", part, wholePart}, {"127.0.0.1", part, wholePart}, {"127.0.0.1", part, busy},
		{"127.0.0.2", part, wholePart}, {"127.0.0.3", part, wholePart}, {"127.0.0.4", part, busy},
	} {
		if got := open(step.from, step.part); got != step.want {
			t.Errorf("step %d, %+v: status %d", i, step, got)
		}
	}
}
