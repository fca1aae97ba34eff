package client

// Unread is how many bytes of results have not been read.
func (r *Running) Unread() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.unread
}
