package lite

import (
	"errors"
	"fmt"
	"testing"

	"github.com/phoebe-sched/phoebe/bench/tpch/data"
)

// The queries have no tables, so that the test needs no data.
func TestRows(t *testing.T) {
	o, err := Open(t.Context(), &data.Manifest{})
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	o.lite.SetMaxIdleConns(0) // each query has a new connection, as after a query that took too long
	const three = "(SELECT 1 AS x, 2.5 AS y UNION ALL SELECT NULL, 1.1 UNION ALL SELECT 3, 4.0) AS t"
	for _, c := range []struct{ query, want string }{
		{"SELECT 0.1 + 0.2 = 0.3, 0.06 - 0.01, 7 / 2, 7 // 2, 'a' || 'b'", "[[true 0.050000000000000003 3.5 3 ab]]"},
		{"SELECT x FROM " + three + " ORDER BY x", "[[1] [3] [NULL]]"},
		{"SELECT x FROM " + three + " ORDER BY 1 DESC NULLS FIRST LIMIT 2 OFFSET 1", "[[3] [1]]"},
		{"SELECT 'ab' LIKE 'A%', 'ab' NOT LIKE 'a_', NULL IN (1), 2 NOT BETWEEN 1 AND 3", "[[false false NULL false]]"},
		{"SELECT DATE '1994-01-01' + INTERVAL '3' month > DATE '1994-03-31', extract(year FROM DATE '1994-01-01')",
			"[[true 1994]]"},
		{"SELECT sum(y), avg(x), count(x), stddev(x), var_pop(x), median(y), corr(x, y), covar_samp(x, y), any_value(7), " +
			"count(*) FILTER (WHERE x > 1) FROM " + three,
			"[[7.5999999999999996 2 2 1.4142135623730951 1 2.5 1 1.5 7 1]]"},
		{"SELECT stddev(x), corr(x, y), corr(x, y) > 1 FROM " + three + " WHERE x = 1", "[[NULL +Inf true]]"},
		{"SELECT x, rank() OVER (ORDER BY x), sum(y) OVER (ORDER BY y ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM " +
			three + " ORDER BY 2", "[[1 1 3.6000000000000001] [3 2 6.5] [NULL 3 1.1000000000000001]]"},
		{"SELECT count(*) FROM " + three + " FULL JOIN (SELECT 3 AS z) AS u ON x = z " +
			"WHERE z IS NULL OR EXISTS (SELECT 1 WHERE z > 2)",
			"[[3]]"},
		{"WITH w(k) AS (SELECT 1 EXCEPT SELECT 2) SELECT k, string_agg(s, '-' ORDER BY s DESC) FROM w, " +
			"(SELECT 'a' AS s UNION SELECT 'b') AS u GROUP BY k", "[[1 b-a]]"},
	} {
		got, _, err := o.Rows(t.Context(), c.query)
		if err != nil || fmt.Sprint(got) != c.want {
			t.Errorf("%v, want %s, %v\n%s", got, c.want, err, c.query)
		}
	}
	for query, want := range map[string]string{
		"SELECT x, count(*) FROM " + three + " GROUP BY ROLLUP (x)":       "ROLLUP, CUBE or GROUPING SETS",
		"SELECT DATE '1994-01-31' + INTERVAL 1 month < DATE '1995-01-01'": "months added to any date",
		"SELECT mad(x) FROM " + three:                                     "the function mad",
		"SELECT (SELECT 1.5 AS n) + (SELECT 2 AS n)":                      "columns n of several types",
	} {
		_, _, err := o.Rows(t.Context(), query)
		if e, ok := errors.AsType[*IncomparableError](err); !ok || e.Why != want {
			t.Errorf("%v, want %s\n%s", err, want, query)
		}
	}
	if _, err := Open(t.Context(), &data.Manifest{Tables: []*data.Table{{}}}); err == nil {
		t.Error("a table without a name is loaded")
	}
}
