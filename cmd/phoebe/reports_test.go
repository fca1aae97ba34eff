package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Until a new report is complete, the old file keeps its content. No other files are left behind.
func TestReports(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "r.json")
	read := func(name string) string {
		text, err := os.ReadFile(name)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		return string(text)
	}
	as := func(w io.Writer, text string) error {
		_, err := io.WriteString(w, text)
		if text == "bad" {
			err = errors.New("the middle of it")
		}
		return err
	}
	create := func(name string) (func(string) error, error) {
		write, _, err := createReports(io.Discard, report[string]{"json", name, as}, report[string]{"html", "", as})
		return write, err
	}
	write, err := create(name)
	if err != nil {
		t.Fatal(err)
	}
	if all, err := os.ReadDir(dir); err != nil || len(all) > 0 {
		t.Errorf("before it is written: %v %v", all, err)
	}
	if err := write("one"); err != nil || read(name) != "one" {
		t.Errorf("%q %v", read(name), err)
	}
	if _, err := create(name); err != nil || read(name) != "one" {
		t.Errorf("the last report is gone before there is another: %q %v", read(name), err)
	}
	if err := write("bad"); err == nil || !strings.Contains(err.Error(), "--json: the middle") || read(name) != "one" {
		t.Errorf("%q %v", read(name), err)
	}
	if all, err := os.ReadDir(dir); err != nil || len(all) != 1 {
		t.Errorf("left behind: %v %v", all, err)
	}

	link, target := filepath.Join(dir, "link"), filepath.Join(dir, "target")
	if err := os.Symlink(target, link); err != nil {
		t.Fatal(err)
	}
	if write, err = create(link); err != nil {
		t.Fatal(err)
	}
	if err := write("two"); err != nil || read(target) != "two" {
		t.Errorf("by a link: %q %v", read(target), err)
	}
	for _, name := range []string{dir, filepath.Join(dir, "none", "r.json")} {
		if _, err := create(name); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
