package sim

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Omission names jobs and faults left out of a run of Faults, by number.
type Omission struct{ Jobs, Faults map[int]bool }

// Len returns the number of omitted jobs and faults.
func (o Omission) Len() int { return len(o.Jobs) + len(o.Faults) }

// String returns the form read by ParseOmission: j0-j3,f7.
func (o Omission) String() string {
	var parts []string
	for _, set := range []struct {
		letter  string
		members map[int]bool
	}{{"j", o.Jobs}, {"f", o.Faults}} {
		var numbers []int
		for n := range set.members {
			numbers = append(numbers, n)
		}
		slices.Sort(numbers)
		for i := 0; i < len(numbers); {
			k := i
			for k+1 < len(numbers) && numbers[k+1] == numbers[k]+1 {
				k++
			}
			part := set.letter + strconv.Itoa(numbers[i])
			if k > i {
				part += "-" + set.letter + strconv.Itoa(numbers[k])
			}
			parts = append(parts, part)
			i = k + 1
		}
	}
	return strings.Join(parts, ",")
}

// ParseOmission reads numbers and ranges of jobs (j) and faults (f), such as j0-j3,f7. "" leaves nothing out.
func ParseOmission(text string) (Omission, error) {
	o := Omission{map[int]bool{}, map[int]bool{}}
	if text == "" {
		return o, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		low, set, okLow := o.parseMember(first)
		high, _, okHigh := o.parseMember(last)
		if !okLow || !okHigh || first[0] != last[0] || low > high {
			return o, fmt.Errorf("%q names no jobs or faults: write such as j0-j3,f7", part)
		}
		for n := low; n <= high; n++ {
			set[n] = true
		}
	}
	return o, nil
}

// parseMember reads a job or fault such as j3. set is o.Jobs or o.Faults.
func (o Omission) parseMember(text string) (n int, set map[int]bool, ok bool) {
	if text == "" {
		return 0, nil, false
	}
	n, err := strconv.Atoi(text[1:])
	switch {
	case err != nil || n < 0 || n >= 10_000:
		return 0, nil, false
	case text[0] == 'j':
		return n, o.Jobs, true
	case text[0] == 'f':
		return n, o.Faults, true
	}
	return 0, nil, false
}

// Replay returns the command that repeats the run.
func (e *FaultError) Replay() string {
	command := fmt.Sprintf("phoebe sim faults --seeds 1 --from %d", e.Seed)
	if e.Without.Len() > 0 {
		command += " --without " + e.Without.String()
	}
	return command
}

// Minimize leaves out as many jobs and faults of a failing run as possible, while the run still fails, perhaps in
// another way. Minimize returns the error of the smallest run found. If ctx ends, Minimize returns early, with
// the best so far.
func Minimize(ctx context.Context, failed *FaultError) *FaultError {
	r := newFaultRun(failed.Seed, failed.Without)
	_ = r.playOut() // for the numbers of jobs and faults
	searchOmission(ctx, len(r.jobs), r.faults, failed.Without, func(o Omission) bool {
		_, err := Faults(failed.Seed, o)
		if err != nil {
			failed = err.(*FaultError)
		}
		return err != nil
	})
	return failed
}

// searchOmission looks for a larger omission than o with which the run still fails. The search leaves out large
// parts first, then smaller parts.
func searchOmission(ctx context.Context, jobs, faults int, o Omission, fails func(Omission) bool) {
	type member struct {
		fault bool
		n     int
	}
	var candidates []member
	for n := range faults {
		if !o.Faults[n] {
			candidates = append(candidates, member{true, n})
		}
	}
	for n := range jobs {
		if !o.Jobs[n] {
			candidates = append(candidates, member{false, n})
		}
	}
	for size := (len(candidates) + 1) / 2; size > 0; size /= 2 {
		for from := 0; from < len(candidates) && ctx.Err() == nil; {
			to := min(from+size, len(candidates))
			attempt := Omission{map[int]bool{}, map[int]bool{}}
			maps.Copy(attempt.Jobs, o.Jobs)
			maps.Copy(attempt.Faults, o.Faults)
			for _, m := range candidates[from:to] {
				if m.fault {
					attempt.Faults[m.n] = true
				} else {
					attempt.Jobs[m.n] = true
				}
			}
			if fails(attempt) {
				o = attempt
				candidates = slices.Delete(candidates, from, to)
			} else {
				from = to
			}
		}
	}
}
