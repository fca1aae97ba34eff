// Package gossip joins frontends. The library memberlist finds the members, and carries the messages of package
// view, encrypted with a key made from the shared secret. Package rows makes all decisions; package gossip adds the
// clock, the sockets and the locks.
package gossip
