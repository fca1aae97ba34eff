// Package ui serves the web page of a fleet. The page shows why jobs were slow, for whom, and since when. It asks
// frontends through the SDK like any client. So a frontend's own port and `phoebe ui` show the same page, and
// viewers cannot hold up the scheduler.
//
// The page is TypeScript in src. `make ui` turns src into dist. dist is committed, so building phoebe takes no
// Node. Answers are JSON under the names of the SDK's types: durations in nanoseconds, histograms packed. The page
// merges histograms itself. A frame holds what changes each second. While there is a viewer, a frame is composed
// and compressed once a second for all viewers.
package ui
