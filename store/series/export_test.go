package series

// Waiters returns how many callers wait for queries of a database, one that
// waits for two counted twice.
func (c *Cached) Waiters(database string) (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, q := range c.queues[database] {
		n += q.waiters
	}
	return n
}

// Remembered returns how many values are remembered.
func (c *Cached) Remembered() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.values)
}
