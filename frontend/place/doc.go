// Package place decides where sampled tasks go. The input is the view and a [Want]: the places that a group of
// waiting tasks lacks. The output is a list of [Decision] values: how many tasks ride to which worker, how many
// places are reserved there, and why. The package sends nothing. Drawing workers changes the order of lists in the
// view; the order has no meaning. The avoidance of a worker ends when the package finds the time over. The caller
// carries the decisions out, and may record, print or drop them.
//
// [Sampler.PlacerFor] returns the [Placer] of a policy. The baselines that ask workers for queue lengths first use
// [Sampler.BindShortest] instead, and tasks placed by estimation use package estimate.
package place
