package client

import (
	"context"
	"fmt"
	"slices"

	v1 "github.com/phoebe-sched/phoebe/idl/gen/phoebe/v1"
)

// filesPerCall is how many files a frontend is asked for at once.
const filesPerCall = 100

// Locate tells where files are that tasks may need: for each SHA-256, as 64 hexadecimal digits, some of the workers that
// have it in their caches, as a frontend has heard by gossip, seconds ago. They are good as Copies of an [Input]: by these, other
// tasks go where a file was fetched before.
func (c *Client) Locate(ctx context.Context, sha256 ...string) ([][]Copy, error) {
	located := make([][]Copy, 0, len(sha256))
	for part := range slices.Chunk(sha256, filesPerCall) {
		req := &v1.LocateRequest{Caller: c.cfg.wireCaller(), Sha256: part}
		resp, err := askUntilAnswered(ctx, c, c.seedsInTurn(), func(ctx context.Context, f *frontend) (*v1.LocateResponse, error) { return f.rpc.Locate(ctx, req) })
		if err != nil {
			return nil, err
		}
		if len(resp.Copies) != len(part) {
			return nil, fmt.Errorf("a frontend tells of %d files, and was asked for %d", len(resp.Copies), len(part))
		}
		for _, of := range resp.Copies {
			copies := make([]Copy, len(of))
			for i, at := range of {
				copies[i] = Copy{At: at.At, Rack: at.Rack}
			}
			located = append(located, copies)
		}
	}
	return located, nil
}
