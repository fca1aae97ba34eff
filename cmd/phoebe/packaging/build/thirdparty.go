package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/google/licensecheck"
)

// component is a Go module or npm package of other authors in phoebe.
type component struct {
	name, version string
	isPackage     bool     // of npm
	licences      []string // ids of SPDX, in order
	texts         []string // licences and notices
}

func (c *component) String() string { return c.name + " " + c.version }

// licenceFile matches names of files with licences, legalFile also files with notices.
var (
	licenceFile = regexp.MustCompile(`(?i)^(licen[cs]e|copying)`)
	legalFile   = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|copyright|patents)`)
)

// addTexts adds the licences and notices of a folder.
func (c *component) addTexts(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir() || !legalFile.MatchString(e.Name()) || strings.HasSuffix(e.Name(), ".go") {
			continue
		}
		content, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return err
		}
		text := strings.TrimSpace(strings.ReplaceAll(string(content), "\r\n", "\n"))
		if !slices.Contains(c.texts, text) {
			c.texts = append(c.texts, text)
		}
		if licenceFile.MatchString(e.Name()) {
			for _, m := range licensecheck.Scan(content).Match {
				c.licences = append(c.licences, m.ID)
			}
		}
	}
	slices.Sort(c.licences)
	c.licences = slices.Compact(c.licences)
	return nil
}

// checkLicensed returns an error for each component without a known licence.
func checkLicensed(list []*component) error {
	var errs []error
	for _, c := range list {
		if len(c.licences) == 0 {
			errs = append(errs, fmt.Errorf("%s has no known licence: find out whether phoebe may ship %s", c, c.name))
		}
	}
	return errors.Join(errs...)
}

// linkedModules returns the modules of the packages in cmd/phoebe on an architecture, with the standard library.
func linkedModules(root, arch string) ([]*component, error) {
	run := func(args ...string) (string, error) {
		cmd := exec.Command("go", args...)
		cmd.Dir, cmd.Stderr = root, os.Stderr
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch)
		out, err := cmd.Output()
		if err != nil {
			err = fmt.Errorf("go %q: %w", args, err)
		}
		return string(out), err
	}
	std, err := run("env", "GOROOT", "GOVERSION")
	if err != nil {
		return nil, err
	}
	list := []*component{{name: "std", version: strings.Fields(std)[1]}}
	if err := list[0].addTexts(strings.Fields(std)[0]); err != nil {
		return nil, err
	}
	packages, err := run("list", "-modfile=out/modules/go.mod", "-deps", "-f",
		`{{with .Module}}{{if not .Main}}{{.Path}}{{"\t"}}{{.Version}}{{"\t"}}{{.Dir}}{{"\t"}}{{$.Dir}}{{end}}{{end}}`,
		"./cmd/phoebe")
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	for line := range strings.Lines(packages) {
		f := strings.Split(strings.TrimSpace(line), "\t")
		if len(f) != 4 {
			continue // of the main module or the standard library
		}
		i := slices.IndexFunc(list, func(c *component) bool { return c.name == f[0] })
		if i < 0 {
			i = len(list)
			list = append(list, &component{name: f[0], version: f[1]})
		}
		// Below the module's folder, code may have another licence.
		for dir := f[3]; !seen[dir]; dir = filepath.Dir(dir) {
			seen[dir] = true
			if err := list[i].addTexts(dir); err != nil {
				return nil, err
			}
			if dir == f[2] {
				break
			}
		}
	}
	return list, nil
}

// bundledPackages returns the npm packages in the page, by esbuild's list of bundled files. modules is the folder
// node_modules.
func bundledPackages(metafile, modules string) ([]*component, error) {
	content, err := os.ReadFile(metafile)
	if err != nil {
		return nil, err
	}
	var meta struct {
		Outputs map[string]struct{ Inputs map[string]any }
	}
	if err := json.Unmarshal(content, &meta); err != nil {
		return nil, fmt.Errorf("%s: %w", metafile, err)
	}
	named := regexp.MustCompile(`^node_modules/((?:@[^/]+/)?[^/]+)/`)
	names := map[string]bool{}
	for _, o := range meta.Outputs {
		for input := range o.Inputs {
			if m := named.FindStringSubmatch(input); m != nil {
				names[m[1]] = true
			}
		}
	}
	var list []*component
	for name := range names {
		dir := filepath.Join(modules, name)
		c := &component{name: name, isPackage: true}
		content, err := os.ReadFile(filepath.Join(dir, "package.json"))
		if err == nil {
			var p struct{ Version string }
			err = json.Unmarshal(content, &p)
			c.version = p.Version
		}
		if err = cmp.Or(err, c.addTexts(dir)); err != nil {
			return nil, err
		}
		list = append(list, c)
	}
	return list, nil
}

// thirdParties returns all components of other authors in phoebe on an architecture, in the order of names.
func thirdParties(root, arch string) ([]*component, error) {
	list, err := linkedModules(root, arch)
	if err != nil {
		return nil, err
	}
	ui := filepath.Join(root, "out/ui")
	packages, err := bundledPackages(filepath.Join(ui, "meta.json"), filepath.Join(ui, "node_modules"))
	if err != nil {
		return nil, err
	}
	if len(packages) == 0 {
		return nil, errors.New("esbuild's list names no npm package of the page")
	}
	list = append(list, packages...)
	slices.SortFunc(list, func(a, b *component) int { return strings.Compare(a.name, b.name) })
	return list, checkLicensed(list)
}

const noticesHead = "phoebe contains the software of others below: Go modules, and packages of npm. Some modules are\n" +
	"patched, by the patches in cmd/phoebe/packaging/patches of the sources; all else is unchanged.\n" +
	"\"go mod download NAME@VERSION\" gets the sources of a module, \"npm pack NAME@VERSION\" of a package.\n"

// writeNotices writes the list of components, and the texts of licences and notices. If several components
// share a text, writeNotices writes the text once.
func writeNotices(w io.Writer, list []*component) error {
	var b bytes.Buffer
	b.WriteString(noticesHead + "\n")
	users := map[string][]string{}
	var texts []string
	for _, c := range list {
		kind := ""
		if c.isPackage {
			kind = " (npm)"
		}
		fmt.Fprintf(&b, "%s%s: %s\n", c, kind, strings.Join(c.licences, ", "))
		for _, text := range c.texts {
			if users[text] == nil {
				texts = append(texts, text)
			}
			users[text] = append(users[text], c.name)
		}
	}
	for _, text := range texts {
		fmt.Fprintf(&b, "\n%s\n%s\n\n%s\n", strings.Repeat("=", 78), strings.Join(users[text], "\n"), text)
	}
	_, err := w.Write(b.Bytes())
	return err
}

// findUnnoticed returns the shipped components without a line in the notices. A component is a name and a version.
func findUnnoticed(notices string, shipped []string) (missing []string) {
	for _, s := range shipped {
		if !regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(s) + `( \(npm\))?: \S`).MatchString(notices) {
			missing = append(missing, s)
		}
	}
	return missing
}
