// Package rows holds a frontend's rows, one for each worker, and spreads rows between frontends. It has the row,
// the table of all rows, the choice of messages and receivers, and the codec. Package rows is pure; package gossip
// is its shell.
//
// Each worker numbers the versions of its own row: an incarnation for each run, a sequence number for each
// heartbeat, and revisions of Profile and Files, the parts that seldom change. Only the worker writes its row. So
// the newer version of a part wins, on any way and in any order: merging is commutative, associative and
// idempotent.
//
//   - Heartbeats go from the worker to its two home frontends (Homes).
//   - Push: the first home sends each heartbeat's short row once to every other frontend, in batches. With direct
//     sending a frontend receives each row once, and sends about as much, because each frontend is home to its
//     share of the workers. The cost does not grow with the number of frontends; infection would multiply the cost
//     by its fan-out. If a push is missing, the second home pushes the row, and after that any frontend that heard
//     the worker.
//   - Pull: twice per heartbeat each frontend asks a random member for newer versions of long silent rows. The
//     message also carries 256 sums over the runs and revisions of the frontend's rows. Where sums differ, the
//     member lists its rows, and the frontend asks for the missing parts. Pull alone repairs lost packets and
//     broken links, and teaches newcomers. While all is well, a pull is a single packet.
//   - Lessons: a pull also carries a digest of the frontend's lessons on run times. A member with other lessons sends
//     its lessons, and the frontend asks for no lessons for ten heartbeats. A newcomer asks at once.
//
// A row carries its age, not an instant: the age grows by the time that passes on each holder's clock.
package rows
