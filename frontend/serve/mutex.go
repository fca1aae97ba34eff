//go:build !holds

package serve

import "sync"

// mutex is the type of the server's mutex. In a build with the tag holds, the mutex records the length of each
// hold.
type mutex = sync.Mutex
