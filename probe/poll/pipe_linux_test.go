package poll

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A pipe without a writer holds nobody up.
func TestPipe(t *testing.T) {
	f := File{Name: filepath.Join(t.TempDir(), "pipe")}
	if err := syscall.Mkfifo(f.Name, 0o600); err != nil {
		t.Skip(err)
	}
	if _, _, err := f.Read(); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Error(err)
	}
}
