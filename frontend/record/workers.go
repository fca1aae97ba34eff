package record

import "maps"

// WorkerNames numbers the names of workers, for attempts. A worker's key at the frontend would not do: when a worker
// leaves the list, the key goes to another worker. The zero WorkerNames is empty.
type WorkerNames struct {
	numbers map[string]uint32
	names   map[uint32]string
	last    uint32
	oldest  uint32 // lower numbers are forgotten
}

// maxNames bounds the names, which come and go with workers. Then the older half is forgotten.
const maxNames = 1 << 16

// NumberOf returns the number of a name. Numbers begin at 1, and are never given twice.
func (w *WorkerNames) NumberOf(name string) uint32 {
	if n, known := w.numbers[name]; known {
		return n
	}
	if w.names == nil {
		w.numbers, w.names = map[string]uint32{}, map[uint32]string{}
	}
	if len(w.names) == maxNames {
		w.oldest = w.last - maxNames/2
		maps.DeleteFunc(w.names, func(n uint32, _ string) bool { return n < w.oldest })
		maps.DeleteFunc(w.numbers, func(_ string, n uint32) bool { return n < w.oldest })
	}
	w.last++
	w.numbers[name], w.names[w.last] = w.last, name
	return w.last
}

// IsKnown reports whether n is the number of a name that is not forgotten.
func (w *WorkerNames) IsKnown(n uint32) bool { return n > 0 && n >= w.oldest && n <= w.last }

// Name returns the name with a number.
func (w *WorkerNames) Name(n uint32) (name string, known bool) {
	name, known = w.names[n]
	return name, known
}
