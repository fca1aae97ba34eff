package ui

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/phoebe-sched/phoebe/frontend/client"
)

// Fleet is what the page asks. A client.Client is one.
type Fleet interface {
	Watch(ctx context.Context, window time.Duration, since time.Time, top int) (*client.Watched, error)
	Jobs(ctx context.Context, f client.JobFilter, cursor string, most int) (*client.JobPage, error)
	Trace(ctx context.Context, job string, from, most int) (*client.Trace, error)
	Explain(ctx context.Context, h client.Handle, task int) (*client.Explanation, error)
	ClusterPage(ctx context.Context, q client.ClusterQuery) (*client.Cluster, error)
	Figures(ctx context.Context, frontend string, known int64) (*client.Figures, error)
	Cancel(ctx context.Context, h client.Handle, why string) (int, error)
	Drain(ctx context.Context, worker string) error
	Maintenance(ctx context.Context, worker string, in, lasts time.Duration) error
	Recordings(ctx context.Context) ([]client.Recording, []client.FrontendReport, error)
	Recording(ctx context.Context, frontend, name string, w io.Writer) error
}

// Page is the page of a fleet, and a handler of all under Path.
type Page struct {
	fleet Fleet
	token Token

	stream        frameStream
	questionSlots chan struct{}
	watchCaches   [len(lengths)]watchCache
	mux           http.Handler

	// Of who composes frames.
	knownList  int64         // list of workers that was sent last
	clockAhead time.Duration // by which the frontends' clocks are before this one
}

// Path is where a Page is to be served, at any server and behind any proxy: all its links are relative.
const Path = "/ui/"

// maxQuestions is how many questions of viewers are asked at a time, maxAskFor how long one may take.
const (
	maxQuestions    = 8
	questionTimeout = 10 * time.Second
)

// New makes the page of a fleet. Whoever knows the token may cancel jobs and have workers leave.
func New(fleet Fleet, token Token) *Page {
	p := &Page{fleet: fleet, token: token, questionSlots: make(chan struct{}, maxQuestions)}
	p.stream.composeFrame = p.composeFrame
	mux := http.NewServeMux()
	for name, f := range assets() {
		mux.Handle("GET "+Path+name, f)
	}
	mux.HandleFunc("GET "+Path+"api/live", p.stream.serveStream)
	mux.HandleFunc("GET "+Path+"api/frame", p.stream.serveFrame)
	mux.HandleFunc("GET "+Path+"api/watch", p.answerJSON(p.answerWatch))
	mux.HandleFunc("GET "+Path+"api/fleet", p.answerJSON(p.answerFleet))
	mux.HandleFunc("GET "+Path+"api/workers", p.answerJSON(p.answerWorkers))
	mux.HandleFunc("GET "+Path+"api/worker", p.answerJSON(p.answerWorker))
	mux.HandleFunc("GET "+Path+"api/jobs", p.answerJSON(p.answerJobs))
	mux.HandleFunc("GET "+Path+"api/trace", p.answerJSON(p.answerTrace))
	mux.HandleFunc("GET "+Path+"api/explain", p.answerJSON(p.answerExplain))
	mux.HandleFunc("GET "+Path+"api/recordings", p.answerJSON(p.answerRecordings))
	mux.HandleFunc("GET "+Path+"api/recording/{frontend}/{name}", p.serveRecording)
	mux.HandleFunc("POST "+Path+"api/cancel", p.requireToken(p.answerJSON(p.cancelJob)))
	mux.HandleFunc("POST "+Path+"api/drain", p.requireToken(p.answerJSON(p.drainWorker)))
	mux.HandleFunc("POST "+Path+"api/maintenance", p.requireToken(p.answerJSON(p.announceMaintenance)))
	p.mux = http.NewCrossOriginProtection().Handler(mux)
	return p
}

// ServeHTTP serves the page and what it asks.
func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	p.mux.ServeHTTP(w, r)
}

//go:embed dist
var dist embed.FS

// asset is a file of the page, as it is and compressed.
type asset struct {
	mime, etag  string
	plain, gzip []byte
}

var assets = sync.OnceValue(func() map[string]*asset {
	types := map[string]string{".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml"}
	list := map[string]*asset{}
	files, err := fs.ReadDir(dist, "dist")
	if err != nil {
		panic(err) // it is embedded
	}
	for _, f := range files {
		plain, err := dist.ReadFile("dist/" + f.Name())
		if err != nil {
			panic(err)
		}
		sum := sha256.Sum256(plain)
		a := &asset{mime: types[path.Ext(f.Name())], etag: `"` + hex.EncodeToString(sum[:8]) + `"`, plain: plain, gzip: gzipBytes(plain)}
		name := f.Name()
		if name == "index.html" {
			name = "{$}"
		}
		list[name] = a
	}
	return list
})

func gzipBytes(plain []byte) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = z.Write(plain) // into memory
	_ = z.Close()
	return b.Bytes()
}

func (a *asset) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Etag", a.etag)
	h.Set("Cache-Control", "no-cache")
	if r.Header.Get("If-None-Match") == a.etag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	sendBody(w, r, a.mime, a.plain, a.gzip)
}

// sendBody answers with the one of two encodings that the browser takes. squeezed may be nil.
func sendBody(w http.ResponseWriter, r *http.Request, mime string, plain, squeezed []byte) {
	h := w.Header()
	h.Set("Content-Type", mime)
	h.Set("Vary", "Accept-Encoding")
	body := plain
	if squeezed != nil && takesGzip(r) {
		h.Set("Content-Encoding", "gzip")
		body = squeezed
	}
	h.Set("Content-Length", strconv.Itoa(len(body)))
	_, _ = w.Write(body) // whoever does not read it has gone
}

func takesGzip(r *http.Request) bool {
	for part := range strings.SplitSeq(r.Header.Get("Accept-Encoding"), ",") {
		if name, q, _ := strings.Cut(part, ";"); strings.TrimSpace(name) == "gzip" {
			return strings.TrimSpace(q) != "q=0"
		}
	}
	return false
}

// question is something that the page asks, and that is answered with JSON.
type question func(ctx context.Context, r *http.Request) (any, error)

// badRequest is an error of whoever asks.
type badRequest struct{ error }

// minSqueezed is from how many bytes on an answer is worth being compressed.
const minSqueezed = 1 << 10

// errBusy is that of who has waited in vain.
var errBusy = errors.New("others ask too much: try again")

// askInTurn does something when few others ask. It does not wait for a viewer: whoever reads slowly keeps nobody else from asking.
func (p *Page) askInTurn(ctx context.Context, do func() error) error {
	select {
	case p.questionSlots <- struct{}{}:
		defer func() { <-p.questionSlots }()
		return do()
	case <-ctx.Done():
		return errBusy
	}
}

// answerJSON answers questions, a few at a time.
func (p *Page) answerJSON(q question) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), questionTimeout)
		defer cancel()
		var answer any
		err := p.askInTurn(ctx, func() (err error) {
			answer, err = q(ctx, r)
			return err
		})
		var refused *client.RefusedError
		if errors.As(err, &refused) && refused.Reason == client.UnknownJob { // that, too, is an answer: browsers would log an error
			answer, err = map[string]string{"Unknown": err.Error()}, nil
		}
		if err != nil {
			sendError(w, statusOf(err), err)
			return
		}
		text, packed := answer.(json.RawMessage)
		if !packed {
			if text, err = json.Marshal(answer); err != nil {
				sendError(w, http.StatusInternalServerError, err)
				return
			}
		}
		w.Header().Set("Cache-Control", "no-store")
		var squeezed []byte
		if len(text) >= minSqueezed && takesGzip(r) {
			squeezed = gzipBytes(text)
		}
		sendBody(w, r, "application/json", text, squeezed)
	}
}

func statusOf(err error) int {
	var bad badRequest
	var refused *client.RefusedError
	switch {
	case errors.Is(err, errBusy):
		return http.StatusServiceUnavailable
	case errors.As(err, &bad):
		return http.StatusBadRequest
	case !errors.As(err, &refused):
		return http.StatusBadGateway
	case refused.Reason == client.Invalid:
		return http.StatusBadRequest
	}
	return http.StatusBadGateway
}

func sendError(w http.ResponseWriter, code int, err error) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(map[string]string{"Error": err.Error()})
}

// Token is what operators show who may do more than look. Nobody may if it is empty.
type Token string

// Shown reports whether a request comes with the token: as Authorization's bearer, or as the password of an address.
func (t Token) Shown(r *http.Request) bool {
	shown, bearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !bearer {
		_, shown, _ = r.BasicAuth()
	}
	return t != "" && subtle.ConstantTimeCompare([]byte(shown), []byte(t)) == 1
}

// requireToken lets through whoever knows the token.
func (p *Page) requireToken(h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		switch {
		case p.token == "":
			sendError(w, http.StatusForbidden, errors.New("this page only shows: start what serves it with --admin-token-file"))
		case !p.token.Shown(r):
			sendError(w, http.StatusUnauthorized, errors.New("this takes the admin token, which is in the file of --admin-token-file"))
		case r.ContentLength != 0:
			sendError(w, http.StatusBadRequest, errors.New("what is asked goes into the address"))
		default:
			h(w, r)
		}
	}
}
