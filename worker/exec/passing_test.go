package exec

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/phoebe-sched/phoebe/probe"
)

// fullStore is a store so full that a file leaves as soon as its holder releases it.
type fullStore struct {
	dir      string
	released int
}

type fullDraft struct {
	bytes.Buffer
	store *fullStore
}

func (s *fullStore) Create() (Draft, error) { return &fullDraft{store: s}, nil }

func (s *fullStore) Fetch(context.Context, probe.File) (string, func(), error) {
	return "", nil, errors.New("it was evicted meanwhile")
}

func (d *fullDraft) Commit() (digest [32]byte, path string, release func(), err error) {
	path = filepath.Join(d.store.dir, "input")
	err = os.WriteFile(path, d.Bytes(), 0o600)
	return digest, path, func() { d.store.released++; os.Remove(path) }, err
}

func (d *fullDraft) Abort() {}

func (s *fullStore) IsDiskFailure(error) bool { return false }

// An input that came with the task stays as a file until the task ends, however full the cache is.
func TestPathOfSmallInput(t *testing.T) {
	store := &fullStore{dir: t.TempDir()}
	reg := testRegistry(t, map[string]Func{"read": func(ctx context.Context, _ []byte) ([]byte, error) {
		in := Inputs(ctx)[0]
		path, err := in.Path(ctx)
		if err != nil {
			return nil, err
		}
		return os.ReadFile(path)
	}})
	res := runTask(t, newPool(t, reg), Attempt{Function: "read", Store: store, Context: &probe.Context{
		Inputs: []probe.Passed{{Output: probe.Output{Bytes: 5, Data: []byte("small")}}},
	}})
	if res.Status != Succeeded || string(res.Output) != "small" || store.released != 1 {
		t.Errorf("the task ends as %+v; its file was released %d times", res, store.released)
	}
}
