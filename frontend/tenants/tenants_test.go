package tenants

import (
	"testing"

	"github.com/phoebe-sched/phoebe/probe/purity"
)

func TestPure(t *testing.T) { purity.Check(t, ".") }
