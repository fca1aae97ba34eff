package ui

import (
	"bytes"
	"compress/flate"
	"context"
	"errors"
	"net/http"
	"sync"
	"time"
)

const (
	frameEvery = time.Second     // a frame is composed
	maxViewers = 64              // are sent each frame
	pollFor    = 5 * time.Second // frames go on for whoever has asked for one
	maxWriting = 5 * time.Second // until a viewer is taken for gone
)

// frameStream sends a frame to all viewers each second, while there is one.
type frameStream struct {
	composeFrame func(context.Context) []byte // one line

	mu         sync.Mutex
	viewers    map[chan *frame]struct{}
	polledAt   time.Time // when somebody last asked for a frame
	lastFrame  *frame
	firstFrame chan struct{} // closed when there is a frame; nil: nobody composes
}

// frame is what is sent: as it is, and as a part of a stream that gzip reads.
type frame struct{ plain, squeezed []byte }

// gzipHeader begins a gzip stream. Behind it comes one frame after the other, each compressed for itself and flushed; the stream
// never ends.
var gzipHeader = []byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255}

// squeezeLevel is how hard it is tried to make a frame small: to try harder takes two to eight times as long, for a twentieth less.
const squeezeLevel = flate.BestSpeed

// composeFrames composes frames until nobody looks.
func (l *frameStream) composeFrames() {
	var b bytes.Buffer
	z, err := flate.NewWriter(&b, squeezeLevel)
	if err != nil {
		panic(err) // the level is wrong
	}
	tick := time.NewTicker(frameEvery)
	defer tick.Stop()
	for ; ; <-tick.C {
		l.mu.Lock()
		if len(l.viewers) == 0 && time.Since(l.polledAt) > pollFor {
			l.firstFrame, l.lastFrame = nil, nil
			l.mu.Unlock()
			return
		}
		l.mu.Unlock()
		ctx, cancel := context.WithTimeout(context.Background(), questionTimeout)
		f := &frame{plain: l.composeFrame(ctx)}
		cancel()
		b.Reset()
		z.Reset(&b)
		_, _ = z.Write(streamEvent(f.plain)) // into memory
		_ = z.Flush()
		f.squeezed = bytes.Clone(b.Bytes())
		l.mu.Lock()
		if l.lastFrame == nil {
			close(l.firstFrame)
		}
		l.lastFrame = f
		for v := range l.viewers {
			select {
			case v <- f:
			default: // it is slow, and skips this one
			}
		}
		l.mu.Unlock()
	}
}

// streamEvent is a frame as an event of text/event-stream.
func streamEvent(plain []byte) []byte {
	return append(append([]byte("data: "), plain...), "\n\n"...)
}

// startComposing composes frames if nobody does yet. l.mu is held.
func (l *frameStream) startComposing() {
	if l.firstFrame == nil {
		l.firstFrame = make(chan struct{})
		go l.composeFrames()
	}
}

func (l *frameStream) addViewer() (chan *frame, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.viewers) >= maxViewers {
		return nil, false
	}
	if l.viewers == nil {
		l.viewers = map[chan *frame]struct{}{}
	}
	v := make(chan *frame, 1)
	l.viewers[v] = struct{}{}
	if l.lastFrame != nil {
		v <- l.lastFrame
	}
	l.startComposing()
	return v, true
}

func (l *frameStream) removeViewer(v chan *frame) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.viewers, v)
}

// serveStream sends frames as they come.
func (l *frameStream) serveStream(w http.ResponseWriter, r *http.Request) {
	v, ok := l.addViewer()
	if !ok {
		sendError(w, http.StatusServiceUnavailable, errors.New("64 viewers are looking already: ask for single frames"))
		return
	}
	defer l.removeViewer(v)
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // nginx would wait for more
	out := http.NewResponseController(w)
	squeezed := takesGzip(r)
	start := []byte(": frames come each second\n\n")
	if squeezed {
		h.Set("Content-Encoding", "gzip")
		start = gzipHeader
	}
	for next := start; ; {
		if err := out.SetWriteDeadline(time.Now().Add(maxWriting)); err != nil {
			return
		}
		if _, err := w.Write(next); err != nil {
			return
		}
		if err := out.Flush(); err != nil {
			return
		}
		select {
		case f := <-v:
			if next = f.squeezed; !squeezed {
				next = streamEvent(f.plain)
			}
		case <-r.Context().Done():
			return
		}
	}
}

// serveFrame answers with the last frame, for who cannot be sent them.
func (l *frameStream) serveFrame(w http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	l.polledAt = time.Now()
	l.startComposing()
	first := l.firstFrame
	l.mu.Unlock()
	select {
	case <-first:
	case <-r.Context().Done():
		return
	}
	l.mu.Lock()
	f := l.lastFrame
	l.mu.Unlock()
	w.Header().Set("Cache-Control", "no-store")
	if f == nil { // nobody has looked since
		sendError(w, http.StatusServiceUnavailable, errors.New("no frame is there: ask again"))
		return
	}
	var squeezed []byte
	if takesGzip(r) {
		squeezed = gzipBytes(f.plain)
	}
	sendBody(w, r, "application/json", f.plain, squeezed)
}
