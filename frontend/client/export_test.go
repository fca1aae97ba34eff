package client

// Unread returns the number of bytes of unread results.
func (r *Running) Unread() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.unread
}
