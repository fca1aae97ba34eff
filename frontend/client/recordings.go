package client

import (
	"context"
	"fmt"
	"io"
	"time"

	v1 "github.com/phoebe-sched/phoebe/idl/gen/phoebe/v1"
)

// Recording is a file in which a frontend has recorded what happened as an objective was broken.
type Recording struct {
	Frontend string // the name of the one that has it
	Name     string // of the file
	Bytes    int64
	At       time.Time
	Broken   string        // the objective
	Observed time.Duration // what its response was instead
	Slowest  string        // the worker whose tasks took most beyond what is usual; empty: none did
	Phase    string        // of its tasks, in which they spent that
}

// Recordings asks for those of all frontends, the newest first, and which frontends answered.
func (c *Client) Recordings(ctx context.Context) ([]Recording, []FrontendReport, error) {
	resp, err := askUntilAnswered(ctx, c, c.seedsInTurn(), func(ctx context.Context, f *frontend) (*v1.RecordingsResponse, error) {
		return f.rpc.Recordings(ctx, &v1.RecordingsRequest{Caller: c.cfg.wireCaller()})
	})
	if err != nil {
		return nil, nil, err
	}
	list := make([]Recording, len(resp.Recordings))
	for i, r := range resp.Recordings {
		list[i] = Recording{
			Frontend: r.Frontend, Name: r.Name, Bytes: r.SizeBytes, At: time.UnixMicro(r.AtUs), Broken: r.Broken, Observed: fromMicros(r.ObservedUs),
			Slowest: r.Slowest, Phase: r.Phase,
		}
	}
	frontends, err := fromReports(resp.Frontends)
	return list, frontends, err
}

// Recording writes a recording to w, which phoebe record open reads. Nothing is written if err is a *RefusedError with Reason Invalid:
// there is no such file, or not any more.
func (c *Client) Recording(ctx context.Context, frontendName, name string, w io.Writer) error {
	for from := int64(0); ; {
		resp, err := askUntilAnswered(ctx, c, c.seedsInTurn(), func(ctx context.Context, f *frontend) (*v1.RecordingResponse, error) {
			return f.rpc.Recording(ctx, &v1.RecordingRequest{Caller: c.cfg.wireCaller(), Frontend: frontendName, Name: name, FromByte: from})
		})
		if err != nil {
			return err
		}
		if _, err := w.Write(resp.Data); err != nil {
			return err
		}
		if from += int64(len(resp.Data)); from >= resp.SizeBytes {
			return nil
		}
		if len(resp.Data) == 0 {
			return fmt.Errorf("frontend %s ends recording %s after %d of %d bytes", frontendName, name, from, resp.SizeBytes)
		}
	}
}
