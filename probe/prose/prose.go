// Package prose measures how comments, names and documents read. Its test keeps each folder below a ceiling. The
// counts find the worst places. A reader still decides: a sentence may read well with four pronouns, and badly
// without a pronoun.
package prose

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"unicode"
)

// A sentence is hard if it has more than maxWords words, at least maxPronouns pronouns, or three pronouns among fewer
// than wordsPerPronoun words each.
const (
	maxWords        = 28
	maxPronouns     = 4
	wordsPerPronoun = 8
	minWords        = 4 // shorter pieces are headings or labels, and are not counted
)

// Columns of a line, with tabs of tabWidth, beyond which the line is long.
const (
	maxGoColumns       = 120
	maxMarkdownColumns = 110
	tabWidth           = 4
)

var (
	pronoun = regexp.MustCompile(`(?i)\b(it|its|they|them|their|those|these|this|that|which|what|who|whom|whose|` +
		`one|ones|such|others?|none|neither|nobody|whoever|whatever|both)\b`)
	clot = regexp.MustCompile(`(?i)\b(is|are|was|were) (what|how|where|when|who|those|of)\b|\bso (many|much|long)\b|` +
		`\bof (it|them|those|which|one|these)\b|\b(told|known|said) of\b`)
	listed  = regexp.MustCompile(`^\s*([-*]|\d+\.) `)
	table   = regexp.MustCompile(`^\s*[#|] `)
	fenced  = regexp.MustCompile("(?s)(```|~~~).*?(```|~~~)")
	pragma  = regexp.MustCompile(`^//(go:|nolint|line )`)
	flagged = regexp.MustCompile(`help:"((?:[^"\\]|\\.)*)"|(?:Errorf|errors\.New)\("((?:[^"\\]|\\.)*)"`)
)

// Finding is a sentence, name or line to improve.
type Finding struct {
	File   string // from the root
	Line   int
	Kind   Kind
	Text   string
	Remedy string
}

func (f Finding) String() string {
	return fmt.Sprintf("%s:%d: %s: %s", f.File, f.Line, f.Remedy, f.Text)
}

// Kind says why a Finding was reported.
type Kind int

// The kinds of findings.
const (
	Hard    Kind = iota // a hard sentence
	Clotted             // a sentence with a phrase that model code bases hardly use (see clot)
	OneWord             // an unexported function or method whose name is one word
	Long                // a long line
	Kinds
)

// Count sums up a folder or a document.
type Count struct {
	Sentences, Words, Pronouns int
	Functions, Lines           int // unexported functions; lines
	Findings                   []Finding
}

// CountOf returns the number of findings of a kind.
func (c *Count) CountOf(kind Kind) (n int) {
	for i := range c.Findings {
		if c.Findings[i].Kind == kind {
			n++
		}
	}
	return n
}

// addSentence counts a sentence, unless it is too short to be one.
func (c *Count) addSentence(file string, line int, text string) {
	words := len(strings.Fields(text))
	if words < minWords {
		return
	}
	pronouns := len(pronoun.FindAllString(text, -1))
	c.Sentences++
	c.Words += words
	c.Pronouns += pronouns
	if words > maxWords || pronouns >= maxPronouns || pronouns == maxPronouns-1 && words < pronouns*wordsPerPronoun {
		c.Findings = append(c.Findings, Finding{file, line, Hard, text, "hard: split it, and name nouns again"})
	}
	if found := clot.FindString(text); found != "" {
		c.Findings = append(c.Findings, Finding{file, line, Clotted, text, fmt.Sprintf("%q: say who does what", found)})
	}
}

// addText counts the sentences of a paragraph that starts at line.
func (c *Count) addText(file string, line int, paragraph []string) {
	text := strings.Join(strings.Fields(strings.Join(paragraph, " ")), " ")
	start := 0
	for i := 0; i+2 < len(text); i++ {
		ends := strings.IndexByte(".:;!?", text[i]) >= 0 && text[i+1] == ' '
		if ends && (unicode.IsUpper(rune(text[i+2])) || strings.IndexByte("[(\"`*", text[i+2]) >= 0) {
			c.addSentence(file, line, text[start:i+1])
			start = i + 2
		}
	}
	c.addSentence(file, line, text[start:])
}

// addBlock counts the paragraphs and list items of a comment whose lines have lost their markers.
func (c *Count) addBlock(file string, line int, block []string) {
	if strings.Contains(strings.Join(block[:min(3, len(block))], " "), "Copyright") {
		return
	}
	var paragraph []string
	for _, l := range append(block, "") {
		item := listed.FindString(l)
		if strings.HasPrefix(l, "\t") || strings.TrimSpace(l) == "" || item != "" || table.MatchString(l) {
			c.addText(file, line, paragraph)
			if paragraph = nil; item != "" {
				paragraph = []string{l[len(item):]}
			}
			continue
		}
		paragraph = append(paragraph, l)
	}
}

// addComments counts comments of whole lines, which begin with marker. If behind is set, comments behind code count,
// too.
func (c *Count) addComments(file, text, marker string, behind bool) {
	var block []string
	start := 0
	for i, l := range append(strings.Split(text, "\n"), "") {
		trimmed := strings.TrimSpace(l)
		if strings.HasPrefix(trimmed, marker) && !pragma.MatchString(trimmed) {
			if block == nil {
				start = i + 1
			}
			block = append(block, strings.TrimRight(trimmed[len(marker):], " \t"))
			continue
		}
		if block != nil {
			c.addBlock(file, start, block)
			block = nil
		}
		if behind {
			c.addText(file, i+1, []string{commentBehind(l)})
		}
	}
}

// commentBehind returns the comment behind code, or "". A // inside a string starts none.
func commentBehind(line string) string {
	for at := 0; ; {
		i := strings.Index(line[at:], " // ")
		if i < 0 {
			return ""
		}
		code := line[:at+i]
		if strings.TrimSpace(code) != "" && strings.Count(code, `"`)%2 == 0 && strings.Count(code, "`")%2 == 0 {
			return line[at+i+4:]
		}
		at += i + 1
	}
}

// addMarkdown counts the paragraphs, list items and table cells of a document.
func (c *Count) addMarkdown(file, text string) {
	text = fenced.ReplaceAllStringFunc(text, func(s string) string {
		return strings.Repeat("\n", strings.Count(s, "\n"))
	})
	var paragraph []string
	start := 1
	for i, l := range append(strings.Split(text, "\n"), "") {
		item, trimmed := listed.FindString(l), strings.TrimSpace(l)
		if trimmed == "" || item != "" || strings.IndexByte("|#>", trimmed[0]) >= 0 || strings.HasPrefix(l, "    ") {
			c.addText(file, start, paragraph)
			paragraph, start = nil, i+1
			if item != "" {
				paragraph = []string{l[len(item):]}
			}
			if strings.HasPrefix(trimmed, "|") {
				for _, cell := range strings.Split(l, "|") {
					c.addText(file, i+1, []string{cell})
				}
			}
			continue
		}
		if paragraph == nil {
			start = i + 1
		}
		paragraph = append(paragraph, l)
	}
}

// addLines counts lines, and reports long lines. Rows of tables may have any length, and so may help texts in struct
// tags, which cannot be wrapped, and what a story plays.
func (c *Count) addLines(file, text string, columns int) {
	story := isStory.MatchString(file)
	for i, l := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		c.Lines++
		mayBeLong := strings.HasPrefix(l, "|") || strings.Contains(l, ` help:"`) || story && !strings.HasPrefix(l, "#")
		if n := len([]rune(expandTabs(l))); n > columns && !mayBeLong {
			remedy := fmt.Sprintf("%d columns: wrap at %d", n, columns)
			c.Findings = append(c.Findings, Finding{file, i + 1, Long, l, remedy})
		}
	}
}

func expandTabs(line string) string {
	var b strings.Builder
	column := 0
	for _, r := range line {
		if r != '\t' {
			b.WriteRune(r)
			column++
			continue
		}
		for first := true; first || column%tabWidth > 0; first = false {
			b.WriteByte(' ')
			column++
		}
	}
	return b.String()
}

// addFunctions counts unexported functions and methods, and reports one-word names.
func (c *Count) addFunctions(file string, fset *token.FileSet, f *ast.File) {
	for _, d := range f.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || fn.Name.IsExported() || fn.Name.Name == "init" || fn.Name.Name == "main" || fn.Name.Name == "_" {
			continue
		}
		c.Functions++
		if len(SplitName(fn.Name.Name)) == 1 {
			c.Findings = append(c.Findings, Finding{
				file, fset.Position(fn.Pos()).Line, OneWord, fn.Name.Name,
				"one-word name: a function is a verb and its object, a predicate asks",
			})
		}
	}
}

// SplitName returns the words of an identifier, in lower case.
func SplitName(name string) (words []string) {
	var word []rune
	runes := []rune(strings.ReplaceAll(name, "_", ""))
	for i, r := range runes {
		afterLower := i > 0 && !unicode.IsUpper(runes[i-1])
		beforeLower := i+1 < len(runes) && unicode.IsLower(runes[i+1])
		if unicode.IsUpper(r) && (afterLower || beforeLower) && len(word) > 0 {
			words, word = append(words, strings.ToLower(string(word))), nil
		}
		word = append(word, r)
	}
	return append(words, strings.ToLower(string(word)))
}

// Tree sums up a checkout by row. A row is a folder, a document, "tests" or "stories".
type Tree struct {
	Counts map[string]*Count
	Names  []Name // declared in hand-written files
}

// Name is a declared identifier.
type Name struct {
	File  string // from the root
	Line  int
	Ident string
}

// skipped matches folders with generated or foreign text, and with output of the build.
var skipped = regexp.MustCompile(`(^|/)(\.git|gen|dist|node_modules|out|bin|\.[^/]*)$`)

var isStory = regexp.MustCompile(`(^|/)testdata/[^/]*\.txt$`)

// Read counts the tree at root.
func Read(root string) (*Tree, error) {
	t := &Tree{Counts: map[string]*Count{}}
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		file, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		file = filepath.ToSlash(file)
		if d.IsDir() {
			if file != "." && skipped.MatchString(file) {
				return filepath.SkipDir
			}
			return nil
		}
		return t.addFile(file, path)
	})
	return t, err
}

// ensureRow returns the count of a row, and makes the row if need be.
func (t *Tree) ensureRow(name string) *Count {
	if t.Counts[name] == nil {
		t.Counts[name] = &Count{}
	}
	return t.Counts[name]
}

func (t *Tree) addFile(file, path string) error {
	ext := filepath.Ext(file)
	story, inTestdata := isStory.MatchString(file), strings.Contains(file, "testdata/")
	if !story && (inTestdata || ext != ".go" && ext != ".md" && ext != ".thrift" && ext != ".ts" && ext != ".tsx") {
		return nil
	}
	bytes, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	text, columns := string(bytes), maxMarkdownColumns
	var c *Count
	switch {
	case story:
		c = t.ensureRow("stories")
		c.addComments(file, text, "#", false)
	case ext == ".md":
		c = t.ensureRow(file)
		c.addMarkdown(file, text)
	case ext == ".thrift":
		c = t.ensureRow(file)
		c.addComments(file, text, "//", true)
	case strings.HasSuffix(file, "_test.go"):
		c, columns = t.ensureRow("tests"), maxGoColumns
		c.addComments(file, text, "//", true)
		err = t.addGo(file, text, nil)
	case ext == ".go":
		c, columns = t.ensureRow(filepath.ToSlash(filepath.Dir(file))), maxGoColumns
		c.addComments(file, text, "//", true)
		c.addStrings(file, text)
		err = t.addGo(file, text, c)
	default:
		c = t.ensureRow(filepath.ToSlash(filepath.Dir(file)))
		c.addComments(file, text, "//", true)
	}
	c.addLines(file, text, columns)
	return err
}

// addStrings counts help texts of flags and texts of errors.
func (c *Count) addStrings(file, text string) {
	for i, l := range strings.Split(text, "\n") {
		for _, m := range flagged.FindAllStringSubmatch(l, -1) {
			c.addText(file, i+1, []string{m[1] + m[2]})
		}
	}
}

// addGo collects the identifiers that a Go file declares. If c is not nil, c counts the functions of the file.
func (t *Tree) addGo(file, text string, c *Count) error {
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, file, text, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	if c != nil {
		c.addFunctions(file, fset, f)
	}
	declare := func(names ...*ast.Ident) {
		for _, n := range names {
			if n != nil && n.Name != "_" {
				t.Names = append(t.Names, Name{file, fset.Position(n.Pos()).Line, n.Name})
			}
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			declare(n.Name)
		case *ast.Field:
			declare(n.Names...)
		case *ast.TypeSpec:
			declare(n.Name)
		case *ast.ValueSpec:
			declare(n.Names...)
		case *ast.AssignStmt:
			for _, x := range n.Lhs {
				if id, ok := x.(*ast.Ident); ok && n.Tok == token.DEFINE {
					declare(id)
				}
			}
		case *ast.RangeStmt:
			for _, x := range []ast.Expr{n.Key, n.Value} {
				if id, ok := x.(*ast.Ident); ok && n.Tok == token.DEFINE {
					declare(id)
				}
			}
		}
		return true
	})
	return nil
}
