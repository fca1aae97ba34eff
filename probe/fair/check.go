package fair

import (
	"fmt"
	"math"
)

// Check returns an error if the accounts disagree with each other, with their items or with the open bills: the bills
// of turns that are on, and of uses. The leaves are the open accounts of tenants, by path. Check is for tests.
func (t *Tree[T]) Check(leaves map[string]*Account[T], turns, uses []Bill[T]) error {
	bills := map[*Account[T]]*Account[T]{} // sums of the open bills at or below the account
	add := func(b Bill[T], turns int) {
		for a := b.account; a != nil && a.parent != nil; a = a.parent {
			sum := bills[a]
			if sum == nil {
				sum = &Account[T]{}
				bills[a] = sum
			}
			sum.openBills++
			sum.openTurns += turns
			sum.paidAhead += b.paid
			if b.inUse {
				sum.useRate += float64(b.cpu)
				sum.begunSum += float64(b.cpu) * float64(b.usedSince)
			}
		}
	}
	for _, b := range turns {
		add(b, 1)
	}
	for _, b := range uses {
		add(b, 0)
	}
	accounts := []*Account[T]{&t.root}
	count := 0
	for path, a := range leaves {
		if accounts = append(accounts, a); a.path != path || a.tree != t {
			return fmt.Errorf("the tenant %q has the account of %q", path, a.path)
		}
		if count += a.items.Len(); !a.items.IsInOrder() {
			return fmt.Errorf("the items of tenant %q are out of order", path)
		}
	}
	if count != t.count {
		return fmt.Errorf("the tenants have %d items, %d counted", count, t.count)
	}
	for path, a := range t.inner {
		if accounts = append(accounts, a); a.path != path {
			return fmt.Errorf("the path %q is filed under %q", a.path, path)
		}
	}
	below := map[*Account[T]]int{}
	for _, a := range accounts {
		if a.parent != nil {
			below[a.parent]++
		}
		if waits := a.hasItems() && a.parent != nil; waits != (a.pos > 0) {
			return fmt.Errorf("account %q: having items and being in the parent's heap do not agree", a.path)
		}
	}
	for _, a := range accounts {
		if a.childCount != below[a] {
			return fmt.Errorf("%d accounts are children of %q, %d counted", below[a], a.path, a.childCount)
		}
		if a.parent == nil {
			continue
		}
		sum := bills[a]
		if sum == nil {
			sum = &Account[T]{}
		}
		delete(bills, a)
		// A bill of years that was paid and given back leaves an error of some hundred mCPU ns in small sums.
		differ := func(a, b float64) bool { return math.Abs(a-b) > 1e4+max(a, b)/1e9 }
		if a.openTurns != sum.openTurns || a.openBills != sum.openBills ||
			differ(a.paidAhead, sum.paidAhead) || differ(a.useRate, sum.useRate) || differ(a.begunSum, sum.begunSum) {
			return fmt.Errorf("tenant %q has open bills %v, counted %v", a.path, sum, a)
		}
	}
	if len(bills) > 0 {
		return fmt.Errorf("%d tenants with open bills are forgotten", len(bills))
	}
	return nil
}
