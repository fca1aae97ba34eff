package admin

import (
	"context"
	"fmt"
	"io"
	"time"

	v1 "github.com/phoebe-sched/phoebe/idl/gen/phoebe/v1"
)

// Recording describes a file in which a frontend has recorded the events around a broken objective.
type Recording struct {
	Frontend string // name of the frontend that has the file
	Name     string // of the file
	Bytes    int64
	At       time.Time
	Broken   string        // the objective
	Observed time.Duration // the response time that broke the objective
	Slowest  string        // the worker whose tasks took most time beyond the usual; empty: no task did
	Phase    string        // the phase in which the tasks of Slowest spent most of that time
}

// Recordings lists the recordings of all frontends, newest first, and reports which frontends answered.
func (c *Client) Recordings(ctx context.Context) ([]Recording, []FrontendReport, error) {
	resp, err := ask(ctx, c, func(ctx context.Context, to v1.Phoebe, by *v1.Caller) (*v1.RecordingsResponse, error) {
		return to.Recordings(ctx, &v1.RecordingsRequest{Caller: by})
	})
	if err != nil {
		return nil, nil, err
	}
	list := make([]Recording, len(resp.Recordings))
	for i, r := range resp.Recordings {
		list[i] = Recording{
			Frontend: r.Frontend, Name: r.Name, Bytes: r.SizeBytes, At: time.UnixMicro(r.AtUs), Broken: r.Broken,
			Observed: fromMicros(r.ObservedUs), Slowest: r.Slowest, Phase: r.Phase,
		}
	}
	frontends, err := fromReports(resp.Frontends)
	return list, frontends, err
}

// Recording writes the content of a recording to w. The command "phoebe record open" reads the content. If the file
// does not exist, or no longer, the error is a *client.RefusedError with Reason Invalid, and nothing is written.
func (c *Client) Recording(ctx context.Context, frontendName, name string, w io.Writer) error {
	for from := int64(0); ; {
		resp, err := ask(ctx, c, func(ctx context.Context, to v1.Phoebe, by *v1.Caller) (*v1.RecordingResponse, error) {
			return to.Recording(ctx, &v1.RecordingRequest{
				Caller: by, Frontend: frontendName, Name: name, FromByte: from,
			})
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
			return fmt.Errorf("frontend %s ended recording %s after %d of %d bytes: fetch it again",
				frontendName, name, from, resp.SizeBytes)
		}
	}
}
