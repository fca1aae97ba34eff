package worker

// byPriority is the policy of Priority.
type byPriority struct{ fifo }

func (b *byPriority) newNewcomer(x *place) newcomer {
	x.sortKey = -float64(x.priority)
	return newcomer{place: x}
}

func (b *byPriority) addPlace(p *place) {
	p.sortKey = -float64(p.priority)
	b.fifo.addPlace(p)
}
