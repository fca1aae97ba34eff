// Package early keeps what libraries log before main. Go initializes the packages that are ready in the order of their
// paths, so this package imports the standard library alone, and comes before the libraries of "github.com/valyala".
// VictoriaMetrics/metrics imports two of them, and logs a line as it starts on a machine without pressure stall
// information. On such a machine every command would print the line.
package early

import (
	"bytes"
	"log"
	"strings"
)

var lines bytes.Buffer

func init() {
	log.SetFlags(0)
	log.SetOutput(&lines)
}

// TakeLines returns the lines logged so far, and forgets them. The caller has given package log another writer before.
func TakeLines() []string {
	found := strings.FieldsFunc(lines.String(), func(r rune) bool { return r == '\n' })
	lines.Reset()
	return found
}
