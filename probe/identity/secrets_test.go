package identity

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestSecrets(t *testing.T) {
	for _, s := range []*Secrets{nil, NewSecrets(), NewSecrets("")} {
		if s.Tell() != "" || !s.Takes("x") || !s.Takes("") {
			t.Errorf("%v asks for something", s)
		}
	}
	file := filepath.Join(t.TempDir(), "secret")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("old\n")
	s, err := OpenSecrets(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		text  string
		tells string
		takes []string
	}{
		{"old\n", "old", []string{"old"}},
		{"old\n\n new \n", "old", []string{"old", "new"}},
		{"new\nold", "new", []string{"old", "new"}},
		{"new\r\n", "new", []string{"new"}},
		{" \n", "new", []string{"new"}}, // an error: the file is empty
	} {
		write(step.text)
		before := s.Version()
		if all, err := parseSecrets(file, []byte(step.text)); err == nil {
			s.setSecrets(all)
		} else if !strings.Contains(err.Error(), "is empty: write the secret into it") {
			t.Error(err)
		} else if s.Version() != before {
			t.Error("the version has changed, and nothing else")
		}
		if s.Tell() != step.tells {
			t.Errorf("%q: tells %q", step.text, s.Tell())
		}
		for _, secret := range []string{"old", "new", "", "ol", "old\n", "oldnew"} {
			if takes := s.Takes(secret); takes != slices.Contains(step.takes, secret) {
				t.Errorf("%q: takes %q: %v", step.text, secret, takes)
			}
		}
	}
}
