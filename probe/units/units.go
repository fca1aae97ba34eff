// Package units writes times and rates for people, in one way everywhere: the command line calls this package, and
// frontend/ui/src/format.ts writes the same texts for the page. testdata/examples.json holds both to the same texts.
package units

import (
	"math"
	"strconv"
	"time"
)

// Unknown stands for a value that nobody knows.
const Unknown = "not known"

// Time writes d with three digits, such as "0.256 ms" or "12.3 s", from a minute on as in "1m40s", and from an hour
// on as in "2h3m". Times below 0.1 ms have the unit µs, or ns.
func Time(d time.Duration) string {
	switch {
	case d == 0:
		return "0"
	case d < 0:
		return "-" + Time(max(-d, 1))
	}
	const day = 24 * time.Hour
	exact := d
	d = roundDigits(d, 1000)
	switch {
	case d < time.Microsecond:
		return scale(d, 1, "ns")
	case d < 100*time.Microsecond:
		return scale(d, time.Microsecond, "µs")
	case d < time.Second:
		return scale(d, time.Millisecond, "ms")
	case d < time.Minute:
		return scale(d, time.Second, "s")
	case exact.Round(time.Second) < time.Hour:
		return twoUnits(exact, time.Minute, "m", time.Second, "s")
	case exact.Round(time.Minute) < day:
		return twoUnits(exact, time.Hour, "h", time.Minute, "m")
	}
	return twoUnits(exact, day, "d", time.Hour, "h")
}

// About writes a time that is known roughly, with two digits.
func About(d time.Duration) string {
	if d == 0 {
		return Time(0)
	}
	return "about " + Time(roundDigits(d, 100))
}

// roundDigits rounds a time of a limit or more to as many digits as numbers below the limit have.
func roundDigits(d, limit time.Duration) time.Duration {
	unit := time.Duration(1)
	for d/unit >= limit {
		unit *= 10
	}
	return d.Round(unit)
}

func scale(d, unit time.Duration, name string) string {
	return strconv.FormatFloat(float64(d)/float64(unit), 'f', -1, 64) + " " + name
}

func twoUnits(d, large time.Duration, largeName string, small time.Duration, smallName string) string {
	d = d.Round(small)
	text := strconv.FormatInt(int64(d/large), 10) + largeName
	if rest := d % large / small; rest > 0 {
		text += strconv.FormatInt(int64(rest), 10) + smallName
	}
	return text
}

// Rate writes a number of events in a second: whole from 10 on, with a digit after the point from 1 on, and with two
// below.
func Rate(perSecond float64) string {
	switch {
	case perSecond == 0:
		return "0"
	case perSecond < 0.995:
		return strconv.FormatFloat(perSecond, 'f', 2, 64)
	case perSecond < 9.95:
		return strconv.FormatFloat(perSecond, 'f', 1, 64)
	}
	whole := strconv.FormatInt(int64(math.Round(perSecond)), 10)
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	return whole
}
