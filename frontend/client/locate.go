package client

import (
	"context"
	"fmt"
	"slices"

	v1 "github.com/phoebe-sched/phoebe/idl/gen/phoebe/v1"
)

// filesPerCall is the number of files in one call of Locate.
const filesPerCall = 100

// Locate tells where files are. For each SHA-256 (64 hexadecimal digits), Locate returns some of the workers that have
// the file in their caches. A frontend knows the workers by gossip, so the answer may be seconds old. You may use the
// answer as Copies of an [Input], so that further tasks go where the file was fetched before.
func (c *Client) Locate(ctx context.Context, sha256 ...string) ([][]Copy, error) {
	located := make([][]Copy, 0, len(sha256))
	for part := range slices.Chunk(sha256, filesPerCall) {
		req := &v1.LocateRequest{Caller: c.cfg.wireCaller(), Sha256: part}
		resp, err := askUntilAnswered(ctx, c, "",
			func(ctx context.Context, f *frontend) (*v1.LocateResponse, error) {
				return f.rpc.Locate(ctx, req)
			})
		if err != nil {
			return nil, err
		}
		if len(resp.Copies) != len(part) {
			return nil, fmt.Errorf("a frontend located %d files, and was asked for %d", len(resp.Copies), len(part))
		}
		for _, found := range resp.Copies {
			copies := make([]Copy, len(found))
			for i, at := range found {
				copies[i] = Copy{At: at.At, Rack: at.Rack}
			}
			located = append(located, copies)
		}
	}
	return located, nil
}
