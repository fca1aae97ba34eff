//go:build !holds

package serve

import "sync"

// mutex is the server's. In a build with the tag holds it tells for how long it is held.
type mutex = sync.Mutex
