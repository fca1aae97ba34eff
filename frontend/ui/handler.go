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

	"github.com/klauspost/compress/gzhttp"

	"github.com/phoebe-sched/phoebe/frontend/client"
	"github.com/phoebe-sched/phoebe/frontend/client/admin"
)

// Fleet is the source of the page's answers. An admin.Client is a Fleet.
type Fleet interface {
	Watch(ctx context.Context, window time.Duration, since time.Time, top int) (*admin.Watched, error)
	Jobs(ctx context.Context, f admin.JobFilter, cursor string, most int) (*admin.JobPage, error)
	Trace(ctx context.Context, job string, from, most int) (*admin.Trace, error)
	Explain(ctx context.Context, h client.Handle, task int) (*client.Explanation, error)
	ClusterPage(ctx context.Context, q admin.ClusterQuery) (*admin.Cluster, error)
	Figures(ctx context.Context, frontend string, known int64) (*admin.Figures, error)
	FleetHistory(ctx context.Context, frontend string) (*admin.FleetHistory, error)
	Cancel(ctx context.Context, h client.Handle, why string) (int, error)
	Drain(ctx context.Context, worker string) error
	Maintenance(ctx context.Context, worker string, in, lasts time.Duration) error
	Recordings(ctx context.Context) ([]admin.Recording, []admin.FrontendReport, error)
	Recording(ctx context.Context, frontend, name string, w io.Writer) error
}

// Page is the page of a fleet, and a handler for all paths under Path.
type Page struct {
	fleet Fleet
	token Token

	stream        frameStream
	questionSlots chan struct{}
	watchCaches   [len(lengths)]watchCache
	mux           http.Handler

	// Used only by the composer of frames.
	knownList  int64         // number of the list of workers that was sent last
	clockAhead time.Duration // lead of the frontends' clocks over the local clock
}

// Path is the path of a Page, at any server and behind any proxy: all links of the page are relative.
const Path = "/ui/"

// maxQuestions bounds the questions asked at a time. questionTimeout bounds the time for a question.
const (
	maxQuestions    = 8
	questionTimeout = 10 * time.Second
)

// New makes the page of a fleet. With the token, a viewer may cancel jobs and have workers leave.
func New(fleet Fleet, token Token) *Page {
	p := &Page{fleet: fleet, token: token, questionSlots: make(chan struct{}, maxQuestions)}
	p.stream.composeFrame = p.composeFrame
	mux := http.NewServeMux()
	for name, f := range assets() {
		mux.Handle("GET "+Path+name, f)
	}
	mux.HandleFunc("GET "+Path+"api/live", p.stream.serveStream)
	mux.HandleFunc("GET "+Path+"api/frame", gzhttp.GzipHandler(http.HandlerFunc(p.stream.serveFrame)))
	mux.HandleFunc("GET "+Path+"api/watch", p.answerJSON(p.answerWatch))
	mux.HandleFunc("GET "+Path+"api/fleet", p.answerJSON(p.answerFleet))
	mux.HandleFunc("GET "+Path+"api/history", p.answerJSON(p.answerHistory))
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

// ServeHTTP serves the page and its questions.
func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy",
		"default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	p.mux.ServeHTTP(w, r)
}

//go:embed dist
var dist embed.FS

// asset is a file of the page, plain and compressed.
type asset struct {
	mime, etag  string
	plain, gzip []byte
}

var assets = sync.OnceValue(func() map[string]*asset {
	types := map[string]string{".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8",
		".css": "text/css; charset=utf-8", ".svg": "image/svg+xml"}
	list := map[string]*asset{}
	files, err := fs.ReadDir(dist, "dist")
	if err != nil {
		panic(err) // dist is embedded
	}
	for _, f := range files {
		plain, err := dist.ReadFile("dist/" + f.Name())
		if err != nil {
			panic(err)
		}
		sum := sha256.Sum256(plain)
		a := &asset{mime: types[path.Ext(f.Name())], etag: `"` + hex.EncodeToString(sum[:8]) + `"`, plain: plain,
			gzip: gzipBytes(plain)}
		name := f.Name()
		if name == "index.html" {
			name = "{$}"
		}
		list[name] = a
	}
	return list
})

// gzipBytes compresses a file of the page.
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

// sendBody answers in the encoding that the browser takes. squeezed may be nil.
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
	_, _ = w.Write(body) // a viewer that does not read has gone
}

func takesGzip(r *http.Request) bool {
	for part := range strings.SplitSeq(r.Header.Get("Accept-Encoding"), ",") {
		if name, q, _ := strings.Cut(part, ";"); strings.TrimSpace(name) == "gzip" {
			return strings.TrimSpace(q) != "q=0"
		}
	}
	return false
}

// question answers a question of the page. The answer becomes JSON.
type question func(ctx context.Context, r *http.Request) (any, error)

// badRequest is an error of the viewer.
type badRequest struct{ error }

// errBusy answers a question that waited in vain for its turn.
var errBusy = errors.New("too many questions are under way: try again")

// askInTurn calls do when fewer than maxQuestions questions are under way. do must not write to a viewer, so slow
// viewers delay no question.
func (p *Page) askInTurn(ctx context.Context, do func() error) error {
	select {
	case p.questionSlots <- struct{}{}:
		defer func() { <-p.questionSlots }()
		return do()
	case <-ctx.Done():
		return errBusy
	}
}

// answerJSON makes a handler that answers a question, in turn. Browsers that take gzip get long answers compressed.
func (p *Page) answerJSON(q question) http.HandlerFunc {
	return gzhttp.GzipHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), questionTimeout)
		defer cancel()
		var answer any
		err := p.askInTurn(ctx, func() (err error) {
			answer, err = q(ctx, r)
			return err
		})
		var refused *client.RefusedError
		// an answer, not an error: browsers would log an error
		if errors.As(err, &refused) && refused.Reason == client.UnknownJob {
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
		sendBody(w, r, "application/json", text, nil)
	}))
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
	case refused.Reason == client.Invalid, refused.Reason == client.NoWorker:
		return http.StatusBadRequest
	}
	return http.StatusBadGateway
}

// sendError answers with an error as JSON.
func sendError(w http.ResponseWriter, code int, err error) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(map[string]string{"Error": err.Error()})
}

// Token is the secret of operators who may do more than look. Empty: no viewer may.
type Token string

// Shown reports whether a request shows the token: as Authorization's bearer, or as the password in an address.
func (t Token) Shown(r *http.Request) bool {
	shown, bearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !bearer {
		_, shown, _ = r.BasicAuth()
	}
	return t != "" && subtle.ConstantTimeCompare([]byte(shown), []byte(t)) == 1
}

// requireToken passes on requests that show the token.
func (p *Page) requireToken(h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		switch {
		case p.token == "":
			sendError(w, http.StatusForbidden,
				errors.New("the page is read-only: start its server with --admin-token-file"))
		case !p.token.Shown(r):
			sendError(w, http.StatusUnauthorized,
				errors.New("the admin token is missing or wrong: give the token in the file of --admin-token-file"))
		case r.ContentLength != 0:
			sendError(w, http.StatusBadRequest,
				errors.New("the request has a body: put all parameters into the address"))
		default:
			h(w, r)
		}
	}
}
