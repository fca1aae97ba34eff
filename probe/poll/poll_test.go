package poll

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
)

// Changes reports each change, and an error once.
func TestChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		broken, worse := errors.New("broken"), errors.New("worse")
		looks := []struct {
			changed bool
			err     error
		}{{}, {true, nil}, {false, broken}, {false, broken}, {false, worse}, {}, {false, worse}, {true, nil}}
		n := 0
		var reports []error
		Changes(ctx, func(err error) { reports = append(reports, err) }, func() (bool, error) {
			look := looks[n]
			if n++; n == len(looks) {
				cancel()
			}
			return look.changed, look.err
		})
		want := []error{nil, broken, worse, worse, nil}
		if len(reports) != len(want) {
			t.Fatalf("reports %v, want %v", reports, want)
		}
		for i := range want {
			if reports[i] != want[i] {
				t.Errorf("reports %v, want %v", reports, want)
			}
		}
	})
}

// A file is followed behind links, in folders that are replaced, and while its writer has not finished.
func TestFile(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// A mounted ConfigMap: the file is a link by way of ..data, which is a link to the folder of the version.
	for version, text := range map[string]string{"v1": "one", "v2": "two"} {
		if err := os.Mkdir(filepath.Join(dir, version), 0o700); err != nil {
			t.Fatal(err)
		}
		write(version+"/tenants.yaml", text)
	}
	point := func(to string) {
		t.Helper()
		link := filepath.Join(dir, "..data")
		if err := os.Symlink(to, link+".new"); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(link+".new", link); err != nil {
			t.Fatal(err)
		}
	}
	point("v1")
	if err := os.Symlink("..data/tenants.yaml", filepath.Join(dir, "tenants.yaml")); err != nil {
		t.Fatal(err)
	}
	f := File{Name: filepath.Join(dir, "tenants.yaml")}
	expect := func(want string, wantChanged bool) {
		t.Helper()
		if text, changed, err := f.Read(); string(text) != want || changed != wantChanged || err != nil {
			t.Errorf("%q, %t, %v; want %q, %t", text, changed, err, want, wantChanged)
		}
	}
	expect("one", true)
	expect("one", false)
	point("v2")
	expect("two", true)
	expect("two", false)
	point("none")
	if _, changed, err := f.Read(); changed || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("changed %t, %v", changed, err)
	}
	point("v2")
	expect("two", true)
	expect("two", false)

	// A writer that is not done after the first reads.
	rest := []string{"thr", "three", "three"}
	f.pause = func() {
		write("v2/tenants.yaml", rest[0])
		rest = rest[1:]
	}
	write("v2/tenants.yaml", "t")
	expect("three", true)
	if len(rest) > 0 {
		t.Errorf("%d writes came after the last read", len(rest))
	}
	// A file that never stops changing ends no reader.
	n := 0
	f.pause = func() { n++; write("v2/tenants.yaml", fmt.Sprint(n)) }
	write("v2/tenants.yaml", "0")
	expect(fmt.Sprint(maxSettling), true)
}
