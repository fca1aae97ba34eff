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
	frameEvery = time.Second     // period of frames
	maxViewers = 64              // bounds the viewers of the stream
	pollFor    = 5 * time.Second // time for which frames go on after a poll
	maxWriting = 5 * time.Second // time to write before a viewer counts as gone
)

// frameStream composes a frame each second and sends it to all viewers, while there is a viewer.
type frameStream struct {
	composeFrame func(context.Context) []byte // returns a line of JSON

	mu         sync.Mutex
	viewers    map[chan *frame]struct{}
	polledAt   time.Time // time of the last poll for a frame
	lastFrame  *frame
	firstFrame chan struct{} // closed when there is a frame; nil: no frames are composed
}

// frame is a frame, plain and as a part of a gzip stream.
type frame struct{ plain, squeezed []byte }

// gzipHeader begins a gzip stream. Frames follow, each compressed by itself and flushed. The stream never ends.
var gzipHeader = []byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255}

// squeezeLevel is the compression level. Higher levels take two to eight times as long, for a twentieth less.
const squeezeLevel = flate.BestSpeed

// composeFrames composes frames until there is no viewer.
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
			default: // the viewer is slow, and skips the frame
			}
		}
		l.mu.Unlock()
	}
}

// streamEvent makes an event of text/event-stream from a frame.
func streamEvent(plain []byte) []byte {
	return append(append([]byte("data: "), plain...), "\n\n"...)
}

// startComposing starts composeFrames unless it runs. l.mu is held.
func (l *frameStream) startComposing() {
	if l.firstFrame == nil {
		l.firstFrame = make(chan struct{})
		go l.composeFrames()
	}
}

// addViewer returns a channel of frames, beginning with the latest. ok is false if there are maxViewers viewers.
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
		sendError(w, http.StatusServiceUnavailable, errors.New("64 viewers are served already: ask for single frames"))
		return
	}
	defer l.removeViewer(v)
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // nginx would wait for more bytes
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

// serveFrame answers a poll with the latest frame, for viewers without a stream.
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
	if f == nil { // frames have ended meanwhile
		sendError(w, http.StatusServiceUnavailable, errors.New("there is no frame yet: ask again"))
		return
	}
	sendBody(w, r, "application/json", f.plain, nil)
}
