// Package ui serves the web page that shows a fleet: why jobs were slow, for whom, and since when. It asks frontends through the
// SDK like any client, so that the page of a frontend's own port and that of `phoebe ui` are the same, and no viewer can hold up
// whoever schedules.
//
// The page itself is TypeScript in src, which `make ui` turns into dist; dist is committed, so that building phoebe takes no
// Node. It is told what the SDK tells, as JSON under the names of the SDK's types: durations in nanoseconds, histograms packed,
// which it merges itself. What changes each second is composed and compressed once for all viewers, while there is one.
package ui
