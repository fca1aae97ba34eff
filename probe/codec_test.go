package probe

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"math"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/phoebe-sched/phoebe/probe/corpus"
)

// sampleMsgs has a zero value of every message type. TestAllMessages compares the list with the source.
var sampleMsgs = []Msg{
	Hello{}, Reserve{}, Bind{}, Decline{}, Enqueue{}, Cancel{}, Kill{}, Claim{}, Ack{}, Sync{}, Ping{}, Probe{},
	Welcome{}, Rejected{}, Queued{}, Started{}, Ready{}, &Finished{}, Refused{}, Evicted{}, Gone{}, Load{}, Drain{},
	Pong{},
	Claimed{}, Common{}, Forget{}, Restamp{}, Away{}, Cache{},
}

func TestAllMessages(t *testing.T) {
	var inSource []string
	for _, decl := range parseMessages(t).Decls {
		if f, ok := decl.(*ast.FuncDecl); ok && f.Recv != nil && f.Name.Name == "wireKind" {
			typ := f.Recv.List[0].Type
			if star, ok := typ.(*ast.StarExpr); ok {
				typ = star.X
			}
			inSource = append(inSource, typ.(*ast.Ident).Name)
		}
	}
	var known []string
	kinds := map[kind]string{}
	for _, m := range sampleMsgs {
		name := reflect.Indirect(reflect.ValueOf(m)).Type().Name()
		known = append(known, name)
		if other := kinds[m.wireKind()]; other != "" {
			t.Errorf("%s and %s are of the same kind", name, other)
		}
		kinds[m.wireKind()] = name
		if got := m.wireKind().String(); got != name {
			t.Errorf("the kind of %s is called %q", name, got)
		}
		if b := AppendMsg(nil, m); kind(b[0]) != m.wireKind() {
			t.Errorf("%s is written with the kind byte of %v", name, kind(b[0]))
		}
	}
	slices.Sort(inSource)
	slices.Sort(known)
	if !slices.Equal(inSource, known) {
		t.Errorf("messages.go has   %v\nthe tests know    %v", inSource, known)
	}
	if n := countConsts(t, "Status"); n != int(Preempted) {
		t.Errorf("Preempted is not the last of the %d statuses: the decoder would refuse the others", n)
	}
}

func parseMessages(t testing.TB) *ast.File {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "messages.go", nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// countConsts counts the names in the const block of messages.go whose first constant has type typ.
func countConsts(t testing.TB, typ string) int {
	for _, decl := range parseMessages(t).Decls {
		if g, ok := decl.(*ast.GenDecl); ok && g.Tok == token.CONST {
			if first, ok := g.Specs[0].(*ast.ValueSpec).Type.(*ast.Ident); ok && first.Name == typ {
				return len(g.Specs)
			}
		}
	}
	return 0
}

// drawMsg fills a message of the type of m with random legal values, field by field. A field forgotten by the codec
// comes back as zero.
func drawMsg(t *rapid.T, m Msg) Msg {
	typ := reflect.TypeOf(m)
	if typ.Kind() == reflect.Pointer {
		v := reflect.New(typ.Elem())
		fillValue(t, v.Elem(), typ.Elem().Name())
		return v.Interface().(Msg)
	}
	v := reflect.New(typ).Elem()
	fillValue(t, v, typ.Name())
	return v.Interface().(Msg)
}

func drawJobID(t *rapid.T) (id JobID) {
	binary.BigEndian.PutUint64(id[:8], rapid.Uint64().Draw(t, "high"))
	binary.BigEndian.PutUint64(id[8:], rapid.Uint64().Draw(t, "low"))
	return id
}

func drawAmount[N Millicores | MiB](t *rapid.T, path string) N {
	return N(rapid.Int32Range(0, math.MaxInt32).Draw(t, path))
}

func fillValue(t *rapid.T, v reflect.Value, path string) {
	switch v.Interface().(type) {
	case time.Duration:
		v.SetInt(rapid.Int64Range(0, math.MaxInt64).Draw(t, path))
		return
	case Millicores, MiB:
		v.SetInt(rapid.Int64Range(0, math.MaxInt32).Draw(t, path))
		return
	case Status:
		v.SetUint(rapid.Uint64Range(1, uint64(Preempted)).Draw(t, path))
		return
	case Reason:
		v.SetUint(rapid.Uint64Range(1, uint64(len(reasonNames)-1)).Draw(t, path))
		return
	case Class:
		v.SetUint(rapid.Uint64Range(0, uint64(Spare)).Draw(t, path))
		return
	case Retry:
		v.SetUint(rapid.Uint64Range(0, uint64(Never)).Draw(t, path))
		return
	case JobID:
		v.Set(reflect.ValueOf(drawJobID(t)))
		return
	case *Context, *Asker:
		if rapid.Bool().Draw(t, path) {
			v.Set(reflect.New(v.Type().Elem()))
			fillValue(t, v.Elem(), path)
		}
		return
	case *WaitMatrix:
		if rapid.Bool().Draw(t, path) {
			m := newGrid(func(int, int) Wait { return Wait(rapid.Uint32().Draw(t, path)) })
			m.Capacity = Demand{drawAmount[Millicores](t, path), drawAmount[MiB](t, path)}
			m.Shares.Others = shareFrom(rapid.Byte().Draw(t, path))
			for range rapid.IntRange(0, MaxTenantShares).Draw(t, path) {
				m.Shares.Set(TenantCode(rapid.Uint16Min(1).Draw(t, path)), shareFrom(rapid.Byte().Draw(t, path)))
			}
			v.Set(reflect.ValueOf(m))
		}
		return
	case ResID: // Bind.Res and similar fields; First is below
		least := uint64(1)
		if path == "Kill.Res" || path == "Restamp.Res" { // 0: no place
			least = 0
		}
		v.SetUint(rapid.Uint64Range(least, math.MaxUint64-1).Draw(t, path))
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fillValue(t, v.Field(i), path+"."+v.Type().Field(i).Name)
		}
		if m, ok := v.Interface().(Bind); ok && m.Job == (JobID{}) {
			v.FieldByName("Generation").SetUint(0) // the generation belongs to Job
		}
		switch o := v.Addr().Interface().(type) {
		case *Standing:
			if o.Class == Regular {
				*o = Standing{Age: o.Age}
			}
		case *Output:
			if o.File {
				o.Data = nil
			} else {
				o.Digest = [32]byte{}
			}
		case *Passed:
			if !o.File {
				o.Peers = nil
			}
		}
		if first := v.FieldByName("First"); first.IsValid() {
			least := uint64(1)
			switch v.Interface().(type) {
			case Queued, Refused:
				least = 0
			}
			n := rapid.Uint64Range(least, MaxPlaces).Draw(t, path+".Count")
			v.FieldByName("Count").SetUint(n)
			first.SetUint(rapid.Uint64Range(min(n, 1), math.MaxUint64-n).Draw(t, path+".First"))
			if l := v.FieldByName("Launches"); l.IsValid() && l.Len() > int(n) {
				l.Set(l.Slice(0, int(n)))
			}
		}
	case reflect.Array:
		for i := range v.Len() {
			v.Index(i).SetUint(rapid.Uint64Range(0, 255).Draw(t, path))
		}
	case reflect.Slice:
		n := rapid.IntRange(0, 4).Draw(t, path)
		if strings.HasSuffix(path, ".Peers") {
			n = min(n, MaxPeers)
		}
		if v.Type().Elem().Kind() == reflect.Uint8 {
			n *= rapid.IntRange(1, 100).Draw(t, path)
		}
		if n == 0 {
			return // the decoder returns nil for an empty slice
		}
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		for i := range n {
			fillValue(t, v.Index(i), path)
		}
	case reflect.String:
		v.SetString(rapid.StringN(0, 200, 800).Draw(t, path))
	case reflect.Bool:
		v.SetBool(rapid.Bool().Draw(t, path))
	case reflect.Uint8, reflect.Uint32, reflect.Uint64:
		v.SetUint(rapid.Uint64().Draw(t, path) >> (64 - v.Type().Bits()))
	case reflect.Int32:
		v.SetInt(int64(rapid.Int32().Draw(t, path)))
	default:
		t.Fatalf("cannot fill %s, a %v", path, v.Type())
	}
}

// bodyOf returns the body of a frame with these messages.
func bodyOf(e Epoch, msgs ...Msg) []byte { return AppendFrame(nil, e, msgs...)[FrameHeader:] }

// rawBody returns the body of a frame of epoch 1 with a single message, given byte by byte.
func rawBody(k kind, fields ...byte) []byte { return rawMsg([]byte{1}, k, fields...) }

func rawMsg(b []byte, k kind, fields ...byte) []byte {
	n := len(fields)
	return append(append(b, byte(k), byte(n), byte(n>>8), byte(n>>16)), fields...)
}

func TestRoundTrip(t *testing.T) {
	drawn := map[kind]int{}
	rapid.Check(t, func(t *rapid.T) {
		var d Decoder
		for range rapid.IntRange(1, 3).Draw(t, "frames") {
			epoch := Epoch(rapid.Uint64().Draw(t, "epoch"))
			var msgs []Msg
			for range rapid.IntRange(0, 20).Draw(t, "messages") {
				m := drawMsg(t, rapid.SampledFrom(sampleMsgs).Draw(t, "kind"))
				drawn[m.wireKind()]++
				msgs = append(msgs, m)
			}
			gotEpoch, got, err := d.Decode(bodyOf(epoch, msgs...), nil)
			if err != nil {
				t.Fatal(err)
			}
			if gotEpoch != epoch || len(got) != len(msgs) {
				t.Fatalf("epoch %d and %d messages, want %d and %d", gotEpoch, len(got), epoch, len(msgs))
			}
			for i := range msgs {
				if !reflect.DeepEqual(got[i], msgs[i]) {
					t.Fatalf("got  %#v\nwant %#v", got[i], msgs[i])
				}
			}
		}
	})
	for _, m := range sampleMsgs {
		if drawn[m.wireKind()] == 0 {
			t.Errorf("no %T was ever drawn", m)
		}
	}
}

func TestTruncated(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := drawMsg(t, rapid.SampledFrom(sampleMsgs).Draw(t, "kind"))
		whole, before := bodyOf(1<<60, m), bodyOf(1<<60)
		prior := []Msg{Drain{}}
		for cut := range whole {
			var d Decoder
			_, got, err := d.Decode(whole[:cut:cut], prior)
			var e *DecodeError
			switch {
			case cut == len(before):
				if err != nil {
					t.Fatalf("a frame without messages: %v", err)
				}
			case !errors.As(err, &e):
				t.Fatalf("%T cut to %d of %d bytes is accepted: %#v", m, cut, len(whole), got)
			case e.Problem != cutShort || e.Field == "" || e.Offset > cut:
				t.Fatalf("%T cut to %d of %d bytes: %#v", m, cut, len(whole), e)
			case cut >= len(before)+msgHeader && e.Message != m.wireKind().String():
				t.Fatalf("%T cut to %d of %d bytes: about %q", m, cut, len(whole), e.Message)
			}
			if len(got) != 1 {
				t.Fatalf("%d messages in place of those from before", len(got))
			}
		}
	})
}

// The decoder finds a message cut short if the message is too short for its fields, even if its length says so.
func TestTooShort(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := drawMsg(t, rapid.SampledFrom(sampleMsgs).Draw(t, "kind"))
		fields := AppendMsg(nil, m)[msgHeader:]
		for cut := range fields {
			var e *DecodeError
			_, got, err := new(Decoder).Decode(rawMsg(rawBody(m.wireKind(), fields[:cut]...), kindDrain), nil)
			if err == nil && slices.Contains(olderLengths(m), cut) { // an older peer writes no more
				if len(got) != 2 {
					t.Fatalf("%T cut to what an older peer writes: %#v", m, got)
				}
			} else if !errors.As(err, &e) {
				t.Fatalf("%T cut to %d of %d bytes is accepted", m, cut, len(fields))
			} else if e.Message != m.wireKind().String() || e.Problem != cutShort {
				t.Fatalf("%T cut to %d of %d bytes: %v", m, cut, len(fields), e)
			}
		}
	})
}

// olderLengths returns the lengths that older peers write for the fields of m, in bytes.
func olderLengths(m Msg) []int {
	fields := func(m Msg) int { return len(AppendMsg(nil, m)) - msgHeader }
	bare := func(ls []Launch) []Launch {
		ls = slices.Clone(ls)
		for i := range ls {
			ls[i].Context = nil
		}
		return ls
	}
	shares := func(l *Load) int { return len(appendShares(nil, l)) }
	const none, regular = 1, 3 // length of an absent context, and of a regular standing with Guarded
	switch m := m.(type) {
	case Reserve:
		standing := fields(m) - none
		m.Standing = Standing{}
		weights := fields(m) - regular
		m.Weights = nil
		contexts := fields(m) - regular - none
		m.Launches = bare(m.Launches)
		return []int{standing, weights, contexts, fields(m) - regular - 2*none}
	case Cancel:
		return []int{fields(m) - none}
	case Claim:
		m.Tenant = ""
		return []int{fields(m) - 2*none}
	case Queued:
		wait := fields(m) - shares(&m.Load)
		m.Wait = 0
		return []int{wait, fields(m) - shares(&m.Load) - none}
	case Started:
		return []int{fields(m) - shares(&m.Load)}
	case Ready:
		return []int{fields(m) - shares(&m.Load)}
	case Load:
		return []int{fields(m) - shares(&m)}
	case Probe:
		m.Asker = nil
		return []int{fields(m) - none}
	case Bind:
		m.Launch.Context, m.Bundle = nil, bare(m.Bundle)
		return []int{fields(m) - 2*none}
	case Enqueue:
		standing := fields(m) - none
		m.Standing = Standing{}
		weights := fields(m) - regular
		m.Weights = nil
		context := fields(m) - regular - none
		m.Launch.Context = nil
		return []int{standing, weights, context, fields(m) - regular - 2*none}
	case Restamp:
		return []int{fields(m) - len(appendAttempt(nil, m.Attempt))}
	case *Finished:
		old, load := *m, shares(&m.Load)
		disk := fields(&old) - none - load
		old.Waits = Waits{}
		waits := fields(&old) - 2*none - load
		old.Code, old.Detail, old.Retry, old.Outputs = "", nil, Anywhere, nil
		return []int{disk + none, disk, waits, fields(&old) - 3*none - load}
	case Refused:
		knows := fields(m) - shares(&m.Load)
		m.Knows = 0
		return []int{knows, fields(m) - none - shares(&m.Load)}
	case Pong:
		m.Uses = nil
		uses := fields(m) - none
		pace := uses - shares(&m.Load)
		m.Expect, m.Progress, m.Pace = nil, nil, 0
		return []int{uses, pace, fields(m) - 4*none - shares(&m.Load)}
	}
	return nil
}

// The decoder ignores bytes that a newer peer appends to a message. Messages, values and features of newer peers
// are skipped and counted.
func TestNewerPeer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := []byte{1}
		var want []Msg
		skipped := 0
		for range rapid.IntRange(0, 5).Draw(t, "messages") {
			extra := rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "extra")
			if rapid.Bool().Draw(t, "known") {
				m := drawMsg(t, rapid.SampledFrom(sampleMsgs).Draw(t, "kind"))
				want = append(want, m)
				b = rawMsg(b, m.wireKind(), append(AppendMsg(nil, m)[msgHeader:], extra...)...)
			} else {
				unknown := rapid.Byte().Filter(func(k byte) bool { return k > 0 && kind(k).String() == "" })
				b = rawMsg(b, kind(unknown.Draw(t, "unknown")), extra...)
				skipped++
			}
		}
		var d Decoder
		if _, got, err := d.Decode(b, nil); err != nil || !slices.EqualFunc(got, want,
			func(a, b Msg) bool { return reflect.DeepEqual(a, b) }) || d.Skipped != skipped {
			t.Fatalf("%v, %d skipped, want %d\ngot  %#v\nwant %#v", err, d.Skipped, skipped, got, want)
		}
	})
}

// An appended field is zero in a message of an older peer. A part of a field is cut short.
func TestAppendedField(t *testing.T) {
	read := func(fields ...byte) (seq uint64, appended uint32, err error) {
		b := rawMsg(nil, kindPing, fields...)
		r := reader{}
		r.readHeader(append(b, 99)) // 99 belongs to the next message
		if seq = r.readUint("seq"); r.hasMore() {
			appended = r.readUint32("appended")
		}
		if r.err != nil {
			err = r.err
		}
		return seq, appended, err
	}
	if seq, appended, err := read(7); seq != 7 || appended != 0 || err != nil {
		t.Errorf("of an older peer: %d, %d, %v", seq, appended, err)
	}
	if seq, appended, err := read(7, 8, 9); seq != 7 || appended != 8 || err != nil {
		t.Errorf("of a newer peer: %d, %d, %v", seq, appended, err)
	}
	if _, _, err := read(7, 0x80); err == nil {
		t.Error("a part of a field is taken for one")
	}
}

func TestRefusals(t *testing.T) {
	long := strings.Repeat("x", MaxString+1)
	launch := Launch{Attempt: AttemptID{1, 1}, Function: "f"}
	list := make([]string, MaxList+1)
	for _, c := range []struct {
		name string
		body []byte
		want string // message, field: problem
	}{
		{"nothing", nil, "frame, epoch: cut short"},
		{"epoch over 64 bits", bytes.Repeat([]byte{0xff}, 11), "frame, epoch: out of range"},
		{"kind 0", rawBody(0), "frame, kind: unknown value"},
		{"garbage after a message", append(bodyOf(1, Ping{Seq: 1}), 0xee), "frame, kind: cut short"},
		{"a length beyond the frame", bodyOf(1, Ping{}, Ping{})[:12], "Ping, length: cut short"},
		{"a length beyond the frame of what is not known", []byte{1, 255, 1, 0, 0}, "frame, length: cut short"},
		{"too long a frame", make([]byte, MaxFrame+1), "frame, length: over the limit"},

		{"messages", append([]byte{1}, bytes.Repeat(AppendMsg(nil, Drain{}), MaxMsgs+1)...),
			"Drain, messages: over the limit"},

		{"place 0", bodyOf(1, Bind{Res: 0, Launch: launch}), "Bind, res: out of range"},
		{"last place", bodyOf(1, Enqueue{Res: math.MaxUint64, Launch: launch}), "Enqueue, res: out of range"},
		{"keep 2", rawBody(kindBind, 1, 0, 2), "Bind, keep: unknown value"},
		{"first 0", bodyOf(1, Reserve{First: 0, Count: 1}), "Reserve, first, count: out of range"},
		{"count 0", bodyOf(1, Reserve{First: 1, Count: 0}), "Reserve, first, count: out of range"},
		{"count over", bodyOf(1, Reserve{First: 1, Count: MaxPlaces + 1}), "Reserve, count: over the limit"},
		{"ids over", bodyOf(1, Reserve{First: math.MaxUint64, Count: 1}), "Reserve, first, count: out of range"},
		{"ids just over", bodyOf(1, Cancel{First: math.MaxUint64 - 8, Count: 9}), "Cancel, first, count: out of range"},
		{"cancel of nothing", bodyOf(1, Cancel{First: 1}), "Cancel, first, count: out of range"},
		{"empty range", bodyOf(1, Sync{Live: []Range{{1, 1}, {2, 0}}}), "Sync, first, count: out of range"},
		{"launches over count", bodyOf(1, Reserve{First: 1, Count: 1, Launches: []Launch{launch, launch}}),
			"Reserve, launches: over the limit"},
		{"demand over", rawBody(kindLoad, 0, 0xff, 0xff, 0xff, 0xff, 0x0f, 0, 0, 0), "Load, load.free: out of range"},
		{"turn over 32 bits", rawBody(kindDecline, 1, 0xff, 0xff, 0xff, 0xff, 0x7f), "Decline, turn: out of range"},
		{"duration over", rawBody(kindReady, binary.AppendUvarint([]byte{1, 0}, 1<<63)...),
			"Ready, waited: out of range"},
		{"status 0", bodyOf(1, &Finished{}), "Finished, status: unknown value"},
		{"status over", bodyOf(1, &Finished{Status: Preempted + 1}), "Finished, status: unknown value"},
		{"reason 0", bodyOf(1, Evicted{First: 1, Count: 1}), "Evicted, reason: unknown value"},
		{"reason over", bodyOf(1, Evicted{First: 1, Count: 1, Reason: Reason(len(reasonNames))}),
			"Evicted, reason: unknown value"},

		{"function", bodyOf(1, Bind{Res: 1, Launch: Launch{Function: long}}), "Bind, launch.function: over the limit"},
		{"tenant", bodyOf(1, Reserve{First: 1, Count: 1, Tenant: long}), "Reserve, tenant: over the limit"},
		{"secret", bodyOf(1, Hello{Secret: long}), "Hello, secret: over the limit"},
		{"label", bodyOf(1, Welcome{Labels: []string{"a=b", long}}), "Welcome, labels: over the limit"},
		{"labels", bodyOf(1, Welcome{Labels: list}), "Welcome, labels: over the limit"},
		{"functions", bodyOf(1, Welcome{Functions: list}), "Welcome, functions: over the limit"},
		{"files", bodyOf(1, Bind{Res: 1, Launch: Launch{Files: make([]File, MaxFiles+1)}}),
			"Bind, launch.files: over the limit"},
		{"files that are not there",
			rawBody(kindBind, AppendMsg(nil, Bind{Res: 1, Launch: Launch{Files: make([]File, 9)}})[msgHeader:60]...),
			"Bind, launch.files: cut short"},
		{"peers", bodyOf(1, Bind{Res: 1, Launch: Launch{Files: []File{{Peers: make([]string, MaxPeers+1)}}}}),
			"Bind, launch.files: over the limit"},
		{"peer", bodyOf(1, Bind{Res: 1, Launch: Launch{Files: []File{{Peers: []string{long}}}}}),
			"Bind, launch.files: over the limit"},
		{"url", bodyOf(1, Bind{Res: 1, Launch: Launch{Files: []File{{URL: long}}}}),
			"Bind, launch.files: over the limit"},
		{"running over", rawBody(kindLoad, 0, 0, 0, 0, 0x80, 0x80, 0x80, 0x80, 0x20),
			"Load, load.running: out of range"},
		{"matrices", bodyOf(1, slices.Repeat([]Msg{Load{Matrix: &WaitMatrix{}}}, MaxMatrices+1)...),
			"Load, load.matrix: over the limit"},
		{"payload", bodyOf(1, Bind{Res: 1, Launch: Launch{Payload: make([]byte, MaxBlob+1)}}),
			"Bind, launch.payload: over the limit"},
		{"reason text", rawBody(kindRejected, binary.AppendUvarint(nil, MaxText+1)...),
			"Rejected, reason: over the limit"},
	} {
		var d Decoder
		_, _, err := d.Decode(c.body, nil)
		var e *DecodeError
		got := ""
		if errors.As(err, &e) {
			name := e.Message
			if name == "" {
				name = "frame"
			}
			got = fmt.Sprintf("%s, %s: %s", name, e.Field, e.Problem)
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}

	for _, c := range []struct {
		body []byte
		want string
	}{
		{rawBody(kindDecline, 7), "probe: Decline, turn at byte 6: cut short"},
		// If the decoder refuses a value after reading the whole value, the error names the offset where the value
		// begins.
		{rawBody(kindDecline, 0, 1), "probe: Decline, res at byte 5: out of range"},
		{rawBody(kindDecline, 7, 0xff, 0xff, 0xff, 0xff, 0x7f), "probe: Decline, turn at byte 6: out of range"},
		{rawBody(kindBind, 7, 0, 2), "probe: Bind, keep at byte 7: unknown value"},
		{rawBody(0), "probe: frame, kind at byte 1: unknown value"},
		{[]byte{1, byte(kindPing), 1, 0, 0}, "probe: Ping, length at byte 2: cut short"},
	} {
		if _, _, err := new(Decoder).Decode(c.body, nil); err == nil || err.Error() != c.want {
			t.Errorf("%v, want %v", err, c.want)
		}
	}
}

// The decoder accepts values at their limits.
func TestLimits(t *testing.T) {
	name, list := strings.Repeat("x", MaxString), make([]string, MaxList)
	launch := Launch{Function: name, Payload: make([]byte, MaxBlob),
		Files: slices.Repeat([]File{{URL: name, Bytes: 1, Peers: list[:MaxPeers:MaxPeers]}}, MaxFiles)}
	for _, m := range []Msg{
		Reserve{First: math.MaxUint64 - MaxPlaces, Count: MaxPlaces, Tenant: name,
			Demand: Demand{math.MaxInt32, math.MaxInt32}},
		Bind{Res: math.MaxUint64 - 1, Launch: launch},
		Welcome{Worker: name, Cache: name, Labels: list, Functions: list},
		Rejected{Reason: strings.Repeat("x", MaxText)},
		Reserve{First: 1, Count: MaxPlaces, Launches: make([]Launch, MaxPlaces)},
		Refused{Reason: Unknown}, // of an attempt, not of places
	} {
		if _, got, err := new(Decoder).Decode(bodyOf(1, m), nil); err != nil || !reflect.DeepEqual(got, []Msg{m}) {
			t.Errorf("%T: %v", m, err)
		}
	}
	if n := len(bodyOf(math.MaxUint64, Hello{Dialect{math.MaxUint32, math.MaxUint32, math.MaxUint64}, name,
		math.MaxUint64, name, math.MaxUint64, math.MaxInt64})); n > MaxHello {
		t.Errorf("a Hello can have %d bytes", n)
	}
	if _, got, err := new(Decoder).Decode(append([]byte{1}, bytes.Repeat(AppendMsg(nil, Drain{}), MaxMsgs)...),
		nil); err != nil || len(got) != MaxMsgs {
		t.Errorf("%d messages: %v", len(got), err)
	}
	full := FullFrame + len(AppendMsg(nil, Enqueue{Tenant: name, Launch: launch}))
	if full += 100; full > MaxFrame { // 100: the longest numbers
		t.Errorf("a frame that was not full can grow to %d bytes", full)
	}
}

// AppendMsg mends a sender's mistakes, such as negative durations and long texts, instead of sending them.
func TestMended(t *testing.T) {
	for _, c := range []struct{ m, want Msg }{
		{Ready{Res: 1, Waited: -1, Expiry: math.MinInt64}, Ready{Res: 1}},
		{Load{Free: Demand{-500, math.MinInt32}}, Load{}},
		{Rejected{Reason: strings.Repeat("é", MaxText)}, Rejected{Reason: strings.Repeat("é", MaxText/2)}},
		{Rejected{Reason: "x" + strings.Repeat("é", MaxText)},
			Rejected{Reason: "x" + strings.Repeat("é", MaxText/2-1)}},
		{
			&Finished{Status: Failed, Error: strings.Repeat("\x80", MaxText+1)},
			&Finished{Status: Failed, Error: strings.Repeat("\x80", MaxText-4)},
		},
	} {
		if _, got, err := new(Decoder).Decode(bodyOf(1, c.m), nil); err != nil ||
			!reflect.DeepEqual(got, []Msg{c.want}) {
			t.Errorf("%T: %v", c.m, err)
		}
	}
}

type foreignMsg struct{ Msg }

func TestUnknownMessagePanics(t *testing.T) {
	for _, m := range []Msg{nil, foreignMsg{}, &Ping{}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%T was encoded", m)
				}
			}()
			AppendMsg(nil, m)
		}()
	}
}

func TestFrames(t *testing.T) {
	// An outbox puts several frames into a buffer, on both sides of the link.
	for _, push := range []bool{false, true} {
		begin, header := BeginFrame, FrameHeader
		if push {
			begin, header = BeginPush, PushHeader
		}
		b := []byte("before")
		for i := range 3 {
			var start int
			b, start = begin(b, Epoch(i))
			b = AppendMsg(b, Ping{Seq: uint64(i)})
			b = EndFrame(b, start)
		}
		b = b[len("before"):]
		var d Decoder
		for i := range 3 {
			if push && binary.LittleEndian.Uint32(b) != 0 {
				t.Fatalf("request id in %x", b)
			}
			n, err := BodySize(b[header-FrameHeader:], MaxFrame)
			if err != nil {
				t.Fatal(err)
			}
			e, msgs, err := d.Decode(b[header:header+n], nil)
			if err != nil || e != Epoch(i) || len(msgs) != 1 || msgs[0] != (Ping{Seq: uint64(i)}) {
				t.Fatalf("frame %d: epoch %d, %v, %v", i, e, msgs, err)
			}
			b = b[header+n:]
		}
		if len(b) != 0 {
			t.Errorf("%d bytes left", len(b))
		}
	}

	for size, ok := range map[uint32]bool{0: false, 1: true, MaxHello: true, MaxHello + 1: false,
		math.MaxUint32: false} {
		n, err := BodySize(binary.LittleEndian.AppendUint32(nil, size), MaxHello)
		if ok != (err == nil) || ok && n != int(size) {
			t.Errorf("size %d: %d, %v", size, n, err)
		}
	}

	defer func() {
		if recover() == nil {
			t.Error("EndFrame let an oversized frame pass")
		}
	}()
	b, start := BeginFrame(make([]byte, 0, MaxFrame+64), 1)
	EndFrame(b[:start+MaxFrame+1], start)
}

// Repeated names are decoded to the same string, however many names pass in between.
func TestNames(t *testing.T) {
	var d Decoder
	for i := range 10 * maxNames {
		m := Reserve{First: 1, Count: 1, Tenant: fmt.Sprint("tenant ", i)}
		if _, got, err := d.Decode(bodyOf(1, m), nil); err != nil || !reflect.DeepEqual(got[0], m) {
			t.Fatal(got, err)
		}
		if len(d.names.known) > maxNames {
			t.Fatalf("%d names kept", len(d.names.known))
		}
	}
	b := bodyOf(1, Bind{Res: 1, Launch: Launch{Function: "sleep"}})
	msgs := make([]Msg, 0, 1)
	if n := testing.AllocsPerRun(100, func() { _, msgs, _ = d.Decode(b, msgs[:0]) }); n > 1 {
		t.Errorf("%v allocations for a Bind, want one: its own", n)
	}
}

func TestPayloadAliasesBody(t *testing.T) {
	b := bodyOf(1, Bind{Res: 1, Launch: Launch{Payload: []byte("payload")}}, Ping{Seq: 1})
	_, msgs, err := new(Decoder).Decode(b, nil)
	if err != nil {
		t.Fatal(err)
	}
	p := msgs[0].(Bind).Launch.Payload
	if i := bytes.Index(b, p); &b[i] != &p[0] {
		t.Error("the payload was copied")
	}
	if cap(p) != len(p) {
		t.Error("an append to the payload would overwrite what follows it")
	}
}

// Frames of a few bytes that claim great lengths must not allocate much.
func TestLengthBombs(t *testing.T) {
	huge := []uint64{2, MaxList, MaxPlaces, MaxString, MaxText, MaxBlob, MaxFrame, math.MaxInt32, math.MaxUint32,
		math.MaxInt64, math.MaxUint64}
	var bombs [][]byte
	for _, m := range golden {
		whole := bodyOf(1, m)
		for at := range whole { // put a great number in place of each byte
			for _, n := range huge {
				bombs = append(bombs, binary.AppendUvarint(bytes.Clone(whole[:at]), n))
				bombs = append(bombs, append(binary.AppendUvarint(bytes.Clone(whole[:at]), n), whole[at+1:]...))
			}
		}
	}
	// The densest good frames: the most memory for each byte.
	for _, m := range sampleMsgs {
		one := AppendMsg(nil, m)
		bombs = append(bombs, append([]byte{1}, bytes.Repeat(one, 20_000/len(one))...))
	}
	for _, m := range []Msg{Drain{}, Ping{}, Decline{Res: 1}, Gone{}, Load{}, Pong{Load: Load{Matrix: &WaitMatrix{}}}} {
		one := AppendMsg(nil, m)
		bombs = append(bombs, append([]byte{1}, bytes.Repeat(one, 4<<20/len(one))...))
	}
	bombs = append(bombs, bodyOf(1, Sync{Live: slices.Repeat([]Range{{1, 1}}, 1<<20)}))
	bombs = append(bombs, bodyOf(1, Reserve{First: 1, Count: MaxPlaces, Launches: make([]Launch, MaxPlaces)}))

	costs := func(b []byte) uint64 {
		var before, after runtime.MemStats
		var d Decoder
		runtime.ReadMemStats(&before)
		d.Decode(b, nil)
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc
	}
	for _, b := range bombs {
		most := uint64(100*len(b) + 4096)
		if len(b) > 2<<20 {
			most = uint64(10 * len(b))
		}
		bytes := costs(b)
		for try := 0; bytes > most && try < 3; try++ { // the runtime itself allocates now and then
			bytes = min(bytes, costs(b))
		}
		if bytes > most {
			t.Fatalf("%d bytes allocated for a body of %d: %x", bytes, len(b), b[:min(len(b), 64)])
		}
	}
}

// This release reads the encodings of every version that it speaks.
func TestCorpora(t *testing.T) {
	var examples []corpus.Example
	for _, m := range golden {
		for v, i := reflect.Indirect(reflect.ValueOf(m)), 0; i < v.NumField(); i++ {
			if v.Field(i).IsZero() {
				t.Errorf("%T.%s is zero in the corpus", m, v.Type().Field(i).Name)
			}
		}
		examples = append(examples, corpus.Example{Name: m.wireKind().String(), Msg: m, Wire: AppendMsg(nil, m),
			Decode: func(b []byte) (any, error) {
				_, msgs, err := new(Decoder).Decode(append([]byte{1}, b...), nil)
				if err != nil {
					return nil, err
				}
				return msgs[0], nil
			}})
	}
	for _, m := range sampleMsgs {
		if !slices.ContainsFunc(golden, func(g Msg) bool { return g.wireKind() == m.wireKind() }) {
			t.Errorf("no %T in the corpus", m)
		}
	}
	frame, start := BeginPush(nil, 300)
	msgs := []Msg{Ping{Seq: 7}, Drain{}}
	for _, m := range msgs {
		frame = AppendMsg(frame, m)
	}
	examples = append(examples, corpus.Example{Name: "frame", Msg: msgs, Wire: EndFrame(frame, start),
		Decode: func(b []byte) (any, error) {
			_, msgs, err := new(Decoder).Decode(b[PushHeader:], nil)
			return msgs, err
		}})
	corpus.Check(t, MinVersion, Version, examples)
}

var (
	goldenJob = JobID{0x01, 0x56, 0x3e, 0x3a, 0xb5, 0xd3, 0xd6, 0x76, 0x4c, 0x61, 0xef, 0xb9, 0x93, 0x02, 0xbd,
		0x5b}
	goldenAttempt = AttemptID{Frontend: 0x0123456789abcdef, Seq: 42}
	goldenLaunch  = Launch{
		Attempt: goldenAttempt, Task: 3, Function: "sleep", Payload: []byte("10ms"),
		Estimate: 10 * time.Millisecond, Timeout: time.Second, Deadline: time.Minute, Context: goldenContext,
	}
	goldenLong = Launch{
		Attempt: goldenAttempt, Task: 4, Function: "sleep", Timeout: 2 * time.Hour,
		Files: []File{{Digest: [32]byte{0xaa, 31: 0xbb}, URL: "http://store/part", Bytes: 1 << 30,
			Peers: []string{"h2:80"}}, {}},
	}
	goldenContext = &Context{
		Stage: "join", Partition: 2, Attempt: 3, Trace: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
		Common: 4, Inline: 1 << 16, Large: true,
		Inputs: []Passed{
			{Stage: "scan", Task: 6, Output: Output{Partition: 7, Bytes: 3, Data: []byte("row")}},
			{Stage: "scan", Task: 8, Output: Output{Partition: 7, Bytes: 1 << 30, File: true,
				Digest: [32]byte{0xcc}}, Peers: []string{"h3:80"}},
		},
	}
	goldenLoad = Load{Seq: 5, Free: Demand{3000, 768}, Queued: 6, Running: 7}
	goldenFull = Load{Seq: 6, Free: Demand{3000, 768}, Queued: 6, Running: 7, Matrix: &goldenWaits}
	// A task of the smallest step of memory waits 100 us, all larger tasks 200 us.
	goldenWaits = func() WaitMatrix {
		m := WaitMatrix{Capacity: Demand{7000, 896}}
		for i := range m.Cells {
			for j := range m.Cells[i] {
				m.Cells[i][j] = Wait(min(j, 1) + 1)
			}
			m.Short[i] = 1
		}
		m.Shares.Others = 64 << 8
		m.Shares.Set(CodeOf("ads/etl"), 1<<8)
		m.Shares.Set(CodeOf("web"), 0)
		return m
	}()

	// golden has every message, and each field has a value other than zero.
	golden = []Msg{
		Hello{
			Speaks: Dialect{6, 6, 3}, Secret: "secret", Frontend: 0x0123456789abcdef, Name: "front", Epoch: 9,
			Lease: 3 * time.Second,
		},
		Reserve{
			First: 100, Count: 2, Job: goldenJob, Tenant: "etl", Priority: -1, Demand: Slot,
			Estimate: 10 * time.Millisecond, Typical: 9 * time.Millisecond, Early: true, Bundle: 7,
			Launches: []Launch{goldenLaunch}, Generation: 5, Weights: []uint32{300, 2},
			Standing: Standing{Class: Spare, Due: time.Minute, Left: time.Second, Age: time.Hour}, Guarded: true,
		},
		Bind{Res: 100, Turn: 1, Keep: true, Job: goldenJob, Generation: 6, Launch: goldenLaunch,
			Bundle: []Launch{goldenLaunch}},
		Decline{Res: 101, Turn: 2},
		Enqueue{Res: 102, Job: goldenJob, Tenant: "etl", Priority: 5, Demand: Slot, Long: true, Matrix: true,
			Launch: goldenLong, Generation: 7, Weights: []uint32{1}, Standing: Standing{Yielded, 1, 2, 3},
			Guarded: true},
		Cancel{First: 100, Count: 3, Answer: true},
		Kill{Attempt: goldenAttempt, Res: 100, Turn: 1},
		Claim{Job: goldenJob, Attempt: goldenAttempt, Generation: 8, Tenant: "etl", HasTenant: true},
		Ack{Attempts: []AttemptID{goldenAttempt, {Frontend: 1, Seq: 1}}, Disowned: true},
		Sync{Next: 103, Live: []Range{{1, 2}, {9, 1}}, Attempts: []AttemptID{goldenAttempt}},
		Ping{Seq: 11, Matrix: true},
		Probe{Seq: 12, Matrix: true, Asker: &Asker{
			Tenant: "ads/etl", Priority: 5, Demand: Demand{CPU: 1500, Mem: 300}, Long: true,
			Standing: Standing{Class: Spare, Due: 1, Left: 2, Age: 3},
		}},
		Welcome{
			Speaks: Dialect{6, 7, 5}, Epoch: 9, Worker: "w1", Incarnation: 0xfedcba9876543210, Host: "rack1-host1",
			Rack:     "rack1",
			Capacity: Demand{8000, 16384}, Open: Demand{7000, 14336}, Labels: []string{"gpu=no"},
			Functions:  []string{"echo", "sleep"},
			MaxPayload: 1 << 20, MaxResult: 1 << 21, Speed: 1500, Cache: "h1:81", Draining: true,
		},
		Rejected{Reason: "wrong secret"},
		Queued{First: 100, Count: 2, Ahead: 4, Load: goldenLoad, Wait: 3 * time.Second},
		Started{Attempt: goldenAttempt, Res: 100, Job: goldenJob, Task: 3, Ran: time.Millisecond, Load: goldenLoad},
		Ready{
			Res: 100, Turn: 1, Waited: 20 * time.Millisecond, Expiry: time.Second, Early: time.Microsecond,
			Load: goldenLoad,
		},
		&Finished{
			Attempt: goldenAttempt, Job: goldenJob, Task: 3, Status: Failed, Result: []byte("out"),
			Error: "exit code 1", Waited: 1, Held: 2, Launch: 3, Run: 4, Kept: 5,
			Usage: Usage{CPU: 6, Memory: 300, Fetched: 8, Fetch: 9}, Load: goldenLoad,
			Waits: Waits{Own: 5, Others: 4, Long: 3, Closed: 2, Idle: 1},
			Code:  "no_table", Detail: []byte{1}, Retry: Never,
			Outputs: []Output{{Partition: 7, Bytes: 1 << 30, File: true, Digest: [32]byte{0xcc}},
				{Bytes: 1, Data: []byte("x")}},
			DiskFailed: true,
		},
		Refused{
			First: 100, Count: 2, Attempt: goldenAttempt, Reason: QueueFull, RetryAfter: 50 * time.Millisecond,
			Load: goldenLoad, Knows: time.Second,
		},
		Evicted{First: 100, Count: 2, Reason: Leaving},
		Gone{Places: []Range{{1, 2}}, Attempts: []AttemptID{goldenAttempt}},
		goldenFull,
		Drain{},
		Pong{Seq: 11, Load: goldenLoad, Expect: []Expect{{goldenAttempt, time.Second}},
			Progress: []Progress{{goldenAttempt, 250_000, time.Minute}}, Pace: 1500,
			Uses: []Use{{goldenAttempt, 3 * time.Second, 2 * time.Second, 400}}},
		Claimed{Job: goldenJob, Generation: 8, Count: 8, Knows: time.Second, Moved: true},
		Common{Job: goldenJob, Number: 4, Payload: []byte("plan")},
		Forget{Job: goldenJob},
		Restamp{Res: 104, Standing: Standing{Spare, 3, 4, 0}, Attempt: goldenAttempt},
		Away{Drain: true, In: time.Minute, Lasts: time.Hour},
		Cache{Problem: "full"},
	}
)

func FuzzDecode(f *testing.F) {
	f.Add(bodyOf(1, golden...))
	for _, m := range golden {
		f.Add(bodyOf(300, m))
		f.Add(bodyOf(300, m, m))
	}
	for _, m := range golden {
		fields := AppendMsg(nil, m)[msgHeader:]
		f.Add(rawMsg(rawMsg([]byte{1}, 255, fields...), m.wireKind(), append(fields, fields...)...))
		f.Add(rawBody(m.wireKind(), fields[:len(fields)/2]...))
	}
	f.Add([]byte{})
	bad, _ := hex.DecodeString("01ffffffffffffffffff7f")
	f.Add(bad)
	f.Fuzz(func(t *testing.T, data []byte) {
		var d Decoder
		epoch, msgs, err := d.Decode(data, nil)
		if err != nil {
			var e *DecodeError
			if !errors.As(err, &e) || e.Field == "" || e.Problem == "" || e.Offset < 0 || e.Offset > len(data) ||
				len(msgs) != 0 {
				t.Fatalf("%#v with %d messages", err, len(msgs))
			}
			return
		}
		b := bodyOf(epoch, msgs...)
		epoch2, again, err := d.Decode(b, nil)
		if err != nil || epoch2 != epoch || !reflect.DeepEqual(msgs, again) {
			t.Fatalf("epoch %d, %v\n%#v\nbecame epoch %d\n%#v", epoch, err, msgs, epoch2, again)
		}
	})
}

// The benchmarks encode and decode the messages of a short task on the late-binding path, in batches as under load.
func BenchmarkAppend(b *testing.B) { benchmark(b, benchAppend) }
func BenchmarkDecode(b *testing.B) { benchmark(b, benchDecode) }

func benchmark(b *testing.B, run func(*testing.B, []Msg)) {
	launch := goldenLaunch
	launch.Context = nil
	launch.Payload = make([]byte, 128)
	load := Load{Free: Demand{3000, 768}, Queued: 6, Running: 7}
	for _, m := range []Msg{
		Reserve{
			First: 1 << 20, Count: 1, Job: goldenJob, Tenant: "etl", Demand: Slot, Estimate: 10 * time.Millisecond,
			Launches: []Launch{launch},
		},
		Ready{Res: 1 << 20, Waited: 20 * time.Millisecond, Expiry: time.Second, Load: load},
		Bind{Res: 1 << 20, Launch: launch},
		&Finished{
			Attempt: goldenAttempt, Job: goldenJob, Task: 3, Status: Succeeded, Result: make([]byte, 128),
			Waited: 20_000_000, Held: 50_000, Launch: 20_000, Run: 10_000_000, Kept: 1000, Load: load,
		},
		Cancel{First: 1 << 20, Count: 1},
	} {
		b.Run(m.wireKind().String(), func(b *testing.B) {
			b.ReportAllocs()
			run(b, slices.Repeat([]Msg{m}, 32))
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/32, "ns/msg")
		})
	}
}

func benchAppend(b *testing.B, msgs []Msg) {
	var buf []byte
	for b.Loop() {
		var start int
		buf, start = BeginFrame(buf[:0], 1)
		for _, m := range msgs {
			buf = AppendMsg(buf, m)
		}
		buf = EndFrame(buf, start)
	}
}

func benchDecode(b *testing.B, msgs []Msg) {
	frame := bodyOf(1, msgs...)
	var d Decoder
	var out []Msg
	for b.Loop() {
		var err error
		if _, out, err = d.Decode(frame, out[:0]); err != nil {
			b.Fatal(err)
		}
	}
}

// AppendMsg does not move the sender's message to the heap.
func TestAppendDoesNotAllocate(t *testing.T) {
	buf := make([]byte, 0, 4096)
	seq := uint64(1 << 40)
	n := testing.AllocsPerRun(100, func() {
		seq++
		b, start := BeginPush(buf[:0], 1)
		b = AppendMsg(b, Ready{Res: ResID(seq), Load: goldenLoad})
		b = AppendMsg(b, &Finished{Attempt: AttemptID{1, seq}, Job: goldenJob, Status: Succeeded})
		b = AppendMsg(b, Bind{Res: ResID(seq), Launch: goldenLaunch})
		EndFrame(b, start)
	})
	if n != 0 {
		t.Errorf("%v allocations for three messages", n)
	}
}

// Decoded messages keep their values until Reuse.
func TestDecoderReuse(t *testing.T) {
	var d Decoder
	var msgs []Msg
	for i := range uint64(2000) {
		body := AppendMsg([]byte{1}, &Finished{Attempt: AttemptID{1, i}, Status: Succeeded})
		body = AppendMsg(body, Bind{Res: 1, Bundle: []Launch{{Task: 1}, {Task: TaskIndex(i)}}})
		var err error
		if _, msgs, err = d.Decode(body, msgs); err != nil {
			t.Fatal(err)
		}
	}
	for i, m := range msgs {
		switch m := m.(type) {
		case *Finished:
			if m.Attempt.Seq != uint64(i/2) {
				t.Fatalf("result %d became %d", i/2, m.Attempt.Seq)
			}
		case Bind:
			if m.Bundle[0].Task != 1 || m.Bundle[1].Task != TaskIndex(i/2) {
				t.Fatalf("bundle %d became %+v", i/2, m.Bundle)
			}
		}
	}
	d.Reuse()
	frame := AppendMsg([]byte{1}, &Finished{Attempt: AttemptID{1, 1}, Status: Succeeded})
	frame = AppendMsg(frame, Ack{})
	n := testing.AllocsPerRun(100, func() {
		if _, msgs, _ = d.Decode(frame, msgs[:0]); len(msgs) != 2 {
			t.Fatal(msgs)
		}
		d.Reuse()
	})
	if n > 2 {
		t.Errorf("%v allocations", n)
	}
}
