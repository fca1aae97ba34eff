package record

import (
	"cmp"
	"slices"
	"time"
)

// FleetEvery is the time between two samples of a Fleet.
const FleetEvery = 2 * time.Second

const (
	fleetSamples  = 300     // ten minutes
	maxFleetRows  = 2000    // workers with a row of their own
	FleetPercents = 100     // rows of a fleet with more than maxFleetRows workers
	maxGone       = 64      // workers that left, in an answer
	maxGoneRows   = 1 << 10 // rows of workers that are off the list
	FigureBytes   = 5       // of a worker in a sample: see Figure
	offList       = 255     // state of a worker that is off the list
	stateUp       = 1       // state of a worker that is up
)

// Figure holds the numbers of a worker in a sample: state, used share of the CPU, expected wait, round trip, and time
// since the last message. Each number is packed as in the API.
type Figure [FigureBytes]byte

var figureOffList = Figure{offList, 0, 255, 255, 255}

// WorkerFigure is a worker in a sample.
type WorkerFigure struct {
	Address, Name, Rack string
	Figure              Figure
}

// Fleet remembers samples of all workers for ten minutes. With more than maxFleetRows workers, Fleet remembers the
// figures at each percent of the workers instead of a row for each worker. The zero Fleet is empty.
type Fleet struct {
	total    uint64 // samples ever; number n is at n % fleetSamples, and numbers start at 1
	at       [fleetSamples]time.Time
	rows     map[string]*fleetRow // by address
	percents [fleetSamples][]Figure
	isMany   bool // the last sample had more than maxFleetRows workers
}

// fleetRow is a worker. Workers that left keep their row for ten minutes.
type fleetRow struct {
	name, rack string
	lastSeen   uint64 // number of the last sample with the worker on the list
	lastUp     uint64 // number of the last sample with the worker up; 0: never up
	figures    []Figure
}

// AddSample adds a sample of all workers on the list.
func (f *Fleet) AddSample(now time.Time, workers []WorkerFigure) {
	if f.rows == nil {
		f.rows = map[string]*fleetRow{}
	}
	f.total++
	at := f.total % fleetSamples
	f.at[at], f.isMany = now, len(workers) > maxFleetRows
	f.percents[at] = nil
	if f.isMany {
		f.percents[at] = percentsOf(workers)
	}
	for i := range workers {
		w := &workers[i]
		r := f.rows[w.Address]
		if r == nil {
			r = &fleetRow{}
			f.rows[w.Address] = r
		}
		r.name, r.rack, r.lastSeen = w.Name, w.Rack, f.total
		if w.Figure[0] == stateUp {
			r.lastUp = f.total
		}
		if f.isMany {
			r.figures = nil
			continue
		}
		if r.figures == nil {
			r.figures = slices.Repeat([]Figure{figureOffList}, fleetSamples)
		}
		r.figures[at] = w.Figure
	}
	gone := 0
	for address, r := range f.rows {
		if r.lastSeen == f.total {
			continue
		}
		if gone++; r.lastSeen+fleetSamples <= f.total {
			delete(f.rows, address)
		} else if r.figures != nil {
			r.figures[at] = figureOffList
		}
	}
	if gone > maxGoneRows {
		f.dropGone(gone - maxGoneRows)
	}
}

// dropGone drops the n rows of workers that were on the list longest ago.
func (f *Fleet) dropGone(n int) {
	var gone []string
	for address, r := range f.rows {
		if r.lastSeen != f.total {
			gone = append(gone, address)
		}
	}
	slices.SortFunc(gone, func(a, b string) int {
		return cmp.Or(cmp.Compare(f.rows[a].lastSeen, f.rows[b].lastSeen), cmp.Compare(a, b))
	})
	for _, address := range gone[:min(n, len(gone))] {
		delete(f.rows, address)
	}
}

// percentsOf returns the figures at each percent of the workers, the lowest first. Each of the five figures is sorted
// alone. Workers that are not up count as the busiest.
func percentsOf(workers []WorkerFigure) []Figure {
	rows := make([]Figure, FleetPercents)
	column := make([]int, len(workers))
	for figure := range FigureBytes {
		for i := range workers {
			x := &workers[i].Figure
			column[i] = int(x[figure])
			if isUp := x[0] == stateUp; figure == 0 && isUp {
				column[i] = 0
			} else if figure <= 1 && !isUp {
				column[i] = 256
			}
		}
		slices.Sort(column)
		for k := range rows {
			n := column[(2*k+1)*len(workers)/(2*FleetPercents)]
			switch {
			case figure == 0 && n == 0:
				n = stateUp
			case n == 256:
				n = offList
			}
			rows[k][figure] = byte(n)
		}
	}
	return rows
}

// FleetHistory holds the samples of a Fleet.
type FleetHistory struct {
	At   []time.Time // of the samples, oldest first
	Rows []FleetRow  // in the order of addresses; with more than maxFleetRows workers, of percents
	Gone []GoneWorker
}

// FleetRow holds the figures of a worker, or of a percent of the workers, in each sample.
type FleetRow struct {
	Address string // empty: a percent of the workers
	Figures []Figure
}

// GoneWorker is a worker that was up in a sample and is not up in the last one.
type GoneWorker struct {
	Address, Name, Rack string
	LastUp              time.Time // the last sample in which the worker was up
	Off                 bool      // the worker is off the list
}

// History returns the remembered samples, and up to maxGone workers that left, the latest first.
func (f *Fleet) History() (h FleetHistory) {
	first := uint64(1)
	if f.total > fleetSamples {
		first = f.total - fleetSamples + 1
	}
	for n := first; n <= f.total; n++ {
		h.At = append(h.At, f.at[n%fleetSamples])
	}
	for address, r := range f.rows {
		if r.lastUp >= first && r.lastUp < f.total {
			h.Gone = append(h.Gone,
				GoneWorker{address, r.name, r.rack, f.at[r.lastUp%fleetSamples], r.lastSeen < f.total})
		}
		if !f.isMany && r.figures != nil {
			h.Rows = append(h.Rows, FleetRow{address, f.samplesFrom(first, r.figures)})
		}
	}
	slices.SortFunc(h.Gone, func(a, b GoneWorker) int {
		return cmp.Or(b.LastUp.Compare(a.LastUp), cmp.Compare(a.Address, b.Address))
	})
	h.Gone = h.Gone[:min(len(h.Gone), maxGone)]
	slices.SortFunc(h.Rows, func(a, b FleetRow) int { return cmp.Compare(a.Address, b.Address) })
	if f.isMany {
		for k := range FleetPercents {
			figures := make([]Figure, 0, len(h.At))
			for n := first; n <= f.total; n++ {
				if percents := f.percents[n%fleetSamples]; percents != nil {
					figures = append(figures, percents[k])
				} else {
					figures = append(figures, figureOffList)
				}
			}
			h.Rows = append(h.Rows, FleetRow{Figures: figures})
		}
	}
	return h
}

// samplesFrom returns a row's figures from sample first on.
func (f *Fleet) samplesFrom(first uint64, ring []Figure) []Figure {
	figures := make([]Figure, 0, f.total-first+1)
	for n := first; n <= f.total; n++ {
		figures = append(figures, ring[n%fleetSamples])
	}
	return figures
}
