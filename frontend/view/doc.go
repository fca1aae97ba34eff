// Package view is what a frontend believes of its workers: one row for each, fed by what comes over its link and by
// gossip; the sets of workers that may run a kind of task; how long the tasks of each function lately ran, and how long
// messages take. All of it is a hint, but for what the frontend itself gave a worker: a wrong one costs time, never a task.
//
// It records facts and answers questions. It sends nothing and places nothing, and only it changes its rows: those who
// read them (placing, admission, explanations) get them by methods. A [View] is not safe for concurrent use.
package view
