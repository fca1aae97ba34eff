package worker

// byPriority is the policy of Priority.
type byPriority struct{ fifo }

func (b *byPriority) push(p *place) {
	p.key = -float64(p.priority)
	b.fifo.push(p)
}
