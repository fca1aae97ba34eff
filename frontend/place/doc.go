// Package place decides where tasks go that are sampled. It is given a [Want], what a group of tasks that wait is short
// of, and the view; it returns [Decision]s, which are values: how many tasks ride to which worker, how many places are
// reserved there, and why there. It sends nothing and changes nothing but the order in which the view keeps the workers of a
// set, which means nothing: whoever asks carries the decisions out, and may record, print or drop them.
//
// A policy, a rival or a test's double is a [Placer]. Tasks that are placed by estimation have package estimate instead.
package place
