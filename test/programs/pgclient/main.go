// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Command pgclient uses a PostgreSQL server from a pod of Linux, by pgx. The server is that of PGHOST.
//
//	pgclient write N    make a table, and write N rows by N transactions on four connections; print each acknowledged
//	                    thousand, and the transactions of a second
//	pgclient count      print the number of rows
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
	case len(args) == 2 && args[0] == "write":
		n, err := strconv.Atoi(args[1])
		if err != nil {
			return err
		}
		return write(ctx, n)
	case len(args) == 1 && args[0] == "count":
		return count(ctx)
	}
	return errors.New("usage: pgclient write N | count")
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
	conn, err := connect(ctx)
	if err != nil {
		return err
	}
	if _, err := conn.Exec(ctx, "create table t (n int primary key, at timestamptz)"); err != nil {
		return err
	}
	if err := conn.Close(ctx); err != nil {
		return err
	}
	began := time.Now()
	failures := make([]error, connections)
	var all sync.WaitGroup
	for i := range connections {
		all.Go(func() { failures[i] = writeRows(ctx, i, n) })
	}
	all.Wait()
	if err := errors.Join(failures...); err != nil {
		return err
	}
	fmt.Printf("%d transactions, %.0f a second\n", n, float64(n)/time.Since(began).Seconds())
	return nil
}

// writeRows writes every fourth row, beginning with row first.
func writeRows(ctx context.Context, first, n int) error {
	conn, err := connect(ctx)
	if err != nil {
		return err
	}
	for row := first; row < n; row += connections {
		tx, err := conn.Begin(ctx)
		if err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, "insert into t values ($1, now())", row); err != nil {
			return err
		}
		if err := tx.Commit(ctx); err != nil {
			return err
		}
	}
	return conn.Close(ctx)
}
