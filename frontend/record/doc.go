// Package record remembers what tasks and jobs have been through, in bounded memory and without doing I/O: histograms of every
// phase by path, policy and tenant over seconds, minutes and hours. Percentiles are of merged histograms, never averaged.
//
// It has two halves, so that nobody who looks holds up whoever schedules. The [Intake] counts, and belongs to the scheduler:
// an update is a few nanoseconds. Once a second what it has counted is taken from it ([Intake.Take]) and goes into the
// [History], which belongs to whoever looks.
//
//	measure   one thing that is measured: a phase of a task, a job's response, a job's slowdown
//	key       whose measures are counted together: path, policy and tenant
//	series    the histograms of a key, one for each measure
//	window    what was counted between two moments
package record
