package probe

// Window remembers the seen ids of a dense counter, for the last windowSize ids: older ids count as seen. If a
// Cancel overtakes its Reserve, the Cancel marks the id, and the mark serves as the tombstone: so tombstones take
// no extra memory. The zero Window has seen only 0.
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

// Mark notes id as seen and reports whether id was new.
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
