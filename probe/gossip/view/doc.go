// Package view is what frontends believe of workers, and how they tell each other: rows, the table that
// merges them, what is sent to whom, and the codec. It is pure; package gossip is the shell around it.
//
// Each worker counts its own row's versions: an incarnation per run, a sequence number per heartbeat, and
// revisions of the parts that seldom change (Profile, Files). Only the worker writes its row, so the newer
// version of a part wins, wherever it comes from and in whichever order: merging is commutative, associative
// and idempotent.
//
//   - Heartbeats go from the worker to its two home frontends (Homes).
//   - Push: the first home sends each heartbeat's short row once to every other frontend, in batches. Direct
//     sending costs each frontend one copy of each row in and, with every frontend home to its share, as much
//     out, however many there are; infection would multiply that by its fan-out. The second home, and then
//     anybody who heard the worker, steps in when the push is missing.
//   - Pull: twice per heartbeat each frontend asks one other, drawn at random, for newer versions of the rows that
//     it heard nothing of for too long, and sends it 256 sums over which runs and revisions it has. Where sums
//     differ, the other one lists what it has, and is asked for what is missing. This alone repairs lost packets
//     and broken links and teaches newcomers; while nothing is wrong it is one packet.
//
// A row carries its age, not an instant: it grows by the time that passes on each holder's clock.
package view
