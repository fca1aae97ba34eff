// Package view holds a frontend's beliefs about its workers: a row for each worker, fed by the worker's link and by
// gossip. It also holds the sets of workers that may run a kind of task, recent run times of each function, and the
// time and price of messages. Every belief is a hint, except about the work that the frontend itself gave to a
// worker. A wrong hint costs time, never a task.
//
// The package records facts and answers questions. It sends nothing and places nothing. Only the view changes its
// rows; readers (placing, admission, explanations) use methods. A [View] is not safe for concurrent use.
package view
