package frontend

import (
	"time"

	"github.com/phoebe-sched/phoebe/probe/fair"
)

// taskLine is a line of long tasks in which tenants take turns by their weights, like tenants in workers' queues.
type taskLine[T lineTask[T]] struct {
	*fair.Tree[T]
	accountOf func(*tenant) *fair.Account[T] // opened with the first task of the tenant
}

// lineTask is a long task in a line.
type lineTask[T any] interface {
	fair.Item[T]
	tenantOf() *tenant
}

// newTaskLine returns an empty line. A turn in a line is charged and settled in the same step, so the line needs no
// clock.
func newTaskLine[T lineTask[T]](
	tenants map[string]*tenant, accountOf func(*tenant) *fair.Account[T],
) taskLine[T] {
	openAccountAt := func(path string) *fair.Account[T] {
		if t := tenants[path]; t != nil {
			return openAccountOf(t, accountOf)
		}
		return nil
	}
	return taskLine[T]{fair.NewTree(new(time.Duration), openAccountAt), accountOf}
}

// openAccountOf returns the account of a tenant in a line, or nil if no task of the tenant has been in the line.
func openAccountOf[T fair.Item[T]](t *tenant, accountOf func(*tenant) *fair.Account[T]) *fair.Account[T] {
	if t.accounts != nil && accountOf(t).IsOpen() {
		return accountOf(t)
	}
	return nil
}

// pushTask adds x to the line.
func (l taskLine[T]) pushTask(x T) {
	t := x.tenantOf()
	if t.accounts == nil {
		t.accounts = new(lineAccounts)
	}
	a := l.accountOf(t)
	if !a.IsOpen() {
		l.Open(a, t.name, 1)
		l.SetWeights(a, t.weights)
	}
	l.Push(a, x)
}

// removeTask takes x out of the line, if x is in the line.
func (l taskLine[T]) removeTask(x T) {
	if a := openAccountOf(x.tenantOf(), l.accountOf); a != nil {
		l.Remove(a, x)
	}
}

// chargeTask charges the tenant of x for a turn. The caller settles the bill in the same step.
func (l taskLine[T]) chargeTask(x T) fair.Bill[T] { return l.ChargeTurn(l.accountOf(x.tenantOf()), x) }

// reorderTasks puts the tasks of a tenant in order again, see jobs.reorderTasks.
func (l taskLine[T]) reorderTasks(t *tenant) {
	if a := openAccountOf(t, l.accountOf); a != nil {
		l.Reorder(a)
	}
}

// updateWeights takes over the weights of a tenant.
func (l taskLine[T]) updateWeights(t *tenant) {
	if a := openAccountOf(t, l.accountOf); a != nil {
		l.SetWeights(a, t.weights)
	}
}

// closeAccount closes the account of a tenant that is forgotten.
func (l taskLine[T]) closeAccount(t *tenant) {
	if a := openAccountOf(t, l.accountOf); a != nil {
		l.Close(a)
	}
}

// checkAccounts returns an error if the accounts of the line disagree with each other or with their tasks.
func (l taskLine[T]) checkAccounts(tenants map[string]*tenant) error {
	open := map[string]*fair.Account[T]{}
	for path, t := range tenants {
		if a := openAccountOf(t, l.accountOf); a != nil {
			open[path] = a
		}
	}
	return l.Check(open, nil, nil)
}
