package worker

// byPriority is the policy of Priority.
type byPriority struct{ fifo }

func (b *byPriority) addPlace(p *place) {
	p.sortKey = -float64(p.priority)
	b.fifo.addPlace(p)
}
