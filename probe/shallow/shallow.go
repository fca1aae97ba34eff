// Package shallow parses YAML and JSON of bounded nesting. The parser of goccy/go-yaml calls itself for each level,
// and each node keeps its path. So a small file of many brackets would take all memory.
package shallow

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/scanner"
	"github.com/goccy/go-yaml/token"
)

// MaxLevels bounds the nesting of a text, and the number of its documents. The files of phoebe need fewer than 10
// levels and one document.
const MaxLevels = 100

// maxMarks bounds the brackets, commas, quotes and other marks of a text. The scanner reads the whole text at once,
// and makes tokens of 250 bytes, at most two for each mark. A job file with 300,000 listed tasks has fewer marks.
const maxMarks = 1 << 21

// countMarks counts the characters that may begin or end a token. Marks inside of quotes count, too.
func countMarks(text []byte) int {
	n := bytes.Count(text, []byte("\n..."))
	for _, mark := range []byte("[]{},:-?&*!|>#'\"%<@`") {
		n += bytes.Count(text, []byte{mark})
	}
	return n
}

// Parse parses text. Some editors begin a text with a byte order mark, which Parse skips.
func Parse(text []byte) (*ast.File, error) {
	if countMarks(text) > maxMarks {
		return nil, fmt.Errorf("the text has more than %d brackets, commas, quotes and other marks: list less, or "+
			"give a job long payloads as payload-base64", maxMarks)
	}
	var s scanner.Scanner
	s.Init(string(bytes.TrimPrefix(text, []byte("\ufeff"))))
	var tokens token.Tokens
	var n nesting
	for {
		found, err := s.Scan()
		if errors.Is(err, io.EOF) {
			return parser.Parse(tokens, 0)
		}
		tokens.Add(found...) // if err is not nil, the last token has the error, and the parser reports the error
		for _, t := range found {
			n.note(t)
			next := t.Next
			t.Next = nil // an error quotes the tokens around its own, and must not quote the rest
			if len(n.open)+n.tags > MaxLevels {
				return nil, &yaml.SyntaxError{Token: t, Message: fmt.Sprintf(
					"the text is nested more than %d levels deep: nest less, or quote brackets that are text", MaxLevels)}
			}
			if n.documents > MaxLevels {
				return nil, &yaml.SyntaxError{Token: t, Message: fmt.Sprintf(
					"more than %d documents: write a single document", MaxLevels)}
			}
			t.Next = next
		}
	}
}

// nesting follows the levels of a text from token to token.
type nesting struct {
	open      []int // for each open level: 0 for a bracket, or else the column of a list entry or key
	tags      int   // tags and anchors in a row, each a level of the parser
	documents int
	last      *token.Token // the last token other than a comment
}

// note takes the next token.
func (n *nesting) note(t *token.Token) {
	if t.Type == token.CommentType {
		return
	}
	last := n.last
	n.last = t
	switch t.Type {
	case token.TagType, token.AnchorType:
		n.tags++
		return
	case token.SequenceStartType, token.MappingStartType:
		n.open = append(n.open, 0)
	case token.CollectEntryType, token.SequenceEndType, token.MappingEndType:
		n.closeFrom(1)
		if t.Type != token.CollectEntryType && len(n.open) > 0 {
			n.open = n.open[:len(n.open)-1]
		}
	case token.SequenceEntryType, token.MappingKeyType:
		n.enter(t.Position.Column)
	case token.MappingValueType:
		if last != nil {
			t = last // the key
		}
		n.enter(t.Position.Column)
	case token.DocumentHeaderType, token.DocumentEndType:
		n.open = n.open[:0]
		n.documents++
	}
	if last == nil || last.Type != token.AnchorType { // after an anchor comes its name
		n.tags = 0
	}
}

// enter opens the level of a list entry or key at column. The entry or key ends levels that began there or further
// right, up to the innermost bracket.
func (n *nesting) enter(column int) {
	n.closeFrom(column)
	n.open = append(n.open, column)
}

// closeFrom ends levels from column on, up to the innermost bracket.
func (n *nesting) closeFrom(column int) {
	for len(n.open) > 0 && n.open[len(n.open)-1] >= column {
		n.open = n.open[:len(n.open)-1]
	}
}
