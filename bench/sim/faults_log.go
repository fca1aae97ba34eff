package sim

import (
	"fmt"
	"reflect"
	"slices"

	"github.com/phoebe-sched/phoebe/frontend"
	"github.com/phoebe-sched/phoebe/probe"
	"github.com/phoebe-sched/phoebe/worker"
)

// describeStep returns an event or action in one line, or "" for an uninteresting event.
func describeStep(x any) string {
	var m any = x
	switch x := x.(type) {
	case frontend.Frame:
		if len(x.Msgs) == 1 {
			m = x.Msgs[0]
		}
	case frontend.Send:
		m = x.Msg
	case worker.Received:
		m = x.Msg
	case *worker.Send:
		m = x.Msg
	}
	m = valueOf(m)
	switch m.(type) {
	case probe.Ping, probe.Pong, frontend.Wake, worker.Wake, frontend.Submit: // the client logs the submission
		return ""
	}
	to := ""
	switch x := x.(type) {
	case frontend.Frame:
		to = fmt.Sprintf("from w%d: ", x.Worker)
	case frontend.Send:
		to = fmt.Sprintf("to w%d: ", x.Worker)
	case worker.Received:
		to = fmt.Sprintf("from link %d: ", x.Link)
	case *worker.Send:
		to = fmt.Sprintf("to link %d: ", x.Link)
	}
	m, waits := withoutMatrix(shortenPayloads(m))
	s := fmt.Sprintf("%s%T %+v%s", to, m, m, waits)
	if len(s) > 600 {
		s = s[:600] + "…"
	}
	return s
}

// valueOf returns the value of a message, event or action behind a pointer, and the values of the messages in a
// frame.
func valueOf(m any) any {
	if v := reflect.ValueOf(m); v.Kind() == reflect.Pointer {
		m = v.Elem().Interface()
	}
	if f, ok := m.(frontend.Frame); ok {
		msgs := make([]any, len(f.Msgs))
		for i := range f.Msgs {
			msgs[i] = valueOf(f.Msgs[i])
		}
		return msgs
	}
	return m
}

// shortenPayloads returns a message with only the beginning of its payloads.
func shortenPayloads(m any) any {
	cut := func(launches ...probe.Launch) []probe.Launch {
		launches = slices.Clone(launches)
		for i := range launches {
			launches[i].Payload = launches[i].Payload[:min(len(launches[i].Payload), 16)]
		}
		return launches
	}
	switch m := m.(type) {
	case probe.Reserve:
		m.Launches = cut(m.Launches...)
		return m
	case probe.Bind:
		m.Launch, m.Bundle = cut(m.Launch)[0], cut(m.Bundle...)
		return m
	case probe.Enqueue:
		m.Launch = cut(m.Launch)[0]
		return m
	case worker.Start:
		m.Launch = cut(m.Launch)[0]
		return m
	}
	return m
}

// withoutMatrix returns a message or event without the wait matrix, and a text with the waits for one slot and
// for the whole worker.
func withoutMatrix(m any) (any, string) {
	v := reflect.New(reflect.TypeOf(m)).Elem()
	v.Set(reflect.ValueOf(m))
	if v.Kind() != reflect.Struct {
		return m, ""
	}
	at := v
	if load := v.FieldByName("Load"); load.IsValid() && load.Kind() == reflect.Struct {
		at = load
	}
	f := at.FieldByName("Matrix")
	if !f.IsValid() || f.Kind() != reflect.Pointer || f.IsNil() {
		return m, ""
	}
	matrix := f.Interface().(*probe.WaitMatrix)
	f.SetZero()
	return v.Interface(), fmt.Sprintf(" waits %v to %v", matrix.Cells[0][0].Duration(),
		matrix.Cells[probe.MatrixSide-1][probe.MatrixSide-1].Duration())
}
