package probe

import (
	"encoding/binary"
	"fmt"
	"math"
	"time"

	"github.com/phoebe-sched/phoebe/probe/lent"
)

// On the wire, fastrpc puts a request id before each frame: 0 (nobody waits for an answer) both ways.
//
//	u32 request id | u32 length of body | body       both numbers little-endian
//	body    = epoch, messages to the end
//	message = kind (one byte), length of fields (3 bytes), fields
//
// A message of an unknown kind is skipped; what follows the known fields of one is ignored, so that fields can be
// appended: the package's comment says how.
//
// Integers are uvarints, signed ones in zigzag; durations are uvarint nanoseconds; strings, byte slices
// and lists have their length before them; FrontendID and Incarnation take 8 bytes, little-endian, a digest
// its 32. The number before what short tasks do not need (Files, Usage and Matrix) is doubled, and odd if it
// follows.
const (
	FrameHeader = 4               // length of body, which fastrpc's users write
	PushHeader  = 4 + FrameHeader // with the request id, which fastrpc's client writes by itself
	msgHeader   = 4               // kind and length
)

// Limits. A frame that breaks one is refused whole. AppendMsg does not check them, but for texts, which
// it cuts: names and blobs are to be checked where they enter the system.
const (
	MaxFrame  = 16 << 20              // bytes of body
	FullFrame = 64 << 10              // bytes of body; a sender that batches begins another frame from here on
	MaxMsgs   = FullFrame / msgHeader // in a frame; who begins another one when it is full keeps this, too
	MaxHello  = 16 << 10              // bytes of body before the Hello was accepted: any good Hello is shorter
	MaxBlob   = 8 << 20               // bytes of a payload or a result, so that it fits into a frame that was not yet full
	MaxPlaces = 4096                  // places that one message or one Range of it is about
	MaxString = 4096                  // bytes of a name, label or secret
	MaxText   = 64 << 10              // bytes of an error text
	MaxList   = 1024                  // labels, functions
	MaxFiles  = 256                   // that a task needs
	MaxPeers  = 2                     // of one of them
	MaxPassed = 1 << 16               // outputs of a task, or inputs that are passed to it
	// MaxMatrices is for one frame. Who begins another one when it is full keeps it.
	MaxMatrices = FullFrame / 8
)

// The least a list element takes, in bytes.
const (
	attemptSize = 8 + 1
	rangeSize   = 2
	launchSize  = attemptSize + 5
	fileSize    = 32 + 3
	contextSize = 9
	outputSize  = 4 + 8 + 1
	passedSize  = 1 + 4 + outputSize
)

var kindNames = [256]string{
	kindHello: "Hello", kindReserve: "Reserve", kindBind: "Bind", kindDecline: "Decline",
	kindEnqueue: "Enqueue", kindCancel: "Cancel", kindKill: "Kill", kindClaim: "Claim", kindAck: "Ack",
	kindSync: "Sync", kindPing: "Ping", kindProbe: "Probe", kindCommon: "Common", kindForget: "Forget", kindRestamp: "Restamp", kindAway: "Away",
	kindWelcome: "Welcome", kindRejected: "Rejected", kindQueued: "Queued", kindStarted: "Started",
	kindReady: "Ready", kindFinished: "Finished", kindRefused: "Refused", kindEvicted: "Evicted",
	kindGone: "Gone", kindLoad: "Load", kindDrain: "Drain", kindPong: "Pong",
	kindClaimed: "Claimed",
}

// String is "" for a kind that does not exist.
func (k kind) String() string { return kindNames[k] }

// BeginFrame starts a frame at the end of b, as a frontend hands it to fastrpc's client. Messages follow
// with AppendMsg, then EndFrame, which wants the offset of the body that BeginFrame returns.
func BeginFrame(b []byte, e Epoch) (frame []byte, body int) {
	b = append(b, 0, 0, 0, 0)
	return appendUint(b, uint64(e)), len(b)
}

// BeginPush is BeginFrame with request id 0 before it, as a worker writes it to the connection.
func BeginPush(b []byte, e Epoch) (frame []byte, body int) {
	return BeginFrame(append(b, 0, 0, 0, 0), e)
}

// EndFrame completes the frame whose body starts at b[body] and ends with b. It panics if that is longer
// than MaxFrame.
func EndFrame(b []byte, body int) []byte {
	n := len(b) - body
	if n > MaxFrame {
		panic(fmt.Sprintf("probe: a frame of %d bytes", n))
	}
	binary.LittleEndian.PutUint32(b[body-FrameHeader:], uint32(n))
	return b
}

// AppendFrame appends a whole frame, without request id.
func AppendFrame(b []byte, e Epoch, msgs ...Msg) []byte {
	b, body := BeginFrame(b, e)
	for _, m := range msgs {
		b = AppendMsg(b, m)
	}
	return EndFrame(b, body)
}

// BodySize reads a frame header: the number of bytes that follow it. More than limit (MaxFrame, or
// MaxHello before the Hello was accepted) is an error, as is a body with no room for an epoch.
func BodySize(header []byte, limit int) (int, error) {
	n := binary.LittleEndian.Uint32(header)
	if n == 0 || uint64(n) > uint64(limit) {
		return 0, &DecodeError{Field: "length", Problem: fmt.Sprintf("%d bytes, want 1 to %d", n, limit)}
	}
	return int(n), nil
}

// AppendMsg appends a message, kind byte first. It keeps nothing of m, and does not allocate if b has
// room. Negative durations and demands are written as 0, too long error texts are cut. It panics on a
// message of another package: there are no others.
func AppendMsg(b []byte, m Msg) []byte {
	// No m.kind() and no m in the panic: either would move every message to the heap.
	at := len(b)
	switch m := m.(type) {
	case Hello:
		b = begin(b, kindHello)
		b = AppendDialect(b, m.Speaks)
		b = appendString(b, m.Secret)
		b = binary.LittleEndian.AppendUint64(b, uint64(m.Frontend))
		b = appendString(b, m.Name)
		b = appendUint(b, uint64(m.Epoch))
		b = appendDuration(b, m.Lease)
	case Reserve:
		b = begin(b, kindReserve)
		b = appendPlaces(b, m.First, m.Count)
		b = append(b, m.Job[:]...)
		b = appendString(b, m.Tenant)
		b = appendInt32(b, m.Priority)
		b = appendDemand(b, m.Demand)
		b = appendDuration(b, m.Estimate)
		b = appendDuration(b, m.Typical)
		b = appendBool(b, m.Early)
		b = appendUint(b, uint64(m.Bundle))
		b = appendLaunches(b, m.Launches)
		b = appendUint(b, uint64(m.Generation))
		b = appendContexts(b, m.Launches)
		b = appendWeights(b, m.Weights)
		b = appendStanding(b, m.Standing)
	case Bind:
		b = begin(b, kindBind)
		b = appendUint(b, uint64(m.Res))
		b = appendUint(b, uint64(m.Turn))
		b = appendBool(b, m.Keep)
		if b = appendBool(b, m.Job != JobID{}); m.Job != (JobID{}) {
			b = append(b, m.Job[:]...)
			b = appendUint(b, uint64(m.Generation))
		}
		b = appendLaunch(b, &m.Launch)
		b = appendLaunches(b, m.Bundle)
		b = appendContext(b, m.Launch.Context)
		b = appendContexts(b, m.Bundle)
	case Decline:
		b = begin(b, kindDecline)
		b = appendUint(b, uint64(m.Res))
		b = appendUint(b, uint64(m.Turn))
	case Enqueue:
		b = begin(b, kindEnqueue)
		b = appendUint(b, uint64(m.Res))
		b = append(b, m.Job[:]...)
		b = appendString(b, m.Tenant)
		b = appendInt32(b, m.Priority)
		b = appendDemand(b, m.Demand)
		b = appendBool(b, m.Long)
		b = appendBool(b, m.Matrix)
		b = appendLaunch(b, &m.Launch)
		b = appendUint(b, uint64(m.Generation))
		b = appendContext(b, m.Launch.Context)
		b = appendWeights(b, m.Weights)
		b = appendStanding(b, m.Standing)
	case Restamp:
		b = appendAttempt(appendStanding(appendUint(begin(b, kindRestamp), uint64(m.Res)), m.Standing), m.Attempt)
	case Cancel:
		b = appendPlaces(begin(b, kindCancel), m.First, m.Count)
	case Kill:
		b = begin(b, kindKill)
		b = appendAttempt(b, m.Attempt)
		b = appendUint(b, uint64(m.Res))
		b = appendUint(b, uint64(m.Turn))
	case Claim:
		b = begin(b, kindClaim)
		b = append(b, m.Job[:]...)
		b = appendAttempt(b, m.Attempt)
		b = appendUint(b, uint64(m.Generation))
	case Ack:
		b = appendBool(appendAttempts(begin(b, kindAck), m.Attempts), m.Disowned)
	case Sync:
		b = begin(b, kindSync)
		b = appendUint(b, uint64(m.Next))
		b = appendRanges(b, m.Live)
		b = appendAttempts(b, m.Attempts)
	case Ping:
		b = appendBool(appendUint(begin(b, kindPing), m.Seq), m.Matrix)
	case Probe:
		b = appendBool(appendUint(begin(b, kindProbe), m.Seq), m.Matrix)
	case Common:
		b = append(begin(b, kindCommon), m.Job[:]...)
		b = appendUint(b, uint64(m.Number))
		b = appendBytes(b, m.Payload)
	case Forget:
		b = append(begin(b, kindForget), m.Job[:]...)
	case Away:
		b = appendBool(begin(b, kindAway), m.Drain)
		b = appendDuration(b, m.In)
		b = appendDuration(b, m.Lasts)
	case Welcome:
		b = begin(b, kindWelcome)
		b = AppendDialect(b, m.Speaks)
		b = appendUint(b, uint64(m.Epoch))
		b = appendString(b, m.Worker)
		b = binary.LittleEndian.AppendUint64(b, m.Incarnation)
		b = appendString(b, m.Host)
		b = appendString(b, m.Rack)
		b = appendDemand(b, m.Capacity)
		b = appendDemand(b, m.Open)
		b = appendStrings(b, m.Labels)
		b = appendStrings(b, m.Functions)
		b = appendUint(b, uint64(m.MaxPayload))
		b = appendUint(b, uint64(m.MaxResult))
		b = appendUint(b, uint64(m.Speed))
		b = appendString(b, m.Cache)
		b = appendBool(b, m.Draining)
	case Rejected:
		b = appendText(begin(b, kindRejected), m.Reason)
	case Queued:
		b = begin(b, kindQueued)
		b = appendPlaces(b, m.First, m.Count)
		b = appendUint(b, uint64(m.Ahead))
		b = appendLoad(b, &m.Load)
		b = appendDuration(b, m.Wait)
	case Started:
		b = begin(b, kindStarted)
		b = appendAttempt(b, m.Attempt)
		b = appendUint(b, uint64(m.Res))
		b = append(b, m.Job[:]...)
		b = appendUint(b, uint64(m.Task))
		b = appendDuration(b, m.Ran)
		b = appendLoad(b, &m.Load)
	case Ready:
		b = begin(b, kindReady)
		b = appendUint(b, uint64(m.Res))
		b = appendUint(b, uint64(m.Turn))
		b = appendDuration(b, m.Waited)
		b = appendDuration(b, m.Expiry)
		b = appendDuration(b, m.Early)
		b = appendLoad(b, &m.Load)
	case *Finished:
		b = begin(b, kindFinished)
		b = appendAttempt(b, m.Attempt)
		b = append(b, m.Job[:]...)
		b = appendUint(b, uint64(m.Task))
		b = append(b, byte(m.Status))
		b = appendBytes(b, m.Result)
		b = appendText(b, m.Error)
		b = appendDuration(b, m.Waited)
		b = appendDuration(b, m.Held)
		b = appendDuration(b, m.Launch)
		b = appendDuration(b, m.Run)
		hasUsage := m.Usage != Usage{}
		if b = appendFlagged(b, uint64(max(m.Kept, 0)), hasUsage); hasUsage {
			b = appendUsage(b, &m.Usage)
		}
		b = appendLoad(b, &m.Load)
		hasMore := m.Code != "" || len(m.Detail) > 0 || m.Retry != Anywhere || len(m.Outputs) > 0
		if b = appendBool(b, hasMore); hasMore {
			b = appendString(b, m.Code)
			b = appendBytes(b, m.Detail)
			b = append(b, byte(m.Retry))
			b = appendUint(b, uint64(len(m.Outputs)))
			for i := range m.Outputs {
				b = appendOutput(b, &m.Outputs[i])
			}
		}
		hasWaits := m.Waits != Waits{}
		if b = appendBool(b, hasWaits); hasWaits {
			for _, d := range [...]time.Duration{m.Waits.Own, m.Waits.Others, m.Waits.Long, m.Waits.Closed, m.Waits.Idle} {
				b = appendDuration(b, d)
			}
		}
	case Refused:
		b = begin(b, kindRefused)
		b = appendPlaces(b, m.First, m.Count)
		b = appendAttempt(b, m.Attempt)
		b = append(b, byte(m.Reason))
		b = appendDuration(b, m.RetryAfter)
		b = appendLoad(b, &m.Load)
		b = appendDuration(b, m.Knows)
	case Evicted:
		b = appendPlaces(begin(b, kindEvicted), m.First, m.Count)
		b = append(b, byte(m.Reason))
	case Gone:
		b = appendRanges(begin(b, kindGone), m.Places)
		b = appendAttempts(b, m.Attempts)
	case Load:
		b = appendLoad(begin(b, kindLoad), &m)
	case Drain:
		b = begin(b, kindDrain)
	case Pong:
		b = appendUint(begin(b, kindPong), m.Seq)
		b = appendLoad(b, &m.Load)
		b = appendUint(b, uint64(len(m.Expect)))
		for i := range m.Expect {
			b = appendDuration(appendAttempt(b, m.Expect[i].Attempt), m.Expect[i].Wait)
		}
		b = appendUint(b, uint64(len(m.Progress)))
		for i := range m.Progress {
			p := &m.Progress[i]
			b = appendDuration(appendUint(appendAttempt(b, p.Attempt), uint64(p.Done)), p.Left)
		}
		b = appendUint(b, uint64(m.Pace))
	case Claimed:
		b = begin(b, kindClaimed)
		b = append(b, m.Job[:]...)
		b = appendUint(b, uint64(m.Generation))
		b = appendUint(b, uint64(m.Count))
		b = appendDuration(b, m.Knows)
		b = appendBool(b, m.Moved)
	default:
		panic("probe: AppendMsg does not know this type of message")
	}
	n := len(b) - at - msgHeader
	b[at+1], b[at+2], b[at+3] = byte(n), byte(n>>8), byte(n>>16)
	return b
}

// begin appends the header of a message whose length is not known yet.
func begin(b []byte, k kind) []byte { return append(b, byte(k), 0, 0, 0) }

func appendLaunches(b []byte, ls []Launch) []byte {
	b = appendUint(b, uint64(len(ls)))
	for i := range ls {
		b = appendLaunch(b, &ls[i])
	}
	return b
}

func appendWeights(b []byte, ws []uint32) []byte {
	b = appendUint(b, uint64(len(ws)))
	for _, w := range ws {
		b = appendUint(b, uint64(w))
	}
	return b
}

// appendStanding writes two bytes for what is regular and of a first stage.
func appendStanding(b []byte, s Standing) []byte {
	b = appendDuration(append(b, byte(s.Class)), s.Age)
	if s.Class == Regular {
		return b
	}
	return appendDuration(appendDuration(b, s.Due), s.Left)
}

func appendLaunch(b []byte, l *Launch) []byte {
	b = appendAttempt(b, l.Attempt)
	b = appendUint(b, uint64(l.Task))
	b = appendString(b, l.Function)
	b = appendBytes(b, l.Payload)
	if b = appendFlagged(b, uint64(max(l.Estimate, 0)), l.Deadline > 0); l.Deadline > 0 {
		b = appendDuration(b, l.Deadline)
	}
	if b = appendFlagged(b, uint64(max(l.Timeout, 0)), len(l.Files) > 0); len(l.Files) > 0 {
		b = appendFiles(b, l.Files)
	}
	return b
}

func appendFiles(b []byte, files []File) []byte {
	b = appendUint(b, uint64(len(files)))
	for i := range files {
		f := &files[i]
		b = append(b, f.Digest[:]...)
		b = appendString(b, f.URL)
		b = appendUint(b, f.Bytes)
		b = appendStrings(b, f.Peers)
	}
	return b
}

// appendContexts writes those of launches that have one, each with the position of its launch, behind how many there are.
func appendContexts(b []byte, ls []Launch) []byte {
	n := 0
	for i := range ls {
		if ls[i].Context != nil {
			n++
		}
	}
	b = appendUint(b, uint64(n))
	for i := range ls {
		if c := ls[i].Context; c != nil {
			b = appendContext(appendUint(b, uint64(i)), c)
		}
	}
	return b
}

func appendContext(b []byte, c *Context) []byte {
	if b = appendBool(b, c != nil); c == nil {
		return b
	}
	b = appendString(b, c.Stage)
	b = appendUint(b, uint64(c.Partition))
	b = appendUint(b, uint64(c.Attempt))
	b = appendString(b, c.Trace)
	b = appendUint(b, uint64(c.Common))
	b = appendBool(appendUint(b, uint64(c.Inline)), c.Large)
	b = appendUint(b, uint64(len(c.Inputs)))
	for i := range c.Inputs {
		p := &c.Inputs[i]
		b = appendString(b, p.Stage)
		b = binary.LittleEndian.AppendUint32(b, uint32(p.Task))
		if b = appendOutput(b, &p.Output); p.File {
			b = appendStrings(b, p.Peers)
		}
	}
	return b
}

// appendOutput writes numbers of fixed size, so that a list of them takes little more memory than bytes.
func appendOutput(b []byte, o *Output) []byte {
	b = binary.LittleEndian.AppendUint32(b, o.Partition)
	b = binary.LittleEndian.AppendUint64(b, o.Bytes)
	if b = appendBool(b, o.File); o.File {
		return append(b, o.Digest[:]...)
	}
	return appendBytes(b, o.Data)
}

func appendUsage(b []byte, u *Usage) []byte {
	b = appendDuration(b, u.CPU)
	b = appendUint(b, uint64(max(u.Memory, 0)))
	b = appendUint(b, u.Fetched)
	return appendDuration(b, u.Fetch)
}

func appendLoad(b []byte, l *Load) []byte {
	b = appendUint(b, l.Seq)
	b = appendDemand(b, l.Free)
	b = appendUint(b, uint64(l.Queued))
	if b = appendFlagged(b, uint64(l.Running), l.Matrix != nil); l.Matrix != nil {
		b = AppendMatrix(b, l.Matrix)
	}
	return b
}

// Decoder decodes the frames of one connection. It is not for concurrent use. The zero Decoder is ready.
type Decoder struct {
	Skipped int // messages of unknown kinds in good frames
	names   names
	results *lent.Of[Finished]
	riders  *lent.Of[Launch] // of Reserve and Bind
}

// The memory of what decoders lend: few of them do at a time.
var (
	results lent.Pool[Finished]
	riders  lent.Pool[Launch]
)

// Reuse says that nobody uses what was decoded before any more, but for what it aliases: the memory of each Finished, and of
// the launches of Reserve and Bind, is used again.
func (d *Decoder) Reuse() {
	results.TakeBack(&d.results)
	riders.TakeBack(&d.riders)
}

// Decode appends the messages of a frame's body to msgs. They alias body, which from then on belongs to
// them: nobody may write to it. An error is always a *DecodeError, and then no message is appended; the epoch is
// right nevertheless if the frame had one. What is allocated is bounded by the length of body, whatever lengths it claims: at most 100 bytes for each byte
// of a small frame and 10 for each of a great one.
func (d *Decoder) Decode(body []byte, msgs []Msg) (Epoch, []Msg, error) {
	r := reader{buf: body, names: &d.names, riders: &d.riders}
	if len(body) > MaxFrame {
		r.fail("length", 0, overLimit)
	}
	epoch := Epoch(r.uint("epoch"))
	before, skipped := len(msgs), 0
	for r.pos < len(body) && r.err == nil {
		if len(msgs)-before == MaxMsgs {
			r.fail("messages", r.pos, overLimit)
			break
		}
		end := r.message(body)
		switch r.kind {
		case kindHello:
			msgs = append(msgs, r.hello())
		case kindReserve:
			msgs = append(msgs, r.reserve())
		case kindBind:
			m := Bind{Res: r.res("res"), Turn: Turn(r.uint32("turn")), Keep: r.bool("keep")}
			if r.bool("of another job") {
				m.Job, m.Generation = r.job("job"), r.generation()
			}
			m.Launch, m.Bundle = r.launch(), r.launches("bundle", MaxPlaces)
			if r.more() {
				m.Launch.Context = r.context("context")
				r.contexts("contexts", m.Bundle)
			}
			msgs = append(msgs, m)
		case kindDecline:
			msgs = append(msgs, Decline{Res: r.res("res"), Turn: Turn(r.uint32("turn"))})
		case kindEnqueue:
			m := Enqueue{
				Res: r.res("res"), Job: r.job("job"), Tenant: r.name("tenant"),
				Priority: r.int32("priority"), Demand: r.demand("demand"), Long: r.bool("long"), Matrix: r.bool("matrix"),
				Launch: r.launch(), Generation: r.generation(),
			}
			if r.more() {
				m.Launch.Context = r.context("context")
			}
			m.Weights = r.weights()
			if r.more() {
				m.Standing = r.standing()
			}
			msgs = append(msgs, m)
		case kindCancel:
			first, count := r.places(1)
			msgs = append(msgs, Cancel{First: first, Count: count})
		case kindKill:
			msgs = append(msgs, Kill{
				Attempt: r.attempt("attempt"), Res: ResID(r.uint("res")), Turn: Turn(r.uint32("turn")),
			})
		case kindClaim:
			msgs = append(msgs, Claim{Job: r.job("job"), Attempt: r.attempt("attempt"), Generation: r.generation()})
		case kindAck:
			msgs = append(msgs, Ack{Attempts: r.attempts("attempts"), Disowned: r.bool("disowned")})
		case kindSync:
			msgs = append(msgs, Sync{
				Next: ResID(r.uint("next")), Live: r.ranges("live"), Attempts: r.attempts("attempts"),
			})
		case kindPing:
			msgs = append(msgs, Ping{Seq: r.uint("seq"), Matrix: r.bool("matrix")})
		case kindProbe:
			msgs = append(msgs, Probe{Seq: r.uint("seq"), Matrix: r.bool("matrix")})
		case kindCommon:
			msgs = append(msgs, Common{Job: r.job("job"), Number: r.uint32("number"), Payload: r.bytes("payload", MaxBlob)})
		case kindForget:
			msgs = append(msgs, Forget{Job: r.job("job")})
		case kindRestamp:
			m := Restamp{Res: ResID(r.uint("res")), Standing: r.standing()}
			if r.more() {
				m.Attempt = r.attempt("attempt")
			}
			msgs = append(msgs, m)
		case kindAway:
			msgs = append(msgs, Away{Drain: r.bool("drain"), In: r.duration("in"), Lasts: r.duration("lasts")})
		case kindWelcome:
			msgs = append(msgs, r.welcome())
		case kindRejected:
			msgs = append(msgs, Rejected{Reason: r.text("reason", MaxText)})
		case kindQueued:
			first, count := r.places(0)
			m := Queued{First: first, Count: count, Ahead: r.uint32("ahead"), Load: r.load()}
			if r.more() {
				m.Wait = r.duration("wait")
			}
			msgs = append(msgs, m)
		case kindStarted:
			msgs = append(msgs, Started{
				Attempt: r.attempt("attempt"), Res: ResID(r.uint("res")), Job: r.job("job"),
				Task: TaskIndex(r.uint32("task")), Ran: r.duration("ran"), Load: r.load(),
			})
		case kindReady:
			msgs = append(msgs, Ready{
				Res: r.res("res"), Turn: Turn(r.uint32("turn")), Waited: r.duration("waited"),
				Expiry: r.duration("expiry"), Early: r.duration("early"), Load: r.load(),
			})
		case kindFinished:
			m := results.Of(&d.results).New()
			r.finished(m)
			msgs = append(msgs, m)
		case kindRefused:
			first, count := r.places(0)
			m := Refused{
				First: first, Count: count, Attempt: r.attempt("attempt"), Reason: r.reason(),
				RetryAfter: r.duration("retry after"), Load: r.load(),
			}
			if r.more() {
				m.Knows = r.duration("knows")
			}
			msgs = append(msgs, m)
		case kindEvicted:
			first, count := r.places(1)
			msgs = append(msgs, Evicted{First: first, Count: count, Reason: r.reason()})
		case kindGone:
			msgs = append(msgs, Gone{Places: r.ranges("places"), Attempts: r.attempts("attempts")})
		case kindLoad:
			msgs = append(msgs, r.load())
		case kindDrain:
			msgs = append(msgs, Drain{})
		case kindPong:
			m := Pong{Seq: r.uint("seq"), Load: r.load()}
			if r.more() {
				m.Expect, m.Progress, m.Pace = r.expect(), r.progress(), r.uint32("pace")
			}
			msgs = append(msgs, m)
		case kindClaimed:
			msgs = append(msgs, Claimed{Job: r.job("job"), Generation: r.generation(), Count: r.uint32("count"), Knows: r.duration("knows"), Moved: r.bool("moved")})
		case 0: // nothing is written so
			r.fail("kind", r.pos-msgHeader, notKnown)
		default:
			skipped++
		}
		r.pos = end
	}
	if r.err != nil {
		return epoch, msgs[:before], r.err
	}
	d.Skipped += skipped
	return epoch, msgs, nil
}

// message reads the header of a message, and bounds the reader to its fields: they end at end.
func (r *reader) message(body []byte) (end int) {
	r.buf, r.kind = body, 0
	if len(body)-r.pos < msgHeader {
		r.fail("kind", r.pos, cutShort)
		return len(body)
	}
	head := binary.LittleEndian.Uint32(body[r.pos:])
	r.kind = kind(head)
	r.pos += msgHeader
	if end = r.pos + int(head>>8); end > len(body) {
		r.fail("length", r.pos-msgHeader+1, cutShort)
		return len(body)
	}
	r.buf = body[:end]
	return end
}

func (r *reader) hello() Hello {
	return Hello{
		Speaks:   r.dialect("speaks"),
		Secret:   r.text("secret", MaxString),
		Frontend: FrontendID(r.uint64("frontend")),
		Name:     r.text("name", MaxString),
		Epoch:    Epoch(r.uint("epoch")),
		Lease:    r.duration("lease"),
	}
}

func (r *reader) reserve() Reserve {
	first, count := r.places(1)
	m := Reserve{
		First:    first,
		Count:    count,
		Job:      r.job("job"),
		Tenant:   r.name("tenant"),
		Priority: r.int32("priority"),
		Demand:   r.demand("demand"),
		Estimate: r.duration("estimate"),
		Typical:  r.duration("typical"),
		Early:    r.bool("early"),
		Bundle:   r.uint32("bundle"),
	}
	m.Launches, m.Generation = r.launches("launches", int(count)), r.generation()
	if r.more() {
		r.contexts("contexts", m.Launches)
	}
	m.Weights = r.weights()
	if r.more() {
		m.Standing = r.standing()
	}
	return m
}

func (r *reader) standing() (s Standing) {
	s.Class, s.Age = Class(r.enum("class", byte(Regular), byte(Spare))), r.duration("age")
	if s.Class != Regular {
		s.Due, s.Left = r.duration("due"), r.duration("left")
	}
	return s
}

// weights reads what version 8 has appended.
func (r *reader) weights() []uint32 {
	if !r.more() {
		return nil
	}
	n := r.count("weights", MaxParts, 1)
	if n == 0 {
		return nil
	}
	ws := make([]uint32, n)
	for i := range ws {
		ws[i] = r.uint32("weights")
	}
	return ws
}

func (r *reader) generation() Generation { return Generation(r.uint32("generation")) }

func (r *reader) launches(field string, max int) []Launch {
	n := r.count(field, max, launchSize)
	if n == 0 {
		return nil
	}
	ls := riders.Of(r.riders).Take(n)
	for i := range ls {
		ls[i] = r.launch()
	}
	return ls
}

func (r *reader) launch() Launch {
	l := Launch{
		Attempt:  r.attempt("launch.attempt"),
		Task:     TaskIndex(r.uint32("launch.task")),
		Function: r.name("launch.function"),
		Payload:  r.bytes("launch.payload", MaxBlob),
	}
	estimate, deadline := r.flagged("launch.estimate", math.MaxInt64)
	if l.Estimate = time.Duration(estimate); deadline {
		l.Deadline = r.duration("launch.deadline")
	}
	timeout, files := r.flagged("launch.timeout", math.MaxInt64)
	if l.Timeout = time.Duration(timeout); files {
		l.Files = r.files("launch.files")
	}
	return l
}

func (r *reader) contexts(field string, ls []Launch) {
	for range r.count(field, len(ls), contextSize) {
		at := r.pos
		i := r.upTo(field, math.MaxUint32, outOfRange)
		c := r.context(field)
		if i >= uint64(len(ls)) || c == nil || ls[i].Context != nil {
			r.fail(field, at, outOfRange)
			return
		}
		ls[i].Context = c
	}
}

func (r *reader) context(field string) *Context {
	if !r.bool(field) {
		return nil
	}
	c := &Context{
		Stage: r.name("context.stage"), Partition: r.uint32("context.partition"), Attempt: r.uint32("context.attempt"),
		Trace: r.text("context.trace", MaxString), Common: r.uint32("context.common"), Inline: r.uint32("context.inline"),
		Large: r.bool("context.large"),
	}
	n := r.count("context.inputs", MaxPassed, passedSize)
	if n == 0 {
		return c
	}
	c.Inputs = make([]Passed, n)
	for i := range c.Inputs {
		p := &c.Inputs[i]
		p.Stage, p.Task = r.name("context.inputs"), TaskIndex(r.fixed32("context.inputs"))
		if p.Output = r.output("context.inputs"); p.File {
			p.Peers = r.peers("context.inputs")
		}
	}
	return c
}

func (r *reader) output(field string) Output {
	o := Output{Partition: r.fixed32(field), Bytes: r.uint64(field)}
	if o.File = r.bool(field); o.File {
		copy(o.Digest[:], r.fixed(field, len(o.Digest)))
	} else {
		o.Data = r.bytes(field, MaxBlob)
	}
	return o
}

// peers reads the addresses of caches.
func (r *reader) peers(field string) []string {
	n := r.count(field, MaxPeers, 1)
	if n == 0 {
		return nil
	}
	peers := make([]string, n)
	for i := range peers {
		peers[i] = r.text(field, MaxString)
	}
	return peers
}

func (r *reader) files(field string) []File {
	n := r.count(field, MaxFiles, fileSize)
	if n == 0 {
		return nil
	}
	list := make([]File, n)
	for i := range list {
		f := &list[i]
		copy(f.Digest[:], r.fixed(field, len(f.Digest)))
		f.URL = r.text(field, MaxString)
		f.Bytes = r.uint(field)
		f.Peers = r.peers(field)
	}
	return list
}

func (r *reader) welcome() Welcome {
	return Welcome{
		Speaks:      r.dialect("speaks"),
		Epoch:       Epoch(r.uint("epoch")),
		Worker:      r.text("worker", MaxString),
		Incarnation: r.uint64("incarnation"),
		Host:        r.text("host", MaxString),
		Rack:        r.text("rack", MaxString),
		Capacity:    r.demand("capacity"),
		Open:        r.demand("open"),
		Labels:      r.texts("labels"),
		Functions:   r.texts("functions"),
		MaxPayload:  r.uint32("max payload"),
		MaxResult:   r.uint32("max result"),
		Speed:       r.uint32("speed"),
		Cache:       r.text("cache", MaxString),
		Draining:    r.bool("draining"),
	}
}

func (r *reader) finished(m *Finished) {
	*m = Finished{
		Attempt: r.attempt("attempt"),
		Job:     r.job("job"),
		Task:    TaskIndex(r.uint32("task")),
		Status:  Status(r.enum("status", byte(Succeeded), byte(Preempted))),
		Result:  r.bytes("result", MaxBlob),
		Error:   r.text("error", MaxText),
		Waited:  r.duration("waited"),
		Held:    r.duration("held"),
		Launch:  r.duration("launch"),
		Run:     r.duration("run"),
	}
	kept, usage := r.flagged("kept", math.MaxInt64)
	if m.Kept = time.Duration(kept); usage {
		m.Usage = Usage{
			CPU:     r.duration("usage.cpu"),
			Memory:  MiB(r.upTo("usage.memory", math.MaxInt32, outOfRange)),
			Fetched: r.uint("usage.fetched"),
			Fetch:   r.duration("usage.fetch"),
		}
	}
	m.Load = r.load()
	if r.more() && r.bool("more") {
		m.Code, m.Detail = r.name("code"), r.bytes("detail", MaxBlob)
		m.Retry = Retry(r.enum("retry", byte(Anywhere), byte(Never)))
		if n := r.count("outputs", MaxPassed, outputSize); n > 0 {
			m.Outputs = make([]Output, n)
			for i := range m.Outputs {
				m.Outputs[i] = r.output("outputs")
			}
		}
	}
	if r.more() && r.bool("waits") {
		m.Waits = Waits{
			Own: r.duration("waits.own"), Others: r.duration("waits.others"), Long: r.duration("waits.long"), Closed: r.duration("waits.closed"),
			Idle: r.duration("waits.idle"),
		}
	}
}

func (r *reader) expect() []Expect {
	n := r.count("expect", MaxPlaces, attemptSize+1)
	if n == 0 {
		return nil
	}
	list := make([]Expect, n)
	for i := range list {
		list[i] = Expect{Attempt: r.attempt("expect"), Wait: r.duration("expect")}
	}
	return list
}

func (r *reader) progress() []Progress {
	n := r.count("progress", MaxPlaces, attemptSize+2)
	if n == 0 {
		return nil
	}
	list := make([]Progress, n)
	for i := range list {
		list[i] = Progress{Attempt: r.attempt("progress"), Done: r.uint32("progress"), Left: r.duration("progress")}
	}
	return list
}

func (r *reader) reason() Reason {
	return Reason(r.enum("reason", byte(QueueFull), byte(len(reasonNames)-1)))
}

func (r *reader) load() Load {
	l := Load{
		Seq:    r.uint("load.seq"),
		Free:   r.demand("load.free"),
		Queued: r.uint32("load.queued"),
	}
	running, matrix := r.flagged("load.running", math.MaxUint32)
	if l.Running = uint32(running); matrix {
		if r.matrices++; r.matrices > MaxMatrices {
			r.fail("load.matrix", r.pos, overLimit)
			return l
		}
		l.Matrix = new(WaitMatrix)
		r.matrix("load.matrix", l.Matrix)
	}
	return l
}
