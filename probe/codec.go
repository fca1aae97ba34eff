package probe

import (
	"encoding/binary"
	"fmt"
	"math"
	"time"

	"github.com/phoebe-sched/phoebe/probe/lent"
)

// fastrpc puts a request id before each frame, in both directions: 0, because nobody waits for an answer.
//
//	u32 request id | u32 length of body | body       both numbers little-endian
//	body    = epoch, messages to the end
//	message = kind (one byte), length of fields (3 bytes), fields
//
// The decoder skips a message of an unknown kind. The decoder also ignores bytes behind the known fields of a
// message, so a later version can append fields: the package comment says how.
//
// Integers are uvarints, signed integers in zigzag. Durations are uvarint nanoseconds. Strings, byte slices and
// lists begin with their length. FrontendID and Incarnation take 8 bytes, little-endian, a digest takes its 32
// bytes. Files, Usage and Matrix are rare in messages about short tasks, so their presence costs no byte: the
// number before them is doubled, and odd if they follow.
const (
	FrameHeader = 4               // length of body, written by the users of fastrpc
	PushHeader  = 4 + FrameHeader // with the request id, written by fastrpc's client itself
	msgHeader   = 4               // kind and length
)

// Limits. The decoder refuses a frame that breaks a limit, as a whole. AppendMsg cuts texts and checks no other
// limit: callers check names and blobs where the names and blobs enter the system.
const (
	MaxFrame  = 16 << 20              // bytes of body
	FullFrame = 64 << 10              // bytes of body; a sender that batches begins the next frame from here on
	MaxMsgs   = FullFrame / msgHeader // in a frame; a sender that begins the next frame at FullFrame stays below
	MaxHello  = 16 << 10              // bytes of body before the Hello is accepted: any good Hello is shorter
	MaxBlob   = 8 << 20               // bytes of a payload or a result: a blob fits into any frame below FullFrame
	MaxPlaces = 4096                  // places named by one message, or by one Range in a message
	MaxString = 4096                  // bytes of a name, label or secret
	MaxText   = 64 << 10              // bytes of an error text
	MaxList   = 1024                  // labels, functions
	MaxFiles  = 256                   // files that one task needs
	MaxPeers  = 2                     // peers of a file
	MaxPassed = 1 << 16               // outputs of a task, or inputs passed to a task
	// MaxMatrices bounds the matrices of a frame. A sender that begins the next frame at FullFrame stays below.
	MaxMatrices = FullFrame / 8
)

// The minimum size of a list element, in bytes. The decoder checks a list's length against this minimum before
// it allocates.
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
	kindSync: "Sync", kindPing: "Ping", kindProbe: "Probe", kindCommon: "Common", kindForget: "Forget",
	kindRestamp: "Restamp", kindAway: "Away",
	kindWelcome: "Welcome", kindRejected: "Rejected", kindQueued: "Queued", kindStarted: "Started",
	kindReady: "Ready", kindFinished: "Finished", kindRefused: "Refused", kindEvicted: "Evicted",
	kindGone: "Gone", kindLoad: "Load", kindDrain: "Drain", kindPong: "Pong",
	kindClaimed: "Claimed", kindCache: "Cache",
}

// String returns the name of k, "" for an unknown kind.
func (k kind) String() string { return kindNames[k] }

// BeginFrame starts a frame at the end of b, in the form that a frontend hands to fastrpc's client. Messages
// follow with AppendMsg, then EndFrame. EndFrame needs the offset of the body, which BeginFrame returns.
func BeginFrame(b []byte, e Epoch) (frame []byte, body int) {
	b = append(b, 0, 0, 0, 0)
	return appendUint(b, uint64(e)), len(b)
}

// BeginPush is BeginFrame after a request id of 0, in the form that a worker writes to the connection.
func BeginPush(b []byte, e Epoch) (frame []byte, body int) {
	return BeginFrame(append(b, 0, 0, 0, 0), e)
}

// EndFrame completes the frame with its body at b[body:]. EndFrame panics if the body is longer than MaxFrame.
func EndFrame(b []byte, body int) []byte {
	n := len(b) - body
	if n > MaxFrame {
		panic(fmt.Sprintf("probe: a frame of %d bytes", n))
	}
	binary.LittleEndian.PutUint32(b[body-FrameHeader:], uint32(n))
	return b
}

// AppendFrame appends a whole frame, without a request id.
func AppendFrame(b []byte, e Epoch, msgs ...Msg) []byte {
	b, body := BeginFrame(b, e)
	for _, m := range msgs {
		b = AppendMsg(b, m)
	}
	return EndFrame(b, body)
}

// BodySize reads a frame header and returns the length of the body in bytes. A length above limit is an error:
// limit is MaxFrame, or MaxHello before the Hello is accepted. A body with no room for an epoch is an error,
// too.
func BodySize(header []byte, limit int) (int, error) {
	n := binary.LittleEndian.Uint32(header)
	if n == 0 || uint64(n) > uint64(limit) {
		return 0, &DecodeError{Field: "length", Problem: fmt.Sprintf("%d bytes, want 1 to %d", n, limit)}
	}
	return int(n), nil
}

// AppendMsg appends a message, kind byte first. AppendMsg keeps no reference to m, and does not allocate if b
// has room. AppendMsg writes negative durations and demands as 0 and cuts error texts at MaxText. AppendMsg
// panics on a type from outside of package probe: the codec knows only the messages of this package.
func AppendMsg(b []byte, m Msg) []byte {
	// Calling m.wireKind() here, or printing m in the panic, would move every message to the heap.
	at := len(b)
	switch m := m.(type) {
	case Hello:
		b = beginMsg(b, kindHello)
		b = AppendDialect(b, m.Speaks)
		b = appendString(b, m.Secret)
		b = binary.LittleEndian.AppendUint64(b, uint64(m.Frontend))
		b = appendString(b, m.Name)
		b = appendUint(b, uint64(m.Epoch))
		b = appendDuration(b, m.Lease)
	case Reserve:
		b = beginMsg(b, kindReserve)
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
		b = appendBool(appendStanding(b, m.Standing), m.Guarded)
	case Bind:
		b = beginMsg(b, kindBind)
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
		b = beginMsg(b, kindDecline)
		b = appendUint(b, uint64(m.Res))
		b = appendUint(b, uint64(m.Turn))
	case Enqueue:
		b = beginMsg(b, kindEnqueue)
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
		b = appendBool(appendStanding(b, m.Standing), m.Guarded)
	case Restamp:
		b = appendAttempt(appendStanding(appendUint(beginMsg(b, kindRestamp), uint64(m.Res)), m.Standing), m.Attempt)
	case Cancel:
		b = appendBool(appendPlaces(beginMsg(b, kindCancel), m.First, m.Count), m.Answer)
	case Kill:
		b = beginMsg(b, kindKill)
		b = appendAttempt(b, m.Attempt)
		b = appendUint(b, uint64(m.Res))
		b = appendUint(b, uint64(m.Turn))
	case Claim:
		b = beginMsg(b, kindClaim)
		b = append(b, m.Job[:]...)
		b = appendAttempt(b, m.Attempt)
		b = appendUint(b, uint64(m.Generation))
		b = appendString(appendBool(b, m.HasTenant), m.Tenant)
	case Ack:
		b = appendBool(appendAttempts(beginMsg(b, kindAck), m.Attempts), m.Disowned)
	case Sync:
		b = beginMsg(b, kindSync)
		b = appendUint(b, uint64(m.Next))
		b = appendRanges(b, m.Live)
		b = appendAttempts(b, m.Attempts)
	case Ping:
		b = appendBool(appendUint(beginMsg(b, kindPing), m.Seq), m.Matrix)
	case Probe:
		b = appendBool(appendUint(beginMsg(b, kindProbe), m.Seq), m.Matrix)
		x := m.Asker
		if b = appendBool(b, x != nil); x != nil {
			b = appendInt32(appendString(b, x.Tenant), x.Priority)
			b = appendStanding(appendBool(appendDemand(b, x.Demand), x.Long), x.Standing)
		}
	case Common:
		b = append(beginMsg(b, kindCommon), m.Job[:]...)
		b = appendUint(b, uint64(m.Number))
		b = appendBytes(b, m.Payload)
	case Forget:
		b = append(beginMsg(b, kindForget), m.Job[:]...)
	case Away:
		b = appendBool(beginMsg(b, kindAway), m.Drain)
		b = appendDuration(b, m.In)
		b = appendDuration(b, m.Lasts)
	case Welcome:
		b = beginMsg(b, kindWelcome)
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
		b = appendText(beginMsg(b, kindRejected), m.Reason)
	case Queued:
		b = beginMsg(b, kindQueued)
		b = appendPlaces(b, m.First, m.Count)
		b = appendUint(b, uint64(m.Ahead))
		b = appendLoad(b, &m.Load)
		b = appendShares(appendDuration(b, m.Wait), &m.Load)
	case Started:
		b = beginMsg(b, kindStarted)
		b = appendAttempt(b, m.Attempt)
		b = appendUint(b, uint64(m.Res))
		b = append(b, m.Job[:]...)
		b = appendUint(b, uint64(m.Task))
		b = appendDuration(b, m.Ran)
		b = appendShares(appendLoad(b, &m.Load), &m.Load)
	case Ready:
		b = beginMsg(b, kindReady)
		b = appendUint(b, uint64(m.Res))
		b = appendUint(b, uint64(m.Turn))
		b = appendDuration(b, m.Waited)
		b = appendDuration(b, m.Expiry)
		b = appendDuration(b, m.Early)
		b = appendShares(appendLoad(b, &m.Load), &m.Load)
	case *Finished:
		b = beginMsg(b, kindFinished)
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
			for _, d := range [...]time.Duration{m.Waits.Own, m.Waits.Others, m.Waits.Long, m.Waits.Closed,
				m.Waits.Idle} {
				b = appendDuration(b, d)
			}
		}
		b = appendShares(appendBool(b, m.DiskFailed), &m.Load)
	case Refused:
		b = beginMsg(b, kindRefused)
		b = appendPlaces(b, m.First, m.Count)
		b = appendAttempt(b, m.Attempt)
		b = append(b, byte(m.Reason))
		b = appendDuration(b, m.RetryAfter)
		b = appendLoad(b, &m.Load)
		b = appendShares(appendDuration(b, m.Knows), &m.Load)
	case Evicted:
		b = appendPlaces(beginMsg(b, kindEvicted), m.First, m.Count)
		b = append(b, byte(m.Reason))
	case Gone:
		b = appendRanges(beginMsg(b, kindGone), m.Places)
		b = appendAttempts(b, m.Attempts)
	case Load:
		b = appendShares(appendLoad(beginMsg(b, kindLoad), &m), &m)
	case Drain:
		b = beginMsg(b, kindDrain)
	case Cache:
		b = appendText(beginMsg(b, kindCache), m.Problem)
	case Pong:
		b = appendUint(beginMsg(b, kindPong), m.Seq)
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
		b = appendShares(appendUint(b, uint64(m.Pace)), &m.Load)
		b = appendUint(b, uint64(len(m.Uses))) // an older frontend ignores the uses
		for i := range m.Uses {
			u := &m.Uses[i]
			b = appendDuration(appendDuration(appendAttempt(b, u.Attempt), u.Ran), u.CPU)
			b = appendUint(b, uint64(max(u.Memory, 0)))
		}
	case Claimed:
		b = beginMsg(b, kindClaimed)
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

// beginMsg appends the header of a message. AppendMsg fills in the length at the end.
func beginMsg(b []byte, k kind) []byte { return append(b, byte(k), 0, 0, 0) }

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

// appendStanding takes two bytes for a regular entry of a first stage, the common case.
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

// appendContexts writes the number of launches with a context, then each context behind the position of its
// launch.
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

// appendOutput writes numbers in a fixed size: so a decoded list of outputs takes little more memory than the
// encoded bytes.
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

// Decoder decodes the frames of a connection. It is not for concurrent use. The zero Decoder is ready.
type Decoder struct {
	Skipped      int // messages of unknown kinds, in frames without an error
	names        nameCache
	lentResults  *lent.Of[Finished]
	lentLaunches *lent.Of[Launch] // of Reserve and Bind
}

// Idle decoders give their memory back to these pools, because only few decoders decode at a time.
var (
	resultPool lent.Pool[Finished]
	launchPool lent.Pool[Launch]
)

// Reuse ends the life of all decoded messages: their user must have dropped them. The decoder then reuses the
// memory of each Finished and of the launches of Reserve and Bind. The frame's body, aliased by payloads and
// results, is not touched.
func (d *Decoder) Reuse() {
	resultPool.TakeBack(&d.lentResults)
	launchPool.TakeBack(&d.lentLaunches)
}

// Decode appends the messages of a frame's body to msgs. The messages alias body and own it from then on:
// nobody may write to body. An error is always a *DecodeError; then no message is appended, but the epoch is
// right if the frame had one. The length of body bounds the allocated memory, whatever lengths the frame
// claims: at most 100 bytes for each byte of a small frame and 10 for each byte of a large frame.
func (d *Decoder) Decode(body []byte, msgs []Msg) (Epoch, []Msg, error) {
	r := reader{buf: body, names: &d.names, lentLaunches: &d.lentLaunches}
	if len(body) > MaxFrame {
		r.fail("length", 0, overLimit)
	}
	epoch := Epoch(r.readUint("epoch"))
	before, skipped := len(msgs), 0
	for r.pos < len(body) && r.err == nil {
		if len(msgs)-before == MaxMsgs {
			r.fail("messages", r.pos, overLimit)
			break
		}
		end := r.readHeader(body)
		switch r.kind {
		case kindHello:
			msgs = append(msgs, r.readHello())
		case kindReserve:
			msgs = append(msgs, r.readReserve())
		case kindBind:
			m := Bind{Res: r.readRes("res"), Turn: Turn(r.readUint32("turn")), Keep: r.readBool("keep")}
			if r.readBool("of another job") {
				m.Job, m.Generation = r.readJob("job"), r.readGeneration()
			}
			m.Launch, m.Bundle = r.readLaunch(), r.readLaunches("bundle", MaxPlaces)
			if r.hasMore() {
				m.Launch.Context = r.readContext("context")
				r.readContexts("contexts", m.Bundle)
			}
			msgs = append(msgs, m)
		case kindDecline:
			msgs = append(msgs, Decline{Res: r.readRes("res"), Turn: Turn(r.readUint32("turn"))})
		case kindEnqueue:
			m := Enqueue{
				Res: r.readRes("res"), Job: r.readJob("job"), Tenant: r.readName("tenant"),
				Priority: r.readInt32("priority"), Demand: r.readDemand("demand"), Long: r.readBool("long"),
				Matrix: r.readBool("matrix"),
				Launch: r.readLaunch(), Generation: r.readGeneration(),
			}
			if r.hasMore() {
				m.Launch.Context = r.readContext("context")
			}
			m.Weights = r.readWeights()
			if r.hasMore() {
				m.Standing = r.readStanding()
			}
			m.Guarded = r.hasMore() && r.readBool("guarded")
			msgs = append(msgs, m)
		case kindCancel:
			first, count := r.readPlaces(1)
			msgs = append(msgs, Cancel{First: first, Count: count, Answer: r.hasMore() && r.readBool("answer")})
		case kindKill:
			msgs = append(msgs, Kill{
				Attempt: r.readAttempt("attempt"), Res: ResID(r.readUint("res")), Turn: Turn(r.readUint32("turn")),
			})
		case kindClaim:
			m := Claim{Job: r.readJob("job"), Attempt: r.readAttempt("attempt"), Generation: r.readGeneration()}
			if r.hasMore() {
				m.HasTenant, m.Tenant = r.readBool("has tenant"), r.readName("tenant")
			}
			msgs = append(msgs, m)
		case kindAck:
			msgs = append(msgs, Ack{Attempts: r.readAttempts("attempts"), Disowned: r.readBool("disowned")})
		case kindSync:
			msgs = append(msgs, Sync{
				Next: ResID(r.readUint("next")), Live: r.readRanges("live"), Attempts: r.readAttempts("attempts"),
			})
		case kindPing:
			msgs = append(msgs, Ping{Seq: r.readUint("seq"), Matrix: r.readBool("matrix")})
		case kindProbe:
			m := Probe{Seq: r.readUint("seq"), Matrix: r.readBool("matrix")}
			if r.hasMore() && r.readBool("asker") {
				m.Asker = &Asker{
					Tenant: r.readName("tenant"), Priority: r.readInt32("priority"), Demand: r.readDemand("demand"),
					Long: r.readBool("long"), Standing: r.readStanding(),
				}
			}
			msgs = append(msgs, m)
		case kindCommon:
			msgs = append(msgs, Common{Job: r.readJob("job"), Number: r.readUint32("number"),
				Payload: r.readBytes("payload", MaxBlob)})
		case kindForget:
			msgs = append(msgs, Forget{Job: r.readJob("job")})
		case kindRestamp:
			m := Restamp{Res: ResID(r.readUint("res")), Standing: r.readStanding()}
			if r.hasMore() {
				m.Attempt = r.readAttempt("attempt")
			}
			msgs = append(msgs, m)
		case kindAway:
			msgs = append(msgs, Away{Drain: r.readBool("drain"), In: r.readDuration("in"),
				Lasts: r.readDuration("lasts")})
		case kindWelcome:
			msgs = append(msgs, r.readWelcome())
		case kindRejected:
			msgs = append(msgs, Rejected{Reason: r.readText("reason", MaxText)})
		case kindQueued:
			first, count := r.readPlaces(0)
			m := Queued{First: first, Count: count, Ahead: r.readUint32("ahead"), Load: r.readLoad()}
			if r.hasMore() {
				m.Wait = r.readDuration("wait")
			}
			r.readLoadShares(&m.Load)
			msgs = append(msgs, m)
		case kindStarted:
			m := Started{
				Attempt: r.readAttempt("attempt"), Res: ResID(r.readUint("res")), Job: r.readJob("job"),
				Task: TaskIndex(r.readUint32("task")), Ran: r.readDuration("ran"), Load: r.readLoad(),
			}
			r.readLoadShares(&m.Load)
			msgs = append(msgs, m)
		case kindReady:
			m := Ready{
				Res: r.readRes("res"), Turn: Turn(r.readUint32("turn")), Waited: r.readDuration("waited"),
				Expiry: r.readDuration("expiry"), Early: r.readDuration("early"), Load: r.readLoad(),
			}
			r.readLoadShares(&m.Load)
			msgs = append(msgs, m)
		case kindFinished:
			m := resultPool.Of(&d.lentResults).New()
			r.readFinished(m)
			msgs = append(msgs, m)
		case kindRefused:
			first, count := r.readPlaces(0)
			m := Refused{
				First: first, Count: count, Attempt: r.readAttempt("attempt"), Reason: r.readReason(),
				RetryAfter: r.readDuration("retry after"), Load: r.readLoad(),
			}
			if r.hasMore() {
				m.Knows = r.readDuration("knows")
			}
			r.readLoadShares(&m.Load)
			msgs = append(msgs, m)
		case kindEvicted:
			first, count := r.readPlaces(1)
			msgs = append(msgs, Evicted{First: first, Count: count, Reason: r.readReason()})
		case kindGone:
			msgs = append(msgs, Gone{Places: r.readRanges("places"), Attempts: r.readAttempts("attempts")})
		case kindLoad:
			m := r.readLoad()
			r.readLoadShares(&m)
			msgs = append(msgs, m)
		case kindDrain:
			msgs = append(msgs, Drain{})
		case kindCache:
			msgs = append(msgs, Cache{Problem: r.readText("problem", MaxText)})
		case kindPong:
			m := Pong{Seq: r.readUint("seq"), Load: r.readLoad()}
			if r.hasMore() {
				m.Expect, m.Progress, m.Pace = r.readExpects(), r.readProgress(), r.readUint32("pace")
			}
			r.readLoadShares(&m.Load)
			if r.hasMore() {
				m.Uses = r.readUses()
			}
			msgs = append(msgs, m)
		case kindClaimed:
			msgs = append(msgs, Claimed{Job: r.readJob("job"), Generation: r.readGeneration(),
				Count: r.readUint32("count"), Knows: r.readDuration("knows"), Moved: r.readBool("moved")})
		case 0: // no sender writes kind 0
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

// readHeader reads the header of a message and bounds the reader to the message's fields. end is the offset
// behind the fields.
func (r *reader) readHeader(body []byte) (end int) {
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

func (r *reader) readHello() Hello {
	return Hello{
		Speaks:   r.readDialect("speaks"),
		Secret:   r.readText("secret", MaxString),
		Frontend: FrontendID(r.readUint64("frontend")),
		Name:     r.readText("name", MaxString),
		Epoch:    Epoch(r.readUint("epoch")),
		Lease:    r.readDuration("lease"),
	}
}

func (r *reader) readReserve() Reserve {
	first, count := r.readPlaces(1)
	m := Reserve{
		First:    first,
		Count:    count,
		Job:      r.readJob("job"),
		Tenant:   r.readName("tenant"),
		Priority: r.readInt32("priority"),
		Demand:   r.readDemand("demand"),
		Estimate: r.readDuration("estimate"),
		Typical:  r.readDuration("typical"),
		Early:    r.readBool("early"),
		Bundle:   r.readUint32("bundle"),
	}
	m.Launches, m.Generation = r.readLaunches("launches", int(count)), r.readGeneration()
	if r.hasMore() {
		r.readContexts("contexts", m.Launches)
	}
	m.Weights = r.readWeights()
	if r.hasMore() {
		m.Standing = r.readStanding()
	}
	m.Guarded = r.hasMore() && r.readBool("guarded")
	return m
}

func (r *reader) readStanding() (s Standing) {
	s.Class, s.Age = Class(r.readEnum("class", byte(Regular), byte(Spare))), r.readDuration("age")
	if s.Class != Regular {
		s.Due, s.Left = r.readDuration("due"), r.readDuration("left")
	}
	return s
}

// readWeights reads a field appended by version 8.
func (r *reader) readWeights() []uint32 {
	if !r.hasMore() {
		return nil
	}
	n := r.readCount("weights", MaxParts, 1)
	if n == 0 {
		return nil
	}
	ws := make([]uint32, n)
	for i := range ws {
		ws[i] = r.readUint32("weights")
	}
	return ws
}

func (r *reader) readGeneration() Generation { return Generation(r.readUint32("generation")) }

func (r *reader) readLaunches(field string, max int) []Launch {
	n := r.readCount(field, max, launchSize)
	if n == 0 {
		return nil
	}
	ls := launchPool.Of(r.lentLaunches).Take(n)
	for i := range ls {
		ls[i] = r.readLaunch()
	}
	return ls
}

func (r *reader) readLaunch() Launch {
	l := Launch{
		Attempt:  r.readAttempt("launch.attempt"),
		Task:     TaskIndex(r.readUint32("launch.task")),
		Function: r.readName("launch.function"),
		Payload:  r.readBytes("launch.payload", MaxBlob),
	}
	estimate, deadline := r.readFlagged("launch.estimate", math.MaxInt64)
	if l.Estimate = time.Duration(estimate); deadline {
		l.Deadline = r.readDuration("launch.deadline")
	}
	timeout, files := r.readFlagged("launch.timeout", math.MaxInt64)
	if l.Timeout = time.Duration(timeout); files {
		l.Files = r.readFiles("launch.files")
	}
	return l
}

// readContexts reads the contexts of ls, as appendContexts wrote them. A position out of range or named twice
// is an error.
func (r *reader) readContexts(field string, ls []Launch) {
	for range r.readCount(field, len(ls), contextSize) {
		at := r.pos
		i := r.readUpTo(field, math.MaxUint32, outOfRange)
		c := r.readContext(field)
		if i >= uint64(len(ls)) || c == nil || ls[i].Context != nil {
			r.fail(field, at, outOfRange)
			return
		}
		ls[i].Context = c
	}
}

func (r *reader) readContext(field string) *Context {
	if !r.readBool(field) {
		return nil
	}
	c := &Context{
		Stage: r.readName("context.stage"), Partition: r.readUint32("context.partition"),
		Attempt: r.readUint32("context.attempt"),
		Trace:   r.readText("context.trace", MaxString), Common: r.readUint32("context.common"),
		Inline: r.readUint32("context.inline"),
		Large:  r.readBool("context.large"),
	}
	n := r.readCount("context.inputs", MaxPassed, passedSize)
	if n == 0 {
		return c
	}
	c.Inputs = make([]Passed, n)
	for i := range c.Inputs {
		p := &c.Inputs[i]
		p.Stage, p.Task = r.readName("context.inputs"), TaskIndex(r.readFixed32("context.inputs"))
		if p.Output = r.readOutput("context.inputs"); p.File {
			p.Peers = r.readPeers("context.inputs")
		}
	}
	return c
}

func (r *reader) readOutput(field string) Output {
	o := Output{Partition: r.readFixed32(field), Bytes: r.readUint64(field)}
	if o.File = r.readBool(field); o.File {
		copy(o.Digest[:], r.readFixed(field, len(o.Digest)))
	} else {
		o.Data = r.readBytes(field, MaxBlob)
	}
	return o
}

// readPeers reads addresses of caches.
func (r *reader) readPeers(field string) []string {
	n := r.readCount(field, MaxPeers, 1)
	if n == 0 {
		return nil
	}
	peers := make([]string, n)
	for i := range peers {
		peers[i] = r.readText(field, MaxString)
	}
	return peers
}

func (r *reader) readFiles(field string) []File {
	n := r.readCount(field, MaxFiles, fileSize)
	if n == 0 {
		return nil
	}
	list := make([]File, n)
	for i := range list {
		f := &list[i]
		copy(f.Digest[:], r.readFixed(field, len(f.Digest)))
		f.URL = r.readText(field, MaxString)
		f.Bytes = r.readUint(field)
		f.Peers = r.readPeers(field)
	}
	return list
}

func (r *reader) readWelcome() Welcome {
	return Welcome{
		Speaks:      r.readDialect("speaks"),
		Epoch:       Epoch(r.readUint("epoch")),
		Worker:      r.readText("worker", MaxString),
		Incarnation: r.readUint64("incarnation"),
		Host:        r.readText("host", MaxString),
		Rack:        r.readText("rack", MaxString),
		Capacity:    r.readDemand("capacity"),
		Open:        r.readDemand("open"),
		Labels:      r.readTexts("labels"),
		Functions:   r.readTexts("functions"),
		MaxPayload:  r.readUint32("max payload"),
		MaxResult:   r.readUint32("max result"),
		Speed:       r.readUint32("speed"),
		Cache:       r.readText("cache", MaxString),
		Draining:    r.readBool("draining"),
	}
}

func (r *reader) readFinished(m *Finished) {
	*m = Finished{
		Attempt: r.readAttempt("attempt"),
		Job:     r.readJob("job"),
		Task:    TaskIndex(r.readUint32("task")),
		Status:  Status(r.readEnum("status", byte(Succeeded), byte(Preempted))),
		Result:  r.readBytes("result", MaxBlob),
		Error:   r.readText("error", MaxText),
		Waited:  r.readDuration("waited"),
		Held:    r.readDuration("held"),
		Launch:  r.readDuration("launch"),
		Run:     r.readDuration("run"),
	}
	kept, usage := r.readFlagged("kept", math.MaxInt64)
	if m.Kept = time.Duration(kept); usage {
		m.Usage = Usage{
			CPU:     r.readDuration("usage.cpu"),
			Memory:  MiB(r.readUpTo("usage.memory", math.MaxInt32, outOfRange)),
			Fetched: r.readUint("usage.fetched"),
			Fetch:   r.readDuration("usage.fetch"),
		}
	}
	m.Load = r.readLoad()
	if r.hasMore() && r.readBool("more") {
		m.Code, m.Detail = r.readName("code"), r.readBytes("detail", MaxBlob)
		m.Retry = Retry(r.readEnum("retry", byte(Anywhere), byte(Never)))
		if n := r.readCount("outputs", MaxPassed, outputSize); n > 0 {
			m.Outputs = make([]Output, n)
			for i := range m.Outputs {
				m.Outputs[i] = r.readOutput("outputs")
			}
		}
	}
	if r.hasMore() && r.readBool("waits") {
		m.Waits = Waits{
			Own: r.readDuration("waits.own"), Others: r.readDuration("waits.others"),
			Long: r.readDuration("waits.long"), Closed: r.readDuration("waits.closed"),
			Idle: r.readDuration("waits.idle"),
		}
	}
	if r.hasMore() {
		m.DiskFailed = r.readBool("disk failed")
	}
	r.readLoadShares(&m.Load)
}

func (r *reader) readExpects() []Expect {
	n := r.readCount("expect", MaxPlaces, attemptSize+1)
	if n == 0 {
		return nil
	}
	list := make([]Expect, n)
	for i := range list {
		list[i] = Expect{Attempt: r.readAttempt("expect"), Wait: r.readDuration("expect")}
	}
	return list
}

func (r *reader) readProgress() []Progress {
	n := r.readCount("progress", MaxPlaces, attemptSize+2)
	if n == 0 {
		return nil
	}
	list := make([]Progress, n)
	for i := range list {
		list[i] = Progress{Attempt: r.readAttempt("progress"), Done: r.readUint32("progress"),
			Left: r.readDuration("progress")}
	}
	return list
}

func (r *reader) readUses() []Use {
	n := r.readCount("use", MaxPlaces, attemptSize+3)
	if n == 0 {
		return nil
	}
	list := make([]Use, n)
	for i := range list {
		list[i] = Use{Attempt: r.readAttempt("use"), Ran: r.readDuration("use"), CPU: r.readDuration("use"),
			Memory: MiB(r.readUpTo("use", math.MaxInt32, outOfRange))}
	}
	return list
}

func (r *reader) readReason() Reason {
	return Reason(r.readEnum("reason", byte(QueueFull), byte(len(reasonNames)-1)))
}

// appendShares appends the shares of the load's matrix, as the last field of a message.
func appendShares(b []byte, l *Load) []byte {
	if l.Matrix == nil {
		return b
	}
	return AppendShares(b, &l.Matrix.Shares)
}

// readLoadShares reads the shares of the load's matrix, the last field of a message.
func (r *reader) readLoadShares(l *Load) {
	if l.Matrix != nil && r.hasMore() {
		r.readShares("load.shares", &l.Matrix.Shares)
	}
}

func (r *reader) readLoad() Load {
	l := Load{
		Seq:    r.readUint("load.seq"),
		Free:   r.readDemand("load.free"),
		Queued: r.readUint32("load.queued"),
	}
	running, matrix := r.readFlagged("load.running", math.MaxUint32)
	if l.Running = uint32(running); matrix {
		if r.matrices++; r.matrices > MaxMatrices {
			r.fail("load.matrix", r.pos, overLimit)
			return l
		}
		l.Matrix = new(WaitMatrix)
		r.readMatrix("load.matrix", l.Matrix)
	}
	return l
}
