package whole

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// names returns the names of all files in a folder.
func names(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return strings.Join(list, " ")
}

func TestFailedWriteKeepsOldFile(t *testing.T) {
	dir := t.TempDir()
	file, link := filepath.Join(dir, "file"), filepath.Join(dir, "link")
	if err := os.Symlink("file", link); err != nil {
		t.Fatal(err)
	}
	if err := WriteBytes(file, 0o640, []byte("old")); err != nil {
		t.Fatal(err)
	}
	broken := errors.New("the source is broken")
	for _, name := range []string{file, link} {
		err := Write(name, 0o640, func(w io.Writer) error {
			if _, err := w.Write(make([]byte, 1<<20)); err != nil {
				return err
			}
			if got := names(t, dir); !strings.HasPrefix(got, "file link "+prefix) {
				t.Errorf("while the content is incomplete: %s", got)
			}
			return broken
		})
		if !errors.Is(err, broken) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := names(t, dir); got != "file link" || read(t, file) != "old" {
		t.Errorf("%s: %q", got, read(t, file))
	}
	for _, text := range []string{"new", "x"} {
		if err := WriteBytes(link, 0o640, []byte(text)); err != nil || read(t, file) != text {
			t.Errorf("by the link: %v, %q", err, read(t, file))
		}
	}
	info, err := os.Lstat(link)
	if err != nil || info.Mode().Type() != fs.ModeSymlink {
		t.Errorf("the link was replaced: %v %v", info, err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm()&^0o640 != 0 {
		t.Errorf("more may open the file: %v %v", info, err)
	}
}

func TestTargets(t *testing.T) {
	dir := t.TempDir()
	dangling := filepath.Join(dir, "dangling")
	if err := os.Symlink("target", dangling); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{os.DevNull, dangling} {
		if err := errors.Join(Check(name), WriteBytes(name, 0o600, []byte("text"))); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := read(t, filepath.Join(dir, "target")); got != "text" {
		t.Errorf("%q", got)
	}
	for _, name := range []string{dir, filepath.Join(dir, "none", "file")} {
		err := Check(name)
		if also := WriteBytes(name, 0o600, nil); err == nil || also == nil || !strings.Contains(err.Error(), dir) {
			t.Errorf("%s: %v, %v", name, err, also)
		}
	}
	if got := names(t, dir); got != "dangling target" {
		t.Errorf("left behind: %s", got)
	}
}

func TestIsUnfinished(t *testing.T) {
	name := filepath.Join(t.TempDir(), "file")
	if err := Write(name, 0o600, func(io.Writer) error {
		if got := names(t, filepath.Dir(name)); !IsUnfinished(got) {
			t.Errorf("%s", got)
		}
		return nil
	}); err != nil || IsUnfinished(name) {
		t.Error(err)
	}
}
