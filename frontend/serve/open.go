package serve

import (
	"cmp"
	"slices"
)

// openJobs are the jobs under way, in the order in which they came. Whoever looks at them lets go of the mutex now and then.
type openJobs struct {
	list []openJob
	n    int    // of these
	last uint64 // number that was given
}

type openJob struct {
	number uint64
	record *record // nil: it is not under way any more
}

func (o *openJobs) add(r *record) {
	o.last++
	r.number = o.last
	o.list = append(o.list, openJob{r.number, r})
	o.n++
}

func (o *openJobs) remove(r *record) {
	if r.number == 0 {
		return
	}
	o.list[o.find(r.number)].record = nil
	r.number = 0
	if o.n--; len(o.list) > 2*o.n+64 {
		o.list = slices.DeleteFunc(o.list, func(j openJob) bool { return j.record == nil })
	}
}

// find is where the first one is that has no lower number.
func (o *openJobs) find(number uint64) int {
	i, _ := slices.BinarySearchFunc(o.list, number, func(j openJob, number uint64) int { return cmp.Compare(j.number, number) })
	return i
}

// before hands out up to most of those that have lower numbers, the last one first, and returns the number to go on with, or 0.
func (o *openJobs) before(number uint64, most int, do func(*record)) (next uint64) {
	for i := o.find(number) - 1; i >= 0; i-- {
		if most--; most < 0 {
			return o.list[i].number + 1
		}
		if r := o.list[i].record; r != nil {
			do(r)
		}
	}
	return 0
}
