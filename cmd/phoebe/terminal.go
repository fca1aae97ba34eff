package main

import (
	"fmt"
	"io"
	"reflect"
	"strings"
	"unicode"
	"unicode/utf8"
)

// safeWriter writes text that may come from other processes, such as names and errors. Control characters other than
// newline and tab become escapes, so that no text commands the terminal. The escapes are also valid in JSON.
type safeWriter struct{ to io.Writer }

// Write implements io.Writer. p ends with a whole rune.
func (w safeWriter) Write(p []byte) (int, error) {
	if _, err := io.WriteString(w.to, escapeControls(string(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}

// escapeControls replaces bytes outside UTF-8, control characters, and characters that turn the direction of writing.
func escapeControls(s string) string {
	isControl := func(r rune) bool {
		return unicode.IsControl(r) && r != '\n' && r != '\t' || unicode.Is(unicode.Bidi_Control, r)
	}
	if utf8.ValidString(s) && strings.IndexFunc(s, isControl) < 0 {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, s[0])
		case isControl(r):
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteString(s[:n])
		}
		s = s[n:]
	}
	return b.String()
}

// quoteStrings quotes all strings in the slices, structs and pointers below v that have unprintable characters: a name
// with a newline would add a line to a table.
func quoteStrings(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(quoteUnprintable([]byte(v.String())))
	case reflect.Pointer:
		if !v.IsNil() {
			quoteStrings(v.Elem())
		}
	case reflect.Slice:
		for i := range v.Len() {
			quoteStrings(v.Index(i))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			quoteStrings(v.Field(i))
		}
	}
}
