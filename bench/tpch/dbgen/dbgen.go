// Package dbgen makes the data of TPC-H, the queries and the published answers. The generator is in DuckDB's
// library.
package dbgen

// const char *load_tpch(void *db);
import "C"

import (
	"errors"
	"fmt"
	"strconv"

	bindings "github.com/duckdb/duckdb-go-bindings"
)

// Make writes a database file with the eight tables at scale factor sf. The file also gets the tables
// queries(query_nr, query) and answers(query_nr, answer). At scale factors without published answers, the table
// answers is empty. The file must not exist.
func Make(file string, sf float64, threads int) (err error) {
	var db bindings.Database
	var msg string
	if bindings.OpenExt(file, &db, bindings.Config{}, &msg) != bindings.StateSuccess {
		return fmt.Errorf("create %s: %s", file, msg)
	}
	defer bindings.Close(&db)
	if why := C.load_tpch(db.Ptr); why != nil {
		return errors.New("load the extension tpch: " + C.GoString(why))
	}
	var conn bindings.Connection
	if bindings.Connect(db, &conn) != bindings.StateSuccess {
		return fmt.Errorf("connect to %s", file)
	}
	defer bindings.Disconnect(&conn)
	at := strconv.FormatFloat(sf, 'g', -1, 64)
	for _, q := range []string{
		fmt.Sprintf("SET threads = %d", threads),
		"CALL dbgen(sf = " + at + ")",
		"CREATE TABLE queries AS SELECT query_nr, query FROM tpch_queries()",
		"CREATE TABLE answers AS SELECT query_nr, answer FROM tpch_answers() WHERE scale_factor = " + at,
	} {
		var res bindings.Result
		state := bindings.Query(conn, q, &res)
		why := bindings.ResultError(&res)
		bindings.DestroyResult(&res)
		if state != bindings.StateSuccess {
			return fmt.Errorf("%s: %s", q, why)
		}
	}
	return nil
}
