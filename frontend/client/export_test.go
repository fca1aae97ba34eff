package client

// WithMaxRequest sets the size in bytes of the largest request.
func WithMaxRequest(n int) Option { return func(c *config) { c.maxRequest = n } }

// Unread returns the number of bytes of unread results.
func (r *Running) Unread() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.unread
}

// HeapAfter returns the bytes of the heap that use leaves in use.
func HeapAfter(use func()) int64 { return heapAfter(use) }
