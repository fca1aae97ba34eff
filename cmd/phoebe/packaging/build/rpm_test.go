package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sassoftware/go-rpmutils"
)

// extractRPM extracts a package's files, without programs of rpm. It returns the folder, and the package's header.
func extractRPM(t *testing.T, name string) (dir string, header *rpmutils.RpmHeader) {
	t.Helper()
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	p, err := rpmutils.ReadRpm(file)
	if err != nil {
		t.Fatal(err)
	}
	content, err := p.PayloadReaderExtended()
	if err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	for {
		info, err := content.Next()
		if errors.Is(err, io.EOF) {
			return dir, p.Header
		}
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode()&0o170000 != 0o100000 { // no regular file
			continue
		}
		text, err := io.ReadAll(content)
		to := filepath.Join(dir, info.Name())
		if err = errors.Join(err, os.MkdirAll(filepath.Dir(to), 0o755), os.WriteFile(to, text,
			os.FileMode(info.Mode()&0o777))); err != nil {
			t.Fatal(err)
		}
	}
}

// The package for rpm has the files of the Debian package, apart from files of a single system, and the same binary.
func TestRPM(t *testing.T) {
	rpmArch := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[host]
	dir, header := extractRPM(t, onlyMatch(t, root+"/out/package/*."+rpmArch+".rpm"))
	if arch, err := header.GetStrings(rpmutils.ARCH); err != nil || arch[0] != rpmArch {
		t.Errorf("%q %v", arch, err)
	}
	scripts, err := header.GetStrings(rpmutils.POSTIN)
	if err != nil || !strings.Contains(scripts[0], "daemon-reload") {
		t.Errorf("%q %v", scripts, err)
	}
	if out := runTool(t, dir+"/usr/bin/phoebe", "version"); !strings.HasPrefix(out, "phoebe ") {
		t.Errorf("%q", out)
	}
	debian := extractDebian(t)
	ofDebian := func(name string) bool {
		return strings.HasPrefix(name, "usr/share/lintian/") || strings.Contains(name, "/vendor-completions/") ||
			name == "usr/share/doc/phoebe/copyright" || name == "usr/share/doc/phoebe/changelog.gz"
	}
	ofRPM := []string{"usr/share/licenses/phoebe/LICENSE", "usr/share/zsh/site-functions/_phoebe"}
	files := listFiles(t, dir)
	for _, name := range ofRPM {
		if !files[name] {
			t.Errorf("%s is missing", name)
		}
		delete(files, name)
	}
	for name := range listFiles(t, debian) {
		switch {
		case ofDebian(name):
		case !files[name]:
			t.Errorf("%s of the Debian package is missing", name)
		case readFile(t, filepath.Join(dir, name)) != readFile(t, filepath.Join(debian, name)):
			t.Errorf("%s differs from the Debian package", name)
		}
		delete(files, name)
	}
	for name := range files {
		t.Errorf("%s is not in the Debian package", name)
	}
	checkLinks(t, dir)
}
