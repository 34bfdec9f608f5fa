// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package hnstest

import (
	"encoding/binary"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/mullion-k8s/mullion/internal/hns/schema"
	"github.com/mullion-k8s/mullion/internal/testenv"
)

// testHostileAnswers lets the DLLs, which are C, read answers with random damage.
// They may fail; the program that uses them must not.
func testHostileAnswers(t *testing.T, p *prefixed, exe string) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	address := damage(t, serve(t, open(t, schema.Version{})), seed)
	cmd := p.command(t.Context(), address, exe, "-test.v", "-test.run", "^TestHostileAnswers$")
	cmd.Env = append(cmd.Env, "MULLION_TEST_BACKEND=hostile")
	out, err := testenv.CombinedOutput(t, cmd)
	if err != nil || !strings.Contains(string(out), "--- PASS: TestHostileAnswers") {
		t.Errorf("%v\n%s", err, tail(out))
	}
}

// damage returns the address of a server that passes calls on and damages most of
// the answers.
func damage(t *testing.T, backend string, seed uint64) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() }) // Accept reports it
	go func() {
		for n := uint64(0); ; n++ {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go damageAnswers(conn, backend, rand.New(rand.NewPCG(seed, n)))
		}
	}()
	return l.Addr().String()
}

// damageAnswers serves a connection until an answer was damaged.
func damageAnswers(conn net.Conn, backend string, random *rand.Rand) {
	defer func() { _ = conn.Close() }() // the client notices
	to, err := net.Dial("tcp", backend)
	if err != nil {
		return
	}
	defer func() { _ = to.Close() }() // as above
	for {
		request, err := frame(conn)
		if err != nil {
			return
		}
		if _, err := to.Write(request); err != nil {
			return
		}
		answer, err := frame(to)
		if err != nil {
			return
		}
		whole := random.IntN(4) == 0
		if !whole {
			answer = damaged(answer, random)
		}
		if _, err := conn.Write(answer); err != nil || !whole {
			return
		}
	}
}

// frame reads a length and that many bytes, and returns both.
func frame(r io.Reader) ([]byte, error) {
	head := make([]byte, 4)
	if _, err := io.ReadFull(r, head); err != nil {
		return nil, err
	}
	body := make([]byte, binary.LittleEndian.Uint32(head))
	_, err := io.ReadFull(r, body)
	return append(head, body...), err
}

// damaged returns an answer with one fault.
func damaged(answer []byte, random *rand.Rand) []byte {
	at := random.IntN(len(answer))
	switch random.IntN(5) {
	case 0:
		answer[at] ^= 1 << random.IntN(8)
	case 1: // a length, if it is one
		at = min(at&^3, len(answer)-4)
		values := []uint32{0, 1, 2, 0x7fffffff, 0x80000000, 0xfffffffe, 0xffffffff, random.Uint32()}
		binary.LittleEndian.PutUint32(answer[at:], values[random.IntN(len(values))])
	case 2:
		answer = answer[:at]
	case 3:
		answer = append(answer, answer[at:]...)
	case 4: // whole, but shorter
		answer = answer[:max(at, 4)]
		binary.LittleEndian.PutUint32(answer, uint32(len(answer)-4))
	}
	return answer
}
