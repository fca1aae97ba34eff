package dbgen

import (
	"database/sql"
	"path/filepath"
	"testing"

	_ "github.com/duckdb/duckdb-go/v2"
)

// Make uses parts of the library that DuckDB's interface does not declare. The test checks that these parts
// exist and work: the tables have the rows of the TPC-H specification, and the published answers come with
// them.
func TestMake(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x.duckdb")
	if err := Make(file, 0.01, 2); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("duckdb", file)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for table, want := range map[string]int{
		"region": 5, "nation": 25, "supplier": 100, "customer": 1500, "part": 2000, "partsupp": 8000, "orders": 15000,
		"lineitem": 60175, "queries": 22, "answers": 22,
	} {
		var got int
		if err := db.QueryRow("SELECT count(*) FROM " + table).Scan(&got); err != nil || got != want {
			t.Errorf("%s has %d rows (%v), want %d", table, got, err, want)
		}
	}
}
