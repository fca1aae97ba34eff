package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// checkNotices fails the test if the notices lack a module of the binary, or a package of the page.
func checkNotices(t *testing.T, binary, notices string) {
	t.Helper()
	shipped, err := shippedModules(binary)
	if err != nil {
		t.Fatal(err)
	}
	shipped = append(shipped, runtimePackages(t)...)
	if len(shipped) < 50 {
		t.Errorf("only %q", shipped)
	}
	if missing := findUnnoticed(notices, shipped); len(missing) > 0 {
		t.Errorf("the notices lack %q", missing)
	}
	for _, text := range []string{"Mozilla Public License, version 2.0", "Copyright (c) 2015-present Jason Miller"} {
		if !strings.Contains(notices, text) {
			t.Errorf("the notices lack the text %q", text)
		}
	}
}

// patches returns the patches of modules.
func patches(t *testing.T) []string {
	t.Helper()
	list, err := filepath.Glob(packaging + "/patches/*.patch")
	if err != nil || len(list) == 0 {
		t.Fatalf("%q %v", list, err)
	}
	return list
}

// runtimePackages returns names and versions of the npm packages that the page needs in a browser, by npm's lock.
func runtimePackages(t *testing.T) (list []string) {
	t.Helper()
	var lock struct {
		Packages map[string]struct {
			Version string
			Dev     bool
		}
	}
	if err := json.Unmarshal([]byte(readFile(t, root+"/frontend/ui/package-lock.json")), &lock); err != nil {
		t.Fatal(err)
	}
	for path, p := range lock.Packages {
		if name, ok := strings.CutPrefix(path, "node_modules/"); ok && !p.Dev {
			list = append(list, name+" "+p.Version)
		}
	}
	return list
}

func TestNoticesNameEachModule(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir+"/LICENSE", readFile(t, root+"/LICENSE"))
	writeFile(t, dir+"/NOTICE", "Made by somebody.\n")
	list := []*component{{name: "example.org/a", version: "v1.2.3"}, {name: "b", version: "4.5.6", isPackage: true}}
	for _, c := range list {
		if err := c.addTexts(dir); err != nil {
			t.Fatal(err)
		}
	}
	if err := checkLicensed(list); err != nil {
		t.Error(err)
	}
	var notices strings.Builder
	if err := writeNotices(&notices, list); err != nil {
		t.Fatal(err)
	}
	missing := findUnnoticed(notices.String(), []string{"example.org/a v1.2.3", "b 4.5.6", "example.org/a v1.2.4",
		"example.org/c v1.0.0", "example.org/a v1.2"})
	if len(missing) != 3 || missing[0] != "example.org/a v1.2.4" || missing[2] != "example.org/a v1.2" {
		t.Errorf("missing are %q:\n%s", missing, notices.String())
	}
	for _, text := range []string{"Apache License", "Made by somebody."} {
		if n := strings.Count(notices.String(), text+"\n"); n != 1 {
			t.Errorf("the notices have %q %d times", text, n)
		}
	}
	none := &component{name: "example.org/none", version: "v1.0.0"}
	if err := none.addTexts(t.TempDir()); err != nil {
		t.Fatal(err)
	}
	if err := checkLicensed(append(list, none)); err == nil || !strings.Contains(err.Error(), none.String()) {
		t.Errorf("a module without a licence may be shipped: %v", err)
	}
}

// validate is a program that checks a list of components by the schema of CycloneDX.
const validate = `import sys
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
error = JsonStrictValidator(SchemaVersion.V1_6).validate_str(open(sys.argv[1]).read())
if error: sys.exit(str(error)[:2000])
`

// The list of components is valid, complete, and has all licences.
func TestSBOM(t *testing.T) {
	path := os.Getenv("CYCLONEDX_PYTHONPATH")
	if path == "" {
		t.Fatal("CYCLONEDX_PYTHONPATH is not set: make package-test sets it")
	}
	check := func(name string) ([]byte, error) {
		cmd := exec.CommandContext(t.Context(), "python3", "-c", validate, name)
		cmd.Env = append(os.Environ(), "PYTHONPATH="+path)
		return cmd.CombinedOutput()
	}
	file := onlyMatch(t, root+"/out/package/*_"+host+".cdx.json")
	if out, err := check(file); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	text := readFile(t, file)
	wrong := strings.Replace(text, `"id": "MPL-2.0"`, `"id": "MPL-2"`, 1)
	if out, err := check(writeFile(t, filepath.Join(t.TempDir(), "wrong.json"), wrong)); wrong == text || err == nil {
		t.Errorf("a wrong licence was not noticed: %s", out)
	}
	var bom struct {
		Components []struct {
			Name, Version, Purl string
			Licenses            []any
		}
	}
	if err := json.Unmarshal([]byte(text), &bom); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, c := range bom.Components {
		names = append(names, c.Name+" "+c.Version)
		if len(c.Licenses) == 0 || !strings.HasPrefix(c.Purl, "pkg:") {
			t.Errorf("%+v lacks a licence or URL", c)
		}
	}
	if n := strings.Count(text, `"pedigree"`); n != len(patches(t)) {
		t.Errorf("%d of %d patched modules tell of the patch", n, len(patches(t)))
	}
	shipped, err := shippedModules(root + "/bin/phoebe")
	if err != nil {
		t.Fatal(err)
	}
	shipped = append(shipped, runtimePackages(t)...)
	slices.Sort(names)
	slices.Sort(shipped)
	if !slices.Equal(names, shipped) {
		t.Errorf("the list has\n%q, and shipped are\n%q", names, shipped)
	}
}
