// Package fair is start-time fair queueing over the tree of tenants' paths. Workers order their queues with this
// package, and frontends order the long tasks that wait to be placed. Paths with the same parent take turns by weight,
// and share the turns of the parent. The items of a tenant have an order among themselves (pq.Item). The package does
// no I/O, and the owner passes the time in.
//
// An owner opens an account for each tenant, and pushes items. Min is the item with the next turn. The owner charges
// the turn in advance (ChargeTurn), and removes the item. When the real use is known, the owner settles the bill.
package fair
