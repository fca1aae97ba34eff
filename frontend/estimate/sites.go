package estimate

import (
	"cmp"
	"slices"
	"time"
)

// Site is a place for a task: a host, a rack, or anywhere, with the time to read its inputs there.
type Site struct {
	// Tier is Disk at a host, for copies on disk or in memory; Rack in a rack; Across anywhere.
	Tier Tier
	Name string        // name of the host or rack
	Read time.Duration // an upper bound: a host of the rack may have a copy
}

// Where describes the site in words.
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
	maxLooked    = 32 // copies of inputs considered per task
	maxHostSites = 4  // hosts returned by Sites; maxRackSites likewise
	maxRackSites = 2
)

// Sites appends to sites the places where a task with these inputs could run, fastest reading first. The places are
// hosts and racks of significant inputs, with workers in the pool, and finally anywhere.
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
		if bytes := ins[p.input].Bytes; bytes <= 0 || float64(bytes) < f.cfg.Significant*float64(total) ||
			looked == maxLooked {
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

// WorkersAt returns the keys of the workers of a site; nil for anywhere. The slice belongs to the fleet, until the
// next Put.
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

// ReadTime returns the time to read the inputs at a worker.
func (f *Fleet) ReadTime(ins []Input, key int32) time.Duration {
	row := f.rowOf(key)
	if row == nil {
		row = &serverRow{}
	}
	f.locateInputs(ins)
	return f.readTime(ins, row)
}

// readTime returns the time to read the inputs at a worker. Call locateInputs first.
func (f *Fleet) readTime(ins []Input, row *serverRow) time.Duration {
	_, took := f.readFromTiers(ins, row)
	return took
}

// readFromTiers returns the bytes read from each tier, and the time. Call locateInputs first.
func (f *Fleet) readFromTiers(ins []Input, row *serverRow) (bytes [numTiers]int64, took time.Duration) {
	next := 0 // next of f.inputSites, which are in the order of the inputs
	for i, in := range ins {
		tier := Across
		for ; next < len(f.inputSites) && f.inputSites[next].input == i; next++ {
			tier = min(tier, f.inputSites[next].readTier(row))
		}
		bytes[tier] += max(in.Bytes, 0)
	}
	for tier, rate := range f.rates.byTier() {
		took = addTerms(took, transferTime(bytes[tier], rate))
	}
	return bytes, took
}

func (r Rates) byTier() [numTiers]float64 {
	return [numTiers]float64{r.Memory, r.Disk, r.Rack, r.Across}
}

// FarReadTime returns the time to read bytes from another rack.
func (r Rates) FarReadTime(bytes int64) time.Duration { return transferTime(bytes, r.Across) }
