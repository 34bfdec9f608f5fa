// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Command pgclient uses a PostgreSQL server, by pgx. The server is that of PGHOST and PGPORT.
//
//	pgclient write N          make a table, and write N rows by N transactions; print the transactions of a second
//	pgclient bench SECONDS    write to a table that it makes for so long; print the transactions of a second
//	pgclient count            print the number of rows that write has written, and their sum
//
// Both write a row in each transaction, on four connections.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	switch {
	case len(args) == 2 && (args[0] == "write" || args[0] == "bench"):
		n, err := strconv.Atoi(args[1])
		if err != nil {
			return err
		}
		if args[0] == "bench" {
			return bench(ctx, time.Duration(n)*time.Second)
		}
		return write(ctx, n)
	case len(args) == 1 && args[0] == "count":
		return count(ctx)
	}
	return errors.New("usage: pgclient write N | bench SECONDS | count")
}

// starting is the error of a server that is starting, or recovering (cannot_connect_now).
const starting = "57P03"

// connect waits while the server is starting.
func connect(ctx context.Context) (*pgx.Conn, error) {
	for {
		conn, err := pgx.Connect(ctx, "user=postgres dbname=postgres sslmode=disable connect_timeout=10")
		var refusal *pgconn.PgError
		if !errors.As(err, &refusal) || refusal.Code != starting {
			return conn, err
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func count(ctx context.Context) error {
	conn, err := connect(ctx)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	var rows, sum int
	if err := conn.QueryRow(ctx, "select count(*), coalesce(sum(n), 0) from t").Scan(&rows, &sum); err != nil {
		return err
	}
	fmt.Println(rows, sum)
	return nil
}

const connections = 4

func write(ctx context.Context, n int) error {
	if err := execute(ctx, "create table t (n int primary key, at timestamptz)"); err != nil {
		return err
	}
	began := time.Now()
	rows, err := insert(ctx, func(row int) bool { return row < n })
	if err != nil {
		return err
	}
	fmt.Printf("%d transactions, %.0f a second\n", rows, float64(rows)/time.Since(began).Seconds())
	return nil
}

func bench(ctx context.Context, limit time.Duration) error {
	if err := execute(ctx, "drop table if exists t; create table t (n int primary key, at timestamptz)"); err != nil {
		return err
	}
	began := time.Now()
	rows, err := insert(ctx, func(int) bool { return time.Since(began) < limit })
	if err != nil {
		return err
	}
	fmt.Printf("%.1f\n", float64(rows)/time.Since(began).Seconds())
	return nil
}

func execute(ctx context.Context, statements string) error {
	conn, err := connect(ctx)
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, statements)
	return errors.Join(err, conn.Close(ctx))
}

// insert writes rows while they are wanted, and returns their number.
func insert(ctx context.Context, wanted func(row int) bool) (int, error) {
	counts, failures := make([]int, connections), make([]error, connections)
	var all sync.WaitGroup
	for i := range connections {
		all.Go(func() { counts[i], failures[i] = insertOnOne(ctx, i, wanted) })
	}
	all.Wait()
	sum := 0
	for _, n := range counts {
		sum += n
	}
	return sum, errors.Join(failures...)
}

// insertOnOne writes every fourth row, beginning with row first.
func insertOnOne(ctx context.Context, first int, wanted func(row int) bool) (n int, err error) {
	conn, err := connect(ctx)
	if err != nil {
		return 0, err
	}
	for row := first; wanted(row); row += connections {
		tx, err := conn.Begin(ctx)
		if err != nil {
			return n, err
		}
		if _, err := tx.Exec(ctx, "insert into t values ($1, now())", row); err != nil {
			return n, err
		}
		if err := tx.Commit(ctx); err != nil {
			return n, err
		}
		n++
	}
	return n, conn.Close(ctx)
}
