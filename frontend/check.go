package frontend

// Check returns what is wrong with the core's own state between two steps, or nil.
func (c *Core) Check() error { return nil }
