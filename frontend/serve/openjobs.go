package serve

import (
	"cmp"
	"slices"
)

// openJobs are the jobs under way, in order of arrival. A reader of the list lets go of the mutex now and then.
type openJobs struct {
	list       []openJob
	count      int    // jobs under way in list
	lastNumber uint64 // the latest number given
}

type openJob struct {
	number uint64
	job    *clientJob // nil: not under way any more
}

func (o *openJobs) addJob(r *clientJob) {
	o.lastNumber++
	r.openNumber = o.lastNumber
	o.list = append(o.list, openJob{r.openNumber, r})
	o.count++
}

func (o *openJobs) removeJob(r *clientJob) {
	if r.openNumber == 0 {
		return
	}
	o.list[o.findIndex(r.openNumber)].job = nil
	r.openNumber = 0
	if o.count--; len(o.list) > 2*o.count+64 {
		o.list = slices.DeleteFunc(o.list, func(j openJob) bool { return j.job == nil })
	}
}

// findIndex returns the index of the first entry whose number is at least number.
func (o *openJobs) findIndex(number uint64) int {
	i, _ := slices.BinarySearchFunc(o.list, number,
		func(j openJob, number uint64) int { return cmp.Compare(j.number, number) })
	return i
}

// listBefore hands out up to most jobs with lower numbers than number, the latest first. It returns the number to
// go on with, or 0.
func (o *openJobs) listBefore(number uint64, most int, do func(*clientJob)) (next uint64) {
	for i := o.findIndex(number) - 1; i >= 0; i-- {
		if most--; most < 0 {
			return o.list[i].number + 1
		}
		if r := o.list[i].job; r != nil {
			do(r)
		}
	}
	return 0
}
