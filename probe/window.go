package probe

// Window remembers which ids of a dense counter have been seen, for the last windowSize ids: older ones
// count as seen. A Cancel that overtakes its Reserve marks the id, which is then its tombstone, so
// tombstones take no memory of their own. The zero Window has seen nothing but 0.
type Window struct {
	top  ResID // the highest id seen
	bits [windowSize / 64]uint64
}

const windowSize = 1 << 13

// Seen reports whether id was marked, or is too old to tell.
func (w *Window) Seen(id ResID) bool {
	switch {
	case id == 0:
		return true
	case id > w.top:
		return false
	case w.top-id >= windowSize:
		return true
	}
	return w.bits[id%windowSize/64]&(1<<(id%64)) != 0
}

// Mark notes id as seen and reports whether it was new.
func (w *Window) Mark(id ResID) bool {
	if w.Seen(id) {
		return false
	}
	if id > w.top {
		if id-w.top >= windowSize {
			clear(w.bits[:])
		} else {
			for i := w.top + 1; i < id; i++ {
				w.bits[i%windowSize/64] &^= 1 << (i % 64)
			}
		}
		w.top = id
	}
	w.bits[id%windowSize/64] |= 1 << (id % 64)
	return true
}
