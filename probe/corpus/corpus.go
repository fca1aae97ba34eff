// Package corpus compares encodings with examples from the first release of each version. Only tests use it.
package corpus

import (
	"bytes"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
)

var updateCorpus = flag.Bool("update", false, "write the corpus of the newest version, if there is none")

// Example is a message in its present encoding. No field of Msg is zero, unless two fields exclude each other.
type Example struct {
	Name   string
	Msg    any
	Wire   []byte
	Decode func([]byte) (any, error)
}

// Check compares the examples with testdata/wire-VERSION.txt, for all versions from oldest to newest. The newest
// encoding must not change, and the decoder must understand the older encodings.
func Check(t *testing.T, oldest, newest uint32, examples []Example) {
	t.Helper()
	var current strings.Builder
	byName := map[string]*Example{}
	for i := range examples {
		e := &examples[i]
		byName[e.Name] = e
		fmt.Fprintf(&current, "%s %x\n", e.Name, e.Wire)
	}
	for v := oldest; v <= newest; v++ {
		file := fmt.Sprintf("testdata/wire-%d.txt", v)
		stored, err := os.ReadFile(file)
		if *updateCorpus && v == newest && os.IsNotExist(err) {
			stored, err = []byte(current.String()), os.WriteFile(file, []byte(current.String()), 0o644)
		}
		if err != nil {
			t.Fatalf("%v: write the corpus of a new version with -update", err)
		}
		if v == newest && current.String() != string(stored) {
			t.Errorf(`what is written has changed, and the version is still %d.
If a release speaks it: append fields, read them only if there are more, raise Version, keep %s, and run with -update.
If none does: remove %s and run with -update. See probe/doc.go.
%s
is not
%s`, v, file, file, current.String(), stored)
			continue
		}
		for line := range strings.Lines(string(stored)) {
			name, text, _ := strings.Cut(strings.TrimSpace(line), " ")
			wire, err := hex.DecodeString(text)
			e := byName[name]
			if err != nil || e == nil {
				t.Errorf("%s: %q: there is no such example (any more): %v", file, name, err)
				continue
			}
			got, err := e.Decode(bytes.Clone(wire))
			if err != nil {
				t.Errorf("%s of version %d cannot be read any more: %v", name, v, err)
			} else if !agreesWith(reflect.ValueOf(got), reflect.ValueOf(e.Msg), v < newest) {
				t.Errorf("%s of version %d is read as\n%+v, want\n%+v", name, v, got, e.Msg)
			}
		}
	}
}

// agreesWith reports whether got equals want. If older, fields of got may be zero, because an older version may
// lack them.
func agreesWith(got, want reflect.Value, older bool) bool {
	if older && got.IsZero() {
		return true
	}
	switch got.Kind() {
	case reflect.Interface, reflect.Pointer:
		if got.IsNil() || want.IsNil() {
			return got.IsNil() && want.IsNil()
		}
		return agreesWith(got.Elem(), want.Elem(), older)
	case reflect.Struct:
		if got.Type() != want.Type() {
			return false
		}
		for i := range got.NumField() {
			if !agreesWith(got.Field(i), want.Field(i), older) {
				return false
			}
		}
		return true
	case reflect.Slice:
		if got.Len() != want.Len() {
			return false
		}
		for i := range got.Len() {
			if !agreesWith(got.Index(i), want.Index(i), older) {
				return false
			}
		}
		return true
	}
	return got.Equal(want)
}
