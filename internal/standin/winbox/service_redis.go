// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package winbox

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// redisPort is Redis' registered port.
const redisPort = "6379"

// Bounds of a request: Redis' own are 512 MB and 1 M arguments, which a
// stand-in in a container of 128 MB could not hold.
const (
	redisMaxBulk = 1 << 20
	redisMaxArgs = 1024
)

// redisServer is a key-value store that speaks the Redis protocol (RESP 2,
// redis.io/docs/latest/develop/reference/protocol-spec) and supports the commands
// of redisCommand. It keeps its data in memory only.
func redisServer(ctx context.Context, env *Env) int {
	flags := flag.NewFlagSet("redis-server", flag.ContinueOnError)
	flags.SetOutput(env.Stderr)
	port := flags.String("port", redisPort, "port to listen on")
	if err := flags.Parse(env.Args); err != nil {
		return 1
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort("", *port))
	if err != nil {
		env.errorf("# Creating Server TCP listening socket *:%s: %v\n", *port, err)
		return 1
	}
	env.printf("# mullion's stand-in for Redis: in memory, a few commands\n* Ready to accept connections on %s\n",
		l.Addr())
	if err := serveRedis(ctx, l); err != nil {
		env.errorf("# %v\n", err)
		return 1
	}
	return 0
}

func serveRedis(ctx context.Context, l net.Listener) error {
	db := &redisDB{data: map[string]string{}}
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	defer stop()
	for {
		conn, err := l.Accept()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		go db.serve(ctx, conn)
	}
}

type redisDB struct {
	mu   sync.Mutex
	data map[string]string // guarded by mu
}

func (db *redisDB) serve(ctx context.Context, conn net.Conn) {
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	defer conn.Close() // the client may be gone
	r := bufio.NewReaderSize(conn, redisMaxBulk)
	for {
		args, err := readRedis(r)
		if err != nil {
			if errors.Is(err, errRedisProtocol) {
				_, _ = fmt.Fprintf(conn, "-ERR %v\r\n", err) // the connection ends anyway
			}
			return
		}
		if len(args) == 0 {
			continue
		}
		if _, err := io.WriteString(conn, db.do(args)); err != nil || strings.EqualFold(args[0], "quit") {
			return
		}
	}
}

var errRedisProtocol = errors.New("Protocol error") // Redis' text

// readRedis reads a request: an array of bulk strings, or words on a line.
func readRedis(r *bufio.Reader) ([]string, error) {
	line, err := redisLine(r)
	if err != nil {
		return nil, err
	}
	if !strings.HasPrefix(line, "*") {
		return strings.Fields(line), nil
	}
	n, err := strconv.Atoi(line[1:])
	if err != nil || n > redisMaxArgs {
		return nil, fmt.Errorf("%w: invalid multibulk length", errRedisProtocol)
	}
	var args []string
	for range n {
		if line, err = redisLine(r); err != nil {
			return nil, err
		}
		size, err := strconv.Atoi(strings.TrimPrefix(line, "$"))
		if err != nil || !strings.HasPrefix(line, "$") || size < 0 || size > redisMaxBulk {
			return nil, fmt.Errorf("%w: invalid bulk length", errRedisProtocol)
		}
		buf := make([]byte, size+2)
		if _, err := io.ReadFull(r, buf); err != nil {
			return nil, err
		}
		args = append(args, string(buf[:size]))
	}
	return args, nil
}

func redisLine(r *bufio.Reader) (string, error) {
	line, err := r.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		return "", fmt.Errorf("%w: too big inline request", errRedisProtocol)
	}
	return strings.TrimRight(string(line), "\r\n"), err
}

func redisBulk(s string) string { return fmt.Sprintf("$%d\r\n%s\r\n", len(s), s) }

// do runs one command and returns the reply.
func (db *redisDB) do(args []string) string {
	db.mu.Lock()
	defer db.mu.Unlock()
	name, args := strings.ToLower(args[0]), args[1:]
	need := func(n int) bool { return len(args) >= n }
	switch {
	case name == "ping" && len(args) == 0:
		return "+PONG\r\n"
	case (name == "ping" || name == "echo") && need(1):
		return redisBulk(args[0])
	case name == "set" && need(2):
		db.data[args[0]] = args[1]
		return "+OK\r\n"
	case name == "get" && need(1):
		v, ok := db.data[args[0]]
		if !ok {
			return "$-1\r\n"
		}
		return redisBulk(v)
	case name == "del" && need(1), name == "exists" && need(1):
		n := 0
		for _, k := range args {
			if _, ok := db.data[k]; ok {
				n++
			}
			if name == "del" {
				delete(db.data, k)
			}
		}
		return fmt.Sprintf(":%d\r\n", n)
	case (name == "incr" || name == "decr") && need(1):
		n, err := strconv.ParseInt(cmp.Or(db.data[args[0]], "0"), 10, 64)
		if err != nil {
			return "-ERR value is not an integer or out of range\r\n"
		}
		if name == "incr" {
			n++
		} else {
			n--
		}
		db.data[args[0]] = strconv.FormatInt(n, 10)
		return fmt.Sprintf(":%d\r\n", n)
	case name == "keys" && need(1):
		var keys []string
		for k := range db.data {
			if args[0] == "*" || args[0] == k {
				keys = append(keys, k)
			}
		}
		slices.Sort(keys)
		for i, k := range keys {
			keys[i] = redisBulk(k)
		}
		return fmt.Sprintf("*%d\r\n%s", len(keys), strings.Join(keys, ""))
	case name == "dbsize":
		return fmt.Sprintf(":%d\r\n", len(db.data))
	case name == "flushall", name == "flushdb":
		clear(db.data)
		return "+OK\r\n"
	case name == "select", name == "quit", name == "config" && need(1) && strings.EqualFold(args[0], "set"):
		return "+OK\r\n"
	case name == "info":
		return redisBulk("# Server\r\nredis_version:3.0.504\r\nos:Windows\r\nmullion_stand_in:1\r\n")
	}
	// Redis cuts the name there too, and keeps the reply on one line.
	name = strings.NewReplacer("\r", " ", "\n", " ").Replace(name[:min(len(name), 128)])
	return fmt.Sprintf("-ERR unknown command '%s' (mullion's stand-in knows a few only)\r\n", name)
}

// redisCLI sends one command: redis-cli [-h HOST] [-p PORT] COMMAND [ARG...].
func redisCLI(ctx context.Context, env *Env) int {
	flags := flag.NewFlagSet("redis-cli", flag.ContinueOnError)
	flags.SetOutput(env.Stderr)
	host := flags.String("h", "127.0.0.1", "host")
	port := flags.String("p", redisPort, "port")
	if err := flags.Parse(env.Args); err != nil {
		return 1
	}
	if flags.NArg() == 0 {
		env.errorf("redis-cli: this stand-in has no interactive mode: redis-cli COMMAND [ARG...]\n")
		return 1
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort(*host, *port))
	if err != nil {
		env.errorf("Could not connect to Redis at %s:%s: %v\n", *host, *port, err)
		return 1
	}
	defer conn.Close() // the reply was read
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", flags.NArg())
	for _, a := range flags.Args() {
		b.WriteString(redisBulk(a))
	}
	if _, err := io.WriteString(conn, b.String()); err != nil {
		env.errorf("%v\n", err)
		return 1
	}
	text, failed, err := redisReply(bufio.NewReader(conn), redisMaxDepth)
	if err != nil {
		env.errorf("%v\n", err)
		return 1
	}
	env.printf("%s\n", text)
	return boolInt(failed)
}

// redisMaxDepth bounds arrays in arrays; Redis' own replies have three levels.
const redisMaxDepth = 32

// redisReply formats a reply as redis-cli does when its output is not a terminal.
func redisReply(r *bufio.Reader, depth int) (text string, failed bool, err error) {
	if depth == 0 {
		return "", false, errRedisProtocol
	}
	line, err := redisLine(r)
	if err != nil || line == "" {
		return "", false, err
	}
	switch line[0] {
	case '$':
		n, err := strconv.Atoi(line[1:])
		if err != nil || n < 0 || n > redisMaxBulk {
			return "", false, err
		}
		buf := make([]byte, n+2)
		_, err = io.ReadFull(r, buf)
		return string(buf[:n]), false, err
	case '*':
		n, err := strconv.Atoi(line[1:])
		if err != nil || n > redisMaxArgs {
			return "", false, errRedisProtocol
		}
		var lines []string
		for range n {
			item, _, err := redisReply(r, depth-1)
			if err != nil {
				return "", false, err
			}
			lines = append(lines, item)
		}
		return strings.Join(lines, "\n"), false, nil
	}
	return line[1:], line[0] == '-', nil
}
