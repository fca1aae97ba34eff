// Package fair is start-time fair queueing over the tree of tenants' paths. Workers order their queues by it, and
// frontends the long tasks that wait to be placed. Paths with the same parent take turns by weight, and share the
// turns of the parent. The items of one tenant go in an order of their own (pq.Item). The package does no I/O, and
// the owner passes the time in.
//
// An owner opens an account for each tenant, and pushes items. The next turn is Min's. A turn is charged in advance
// (ChargeTurn), and the item removed. When the real use is known, the bill is settled.
package fair
