package serve

import (
	"time"

	"github.com/phoebe-sched/phoebe/frontend"
	rec "github.com/phoebe-sched/phoebe/frontend/record"
	"github.com/phoebe-sched/phoebe/idl/gen/phoebe/v1"
)

// isSampleDue reports whether the fleet is sampled at the second that begins about now. Frontends with equal clocks
// sample at the same seconds. So a window has the slots from all frontends, or from none.
func isSampleDue(now time.Time) bool {
	return now.Round(time.Second).Unix()%int64(rec.FleetEvery/time.Second) == 0
}

// sampleFleet puts the figures of all workers, and the slots in use, into the records. The core has the figures anyway,
// so no task pays for the sample.
func (s *Server) sampleFleet(now time.Time) {
	links := s.allLinks()
	workers := make([]rec.WorkerFigure, 0, len(links))
	capacity, byFunction := int64(0), map[string]int64{}
	addUse := func(l *link) { s.core.AddFunctionUse(l.key, byFunction) }
	s.lookAtWorkersAnd(links, addUse, func(l *link, st *frontend.WorkerStatus) {
		w := rec.WorkerFigure{Address: l.addr, Name: l.addr}
		if st != nil {
			w.Name, w.Rack = st.Welcome.Worker, st.Welcome.Rack
		}
		f := packFigure(l, st)
		w.Figure = rec.Figure{f[0], f[1], f[5], f[6], f[7]}
		if f[0] == stateNumbers["up"] {
			capacity += int64(st.Welcome.Capacity.CPU) // a thousandth of a slot is a thousandth of a core
		}
		workers = append(workers, w)
	})
	byTenant := make([]rec.SlotUse, 0, 64)
	s.mu.Lock()
	s.core.EachTenantUse(func(tenant string, slots int64) {
		if slots > 0 {
			byTenant = append(byTenant, rec.SlotUse{Name: tenant, Slots: slots})
		}
	})
	s.mu.Unlock()
	functions := make([]rec.SlotUse, 0, len(byFunction))
	for name, slots := range byFunction {
		functions = append(functions, rec.SlotUse{Name: name, Slots: slots})
	}
	r := &s.recorder
	r.mu.Lock()
	r.fleet.AddSample(now, workers)
	r.uses = rec.NewUses(capacity, byTenant, functions)
	r.functionSlots = r.uses.Functions
	r.mu.Unlock()
}

// fleetHistory returns the remembered samples of the workers.
func (s *Server) fleetHistory(now time.Time) *v1.FleetHistory {
	s.recorder.mu.Lock()
	h := s.recorder.fleet.History()
	s.recorder.mu.Unlock()
	to := &v1.FleetHistory{AtUs: make([]int64, len(h.At)), Addresses: []string{}, Gone: []*v1.GoneWorker{},
		Figures: make([]byte, 0, len(h.Rows)*len(h.At)*rec.FigureBytes)}
	for i, at := range h.At {
		to.AtUs[i] = at.UnixMicro()
	}
	for i := range h.Rows {
		if h.Rows[i].Address != "" {
			to.Addresses = append(to.Addresses, h.Rows[i].Address)
		}
		for _, f := range h.Rows[i].Figures {
			to.Figures = append(to.Figures, f[:]...)
		}
	}
	for _, w := range h.Gone {
		to.Gone = append(to.Gone, &v1.GoneWorker{Name: w.Name, Address: w.Address, Rack: w.Rack,
			UpUsAgo: now.Sub(w.LastUp).Microseconds(), Off: w.Off})
	}
	return to
}
