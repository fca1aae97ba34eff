package main

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/goreleaser/nfpm/v2/files"
)

// sourcesOnWeb shows a file of the sources that is in no package.
const sourcesOnWeb = "https://github.com/phoebe-sched/phoebe/blob/main/"

// textLink matches the target of a link in a text.
var textLink = regexp.MustCompile(`(\]\()([^)\s]+)(\))`)

// relinkTexts writes copies of a package's texts into dir, and has the package contain the copies. In a copy, a link
// to a file of the package leads there, and another link leads to the sources on the web.
func relinkTexts(contents files.Contents, dir string) error {
	texts := map[*files.Content][]byte{}
	for _, c := range contents {
		if path.Ext(c.Source) != ".md" {
			continue
		}
		text, err := os.ReadFile(c.Source)
		if err != nil {
			return err
		}
		texts[c] = textLink.ReplaceAllFunc(text, func(link []byte) []byte {
			m := textLink.FindSubmatch(link)
			return fmt.Appendf(nil, "%s%s%s", m[1], relinkTarget(string(m[2]), c, contents), m[3])
		})
	}
	for c, text := range texts {
		name := filepath.Join(dir, path.Base(c.Destination))
		if err := os.WriteFile(name, text, 0o644); err != nil {
			return err
		}
		c.Source, c.FileInfo.Size = name, int64(len(text))
	}
	return nil
}

// relinkTarget returns what a link in the text from has as target in the package.
func relinkTarget(target string, from *files.Content, contents files.Contents) string {
	name, section, _ := strings.Cut(target, "#")
	if section != "" {
		section = "#" + section
	}
	if name == "" || strings.Contains(name, ":") {
		return target
	}
	source := path.Join(path.Dir(from.Source), name)
	for _, c := range contents {
		rest, isBelow := strings.CutPrefix(c.Source, source+"/")
		if c.Source != source && !isBelow {
			continue
		}
		there := strings.TrimSuffix(c.Destination, "/"+rest)
		if to, err := filepath.Rel(path.Dir(from.Destination), there); err == nil {
			return to + section
		}
	}
	return sourcesOnWeb + source + section
}
