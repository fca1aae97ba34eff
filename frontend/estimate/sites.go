package estimate

import (
	"cmp"
	"slices"
	"time"
)

// Site is where a task could run, by what reading its inputs takes there.
type Site struct {
	Tier Tier          // Disk: at a host, whether its copies are on disk or in memory; Rack: in a rack; Across: anywhere
	Name string        // of the host or rack
	Read time.Duration // at most: a host of the rack may have a copy itself
}

// Where is the place, in words.
func (s *Site) Where() string {
	switch s.Tier {
	case Disk:
		return "at " + s.Name
	case Rack:
		return "in rack " + s.Name
	}
	return "anywhere"
}

const (
	maxLooked    = 32 // copies of a task's inputs whose hosts and racks are looked at
	maxHostSites = 4  // that are told
	maxRackSites = 2
)

// Sites appends to sites where a task with these inputs could run, the ones where it reads fastest first: hosts and racks
// of inputs of significant size that have workers in the pool, and at last anywhere.
func (f *Fleet) Sites(ins []Input, pool Pool, sites []Site) []Site {
	f.locateInputs(ins)
	total := int64(0)
	for _, in := range ins {
		total += max(in.Bytes, 0)
	}
	anywhere := Site{Tier: Across, Read: f.readTime(ins, &serverRow{})}
	var found []Site
	inPool := func(g *siteWorkers) *serverRow {
		for _, key := range g.members {
			if pool.Has(key) {
				return f.servers[key]
			}
		}
		return nil
	}
	f.epoch++
	looked := 0
	for _, p := range f.inputSites {
		if bytes := ins[p.input].Bytes; bytes <= 0 || float64(bytes) < f.cfg.Significant*float64(total) || looked == maxLooked {
			continue
		}
		looked++
		if p.host != nil && p.host.epoch != f.epoch {
			p.host.epoch = f.epoch
			if row := inPool(p.host); row != nil {
				found = append(found, Site{Disk, p.host.name, f.readTime(ins, row)})
			}
		}
		if p.rack != nil && p.rack.epoch != f.epoch {
			p.rack.epoch = f.epoch
			if inPool(p.rack) != nil {
				found = append(found, Site{Rack, p.rack.name, f.readTime(ins, &serverRow{rack: p.rack})})
			}
		}
	}
	slices.SortFunc(found, func(a, b Site) int {
		return cmp.Or(cmp.Compare(a.Read, b.Read), cmp.Compare(a.Tier, b.Tier), cmp.Compare(a.Name, b.Name))
	})
	remaining := [numTiers]int{Disk: maxHostSites, Rack: maxRackSites}
	for _, s := range found {
		if remaining[s.Tier]--; s.Read < anywhere.Read && remaining[s.Tier] >= 0 {
			sites = append(sites, s)
		}
	}
	return append(sites, anywhere)
}

// WorkersAt is the workers of a site, by key: nil for anywhere. The slice is the fleet's, until the next Put.
func (f *Fleet) WorkersAt(t Tier, name string) []int32 {
	groups := f.hosts
	if t == Rack {
		groups = f.racks
	}
	if g := groups[name]; g != nil && t != Across {
		return g.members
	}
	return nil
}

// ReadTime is what reading the inputs takes at a worker.
func (f *Fleet) ReadTime(ins []Input, key int32) time.Duration {
	row := f.rowOf(key)
	if row == nil {
		row = &serverRow{}
	}
	f.locateInputs(ins)
	return f.readTime(ins, row)
}

// readTime is what reading the inputs takes at a worker, after locate.
func (f *Fleet) readTime(ins []Input, row *serverRow) time.Duration {
	_, took := f.readFromTiers(ins, row)
	return took
}

// readFromTiers is how much is read from each tier, and how long that takes, after locate.
func (f *Fleet) readFromTiers(ins []Input, row *serverRow) (bytes [numTiers]int64, took time.Duration) {
	next := 0 // of f.copies, which are in the order of the inputs
	for i, in := range ins {
		tier := Across
		for ; next < len(f.inputSites) && f.inputSites[next].input == i; next++ {
			tier = min(tier, f.inputSites[next].readTier(row))
		}
		bytes[tier] += max(in.Bytes, 0)
	}
	for tier, rate := range f.cfg.Rates.byTier() {
		took = addTerms(took, transferTime(bytes[tier], rate))
	}
	return bytes, took
}

func (r Rates) byTier() [numTiers]float64 {
	return [numTiers]float64{r.Memory, r.Disk, r.Rack, r.Across}
}

// FarReadTime is what reading so many bytes takes from another rack.
func (r Rates) FarReadTime(bytes int64) time.Duration { return transferTime(bytes, r.Across) }
