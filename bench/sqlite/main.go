// Command sqlite is an example of a program that may be killed at any moment. It squares numbers on a phoebe cluster,
// and keeps each outcome once in a SQLite file. The program, frontends and workers may be killed and started again
// while the job runs: the next run of the program goes on where the last run stopped.
//
//	phoebe frontend --gossip 127.0.0.1:7411 &
//	sqlite work --join 127.0.0.1:7412 &
//	sqlite run --connect 127.0.0.1:7410 --file squares.db --tasks 10000
//
// The folder is a module of its own, so that programs that use phoebe do not get the SQLite driver.
package main

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	_ "modernc.org/sqlite"

	"github.com/phoebe-sched/phoebe/frontend/client"
	"github.com/phoebe-sched/phoebe/idl/typed"
	"github.com/phoebe-sched/phoebe/worker/exec"
	"github.com/phoebe-sched/phoebe/worker/serve"
)

// Square is the function of the job. Workers register it, and the program calls it.
var Square = typed.Func[int, int]{Name: "square"}

func main() {
	log.SetFlags(0)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := runCommand(ctx, os.Args[1:]); err != nil {
		log.Fatal(err)
	}
}

// runCommand runs the subcommand that args name.
func runCommand(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return errors.New("usage: sqlite work --join HOST:PORT,... or sqlite run --connect HOST:PORT,... --file FILE")
	}
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	join := flags.String("join", "127.0.0.1:7412", "heartbeat addresses of frontends, for work")
	connect := flags.String("connect", "127.0.0.1:7410", "addresses of frontends, for run")
	file := flags.String("file", "squares.db", "the SQLite file, for run")
	tasks := flags.Int("tasks", 10_000, "numbers to square, for run")
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	switch args[0] {
	case "work":
		return work(ctx, strings.Split(*join, ","))
	case "run":
		return squareNumbers(ctx, strings.Split(*connect, ","), *file, *tasks)
	}
	return fmt.Errorf("unknown command %q", args[0])
}

// work is a worker, until ctx ends.
func work(ctx context.Context, join []string) error {
	registry := exec.NewRegistry()
	err := exec.Register(registry, Square, func(ctx context.Context, n int) (int, error) {
		select {
		case <-time.After(2 * time.Millisecond): // as if a square were hard work
			return n * n, nil
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	})
	if err != nil {
		return err
	}
	w, err := serve.New(serve.Config{Listen: "127.0.0.1:0", Join: join, Registry: registry, Goroutines: true})
	if err != nil {
		return err
	}
	defer w.Close()
	if err := w.Start(); err != nil {
		return err
	}
	fmt.Println("works")
	select {
	case <-ctx.Done():
		return nil
	case <-w.Done():
		return w.Err()
	}
}

// squareNumbers squares the numbers from 0 to n-1, except the numbers whose squares are in the file.
func squareNumbers(ctx context.Context, connect []string, file string, n int) error {
	s, err := openStore(ctx, file)
	if err != nil {
		return err
	}
	defer s.db.Close()
	fmt.Println("stored", s.count)
	c, err := client.New(connect, client.WithStore(s.storeOutcomes))
	if err != nil {
		return err
	}
	defer c.Close()
	// The next run of the program submits the job with the same Key. Until then the job lives for Grace.
	job := client.Job{Key: s.key, Stored: s.stored, Grace: time.Minute}
	for i := range n {
		task, err := client.NewTask(Square, i)
		if err != nil {
			return err
		}
		job.Tasks = append(job.Tasks, task)
	}
	_, err = c.Run(ctx, job)
	return err
}

// store is a SQLite file with the outcomes of a job.
type store struct {
	db     *sql.DB
	key    string // of the job
	stored []int  // tasks with an outcome in the file when it was opened
	count  int    // outcomes in the file
}

// openStore opens the file, or makes it with the key of a new job.
func openStore(ctx context.Context, file string) (s *store, err error) {
	// SQLite syncs each transaction. A store whose process was killed a moment ago may still hold the file.
	db, err := sql.Open("sqlite", "file:"+file+"?_pragma=synchronous(full)&_pragma=busy_timeout(10000)")
	if err != nil {
		return nil, err
	}
	s = &store{db: db}
	defer func() {
		if err != nil {
			db.Close()
		}
	}()
	if _, err = db.ExecContext(ctx, `
		CREATE TABLE IF NOT EXISTS job (only INTEGER PRIMARY KEY CHECK (only = 1), key TEXT NOT NULL);
		CREATE TABLE IF NOT EXISTS outcomes (task INTEGER PRIMARY KEY, square INTEGER, error TEXT NOT NULL);
		INSERT OR IGNORE INTO job VALUES (1, hex(randomblob(16)))`); err != nil {
		return nil, err
	}
	if err = db.QueryRowContext(ctx, "SELECT key FROM job").Scan(&s.key); err != nil {
		return nil, err
	}
	rows, err := db.QueryContext(ctx, "SELECT task FROM outcomes")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var task int
		if err = rows.Scan(&task); err != nil {
			return nil, err
		}
		s.stored = append(s.stored, task)
	}
	s.count = len(s.stored)
	return s, rows.Err()
}

// storeOutcomes is a client.StoreFunc: a transaction stores all outcomes, or none. If a task had a second outcome, the
// INSERT would fail.
func (s *store) storeOutcomes(ctx context.Context, _ string, outcomes []client.Outcome) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	for _, o := range outcomes {
		square, failure := 0, ""
		if o.Err != nil {
			failure = o.Err.Error()
		} else if square, err = Square.DecodeOut(o.Result); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, "INSERT INTO outcomes VALUES (?, ?, ?)", o.Task, square, failure); err != nil {
			return err
		}
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	s.count += len(outcomes)
	fmt.Println("stored", s.count)
	return nil
}
