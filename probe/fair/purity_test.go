package fair

import (
	"testing"

	"github.com/phoebe-sched/phoebe/probe/purity"
)

func TestPurity(t *testing.T) { purity.Check(t, ".") }
