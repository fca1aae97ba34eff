// Package record keeps the history of tasks and jobs, in bounded memory and without I/O. It keeps histograms of
// every phase by path, policy and tenant over seconds, minutes and hours. Percentiles come from merged histograms,
// never from averages.
//
// The package has two halves, so that readers do not hold up the scheduler. The [Intake] counts, and belongs to the
// scheduler. An update takes a few nanoseconds. Once a second the server takes a batch of counts from the Intake
// ([Intake.Take]) and adds the batch to the [History]. The History belongs to the readers.
//
//	measure   a measured time: a phase of a task, a job's response, a job's slowdown
//	key       path, policy and tenant: tasks with the same key are counted together
//	series    the histograms of a key, one for each measure
//	window    the counts between two moments
package record
