package plan

// hasWindow reports whether n contains a window function. Windows inside subqueries do not count.
func hasWindow(n node) bool {
	found := false
	visitNodes(n, func(n node) bool {
		found = found || strAt(n, "class") == "WINDOW"
		return !found && strAt(n, "class") != "SUBQUERY"
	})
	return found
}

// planWindows plans a SELECT with window functions as a query over its rows. The inner query makes the rows and
// the values that the windows need. The outer query computes the windows, then DISTINCT, ORDER BY and LIMIT. A
// task needs all rows of a window's partition. If the rows are partitioned otherwise, they move by the PARTITION
// BY columns that all windows share, or to a single task. root: see planQuery.
func (p *queryPlanner) planWindows(q *query, root bool) *rel {
	inner := *q
	inner.sel, inner.distinct, inner.order, inner.limit, inner.offset = nil, false, nil, nil, nil
	inner.membershipOnly = false
	alias := p.bind.newAlias("w")
	toColumns := func(x node) node {
		return rewriteNode(x, func(n node) node {
			switch {
			case strAt(n, "class") == "" || hasWindow(n):
				return nil
			case len(aliasesIn(n)) == 0 && !hasSubquery(n) && !p.hasAggregate(n):
				return n // a constant
			}
			return newColumn(alias, putItem(&inner.sel, "w", n))
		})
	}
	outer := *q
	outer.where, outer.group, outer.groupSets, outer.having, outer.agg = nil, nil, nil, nil, false
	outer.sel, outer.order = nil, nil
	for _, it := range q.sel {
		outer.sel = append(outer.sel, item{toColumns(it.expr), it.name})
	}
	for _, o := range q.order {
		outer.order = append(outer.order, order{toColumns(o.expr), o.dir, o.nulls})
	}
	if len(inner.sel) == 0 {
		putItem(&inner.sel, "w", newInt(1))
	}
	shared := sharedPartitions(append(itemExprs(outer.sel), orderExprs(outer.order)...))
	r := p.planInner(&inner)
	l := &leaf{alias: alias, sub: r.q, plan: r, cols: r.q.columnNames()}
	in := p.newBlock(&outer, r.rows)
	in.readsMerged = r.class == nil && r.mergesTasks
	whole := false // each partition is whole at one task already
	keys := map[string]bool{}
	for k := range r.keys {
		keys[alias+"."+k] = true
		whole = whole || shared[k]
	}
	switch {
	case r.class == nil:
	case whole:
		in.class, in.keys = r.class, keys
	default:
		var target *class
		var keyColumns []node
		if len(shared) > 0 && p.cat.ExchangeTasks(r.rows) > 1 {
			target = p.newExchange(r.rows)
			for _, c := range l.cols {
				if shared[c] {
					keyColumns = append(keyColumns, newColumn("", c))
				}
			}
			in.readExchange(l, target, keyColumns)
		}
		l.sub, l.plan, l.stage = nil, nil, p.addStage(r, target, keyColumns...)
	}
	outer.elems = []*elem{{leaf: l}}
	out := in.finishBlock(root)
	out.mergesTasks = out.mergesTasks || out.class == nil && out.rows > repeatedRows
	return out
}

// sharedPartitions returns the names of the columns by which all windows in l are partitioned.
func sharedPartitions(l []node) map[string]bool {
	var shared map[string]bool
	for _, x := range l {
		visitNodes(x, func(n node) bool {
			if strAt(n, "class") != "WINDOW" {
				return true
			}
			own := map[string]bool{}
			for _, c := range nodesAt(n, "partitions") {
				if _, name := splitColumn(c); name != "" && (shared == nil || shared[name]) {
					own[name] = true
				}
			}
			shared = own
			return true
		})
	}
	return shared
}
