package client

import (
	"encoding/binary"
	"errors"
	"math"
	"testing"

	v1 "github.com/phoebe-sched/phoebe/idl/gen/phoebe/v1"
)

// An attempt at a stage that the answer does not list makes the answer malformed.
func TestTraceOfUnknownStage(t *testing.T) {
	for _, stages := range []int{0, 1, 2} {
		for _, stage := range []uint64{0, 1, 2, math.MaxInt64 + 1, math.MaxUint64} {
			b := []byte{2, 7} // two fields; task 7
			b = binary.AppendUvarint(b, stage)
			for name, resp := range map[string]*v1.TraceResponse{"ended": {Attempts: b}, "under way": {UnderWay: b}} {
				resp.Job = &v1.JobSummary{}
				for range stages {
					resp.Stages = append(resp.Stages, &v1.Stage{})
				}
				_, err := fromTrace(resp, 0)
				isKnown := stage < uint64(max(stages, 1))
				if isKnown != (err == nil) || !isKnown && !errors.Is(err, errAttempts) {
					t.Errorf("%s, stage %d of %d: %v", name, stage, stages, err)
				}
			}
		}
	}
}
