// Package probe holds the vocabulary of frontends and workers: ids, units, messages, and the encoding of
// messages. Package probe does no I/O.
//
// One connection, the link, carries all messages between a frontend and a worker. A frame on the link is a
// batch of messages under the link's [Epoch]; see [AppendFrame]. The protocol does not depend on the order of
// two messages, and a broken connection may lose any message: ids are never reused, a Cancel may come before
// its Reserve, and a periodic [Sync] repairs the rest.
//
// A reservation is a place in a worker's queue, held by a job and not yet by a task (Sparrow, section 3.5). If
// a slot is free for a reservation, its turn comes: the worker says [Ready]. The frontend binds a task with
// [Bind], or declines with [Decline].
//
// # Versions
//
// Hello and Welcome carry the [Dialect] of each end, and the link uses what the two dialects have in common. So
// a release works with the release before it, and a fleet is upgraded one process after another. Encodings
// therefore only grow, and the length of a message says how far its fields go:
//
//   - A new field goes after all fields of its message, and is read only if more bytes follow. A new field of a
//     Launch, a File or a Load also goes to the end of the enclosing message: in the middle of the message an
//     older peer would misread the bytes. A message without the new field must mean the same as before. If old
//     fields change, define a new message.
//   - A new message gets a new kind. A peer without the kind skips the message and counts it.
//   - Decoders refuse unknown values of a [Status], a [Reason] and similar types. So send a new value only to a
//     peer with its feature. The same goes for a message or a field that an older peer must not miss. Define a
//     bit of [Features], set the bit in [Spoken], and keep the common features where the sender needs them.
//   - Then raise [Version] and let the tests write the new corpus (go test -update, here and in gossip/rows):
//     examples of the new encoding, for all later releases to read. If no release has spoken the version yet,
//     do not raise it: remove the version's corpus and write a new corpus.
//   - If no fleet needs to upgrade from an old version any more, raise [MinVersion] and drop the code for older
//     versions.
//
// Heartbeats and gossip follow the same rules. `make upgrade` tests links, heartbeats and gossip.
package probe
