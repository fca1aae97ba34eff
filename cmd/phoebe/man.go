package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/alecthomas/kong"
)

type manCmd struct {
	Dir  string `arg:"" help:"Folder for the pages, made if missing."`
	Date int64  `env:"SOURCE_DATE_EPOCH" placeholder:"SECONDS" help:"Date of the pages, in seconds since 1970. Default: now."`
}

// Run writes a manual page for each command.
func (c *manCmd) Run(model *kong.Application) error {
	if err := os.MkdirAll(c.Dir, 0o755); err != nil {
		return err
	}
	date := time.Now().UTC()
	if c.Date != 0 {
		date = time.Unix(c.Date, 0).UTC()
	}
	var write func(n *kong.Node) error
	write = func(n *kong.Node) error {
		if err := os.WriteFile(filepath.Join(c.Dir, manName(n)+".1"), []byte(manPage(n, date)), 0o644); err != nil {
			return err
		}
		commands, _ := listVisible(n)
		for _, child := range commands {
			if err := write(child); err != nil {
				return err
			}
		}
		return nil
	}
	return write(model.Node)
}

// manName returns the name of a command's page, such as phoebe-sim-run.
func manName(n *kong.Node) string { return strings.ReplaceAll(n.FullPath(), " ", "-") }

// manPage returns the page of a command, in the man(7) language.
func manPage(n *kong.Node, date time.Time) string {
	var b strings.Builder
	name := manName(n)
	brief, detail := n.Help, n.Detail
	if n.Parent == nil {
		brief, detail, _ = strings.Cut(n.Help, "\n")
	}
	fmt.Fprintf(&b, ".TH %s 1 %q phoebe \"User Commands\"\n", escapeRoff(strings.ToUpper(name)),
		date.Format(time.DateOnly))
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", escapeRoff(name),
		escapeRoff(strings.TrimSuffix(strings.TrimPrefix(brief, "phoebe "), ".")))
	fmt.Fprintf(&b, ".SH SYNOPSIS\n.B %s\n%s\n", escapeRoff(n.FullPath()),
		escapeRoff(strings.TrimSpace(strings.TrimPrefix(n.Summary(), strings.TrimPrefix(n.FullPath(), "phoebe ")))))
	b.WriteString(".SH DESCRIPTION\n")
	b.WriteString(fillLines(brief))
	writeParagraphs(&b, detail)
	commands, flags := listVisible(n)
	if len(commands) > 0 {
		b.WriteString(".SH COMMANDS\n")
		for _, c := range commands {
			fmt.Fprintf(&b, ".TP\n.BR %s (1)\n%s", escapeRoff(manName(c)), fillLines(c.Help))
		}
	}
	if len(n.Positional) > 0 {
		b.WriteString(".SH ARGUMENTS\n")
		for _, p := range n.Positional {
			fmt.Fprintf(&b, ".TP\n.I %s\n%s", escapeRoff(p.Name), fillLines(p.Help))
		}
	}
	b.WriteString(".SH OPTIONS\n")
	for _, f := range flags {
		value := ""
		if !f.IsBool() {
			value = "=" + escapeRoff(f.FormatPlaceHolder())
		}
		help := f.Help
		for _, env := range f.Envs {
			help += " Environment: " + env + "."
		}
		fmt.Fprintf(&b, ".TP\n.BR %s%s\n%s", escapeRoff("--"+f.Name), value, fillLines(help))
	}
	if n.Parent != nil {
		fmt.Fprintf(&b, ".SH SEE ALSO\n.BR %s (1)\n", escapeRoff(manName(n.Parent)))
	}
	return b.String()
}

// writeParagraphs writes text. Empty lines divide paragraphs, and indented lines stay as written.
func writeParagraphs(b *strings.Builder, text string) {
	for _, p := range strings.Split(strings.TrimSpace(text), "\n\n") {
		if p == "" {
			continue
		}
		b.WriteString(".PP\n")
		text, list := strings.CutPrefix(p, "  ")
		before, after, mixed := strings.Cut(p, "\n  ")
		switch {
		case list:
			writeVerbatim(b, "  "+text)
		case mixed:
			b.WriteString(fillLines(before))
			writeVerbatim(b, "  "+after)
		default:
			b.WriteString(fillLines(p))
		}
	}
}

// writeVerbatim writes text without filling its lines.
func writeVerbatim(b *strings.Builder, text string) {
	b.WriteString(".nf\n")
	for _, line := range strings.Split(text, "\n") {
		b.WriteString(escapeRoff(line) + "\n")
	}
	b.WriteString(".fi\n")
}

// fillLines breaks text into escaped lines that fit a page.
func fillLines(text string) string {
	var b strings.Builder
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && len(line)+1+len(word) > 76 {
			b.WriteString(escapeRoff(line) + "\n")
			line = ""
		}
		line = strings.TrimPrefix(line+" "+word, " ")
	}
	return b.String() + escapeRoff(line) + "\n"
}

// escapeRoff escapes a line: roff finds no request in it, and prints hyphens as typed.
func escapeRoff(s string) string {
	s = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(s)
	if strings.HasPrefix(s, ".") || strings.HasPrefix(s, "'") {
		s = `\&` + s
	}
	return s
}
