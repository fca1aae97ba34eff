// Package gossip joins a frontend with the others: memberlist finds out which there are and carries, encrypted with
// a key made from the shared secret, what package view has to tell. All decisions are made there; here are the
// clock, the sockets and the locks.
package gossip
