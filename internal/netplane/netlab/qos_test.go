// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package netlab

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/mullion-k8s/mullion/internal/netplane/compile"
)

// TestQOS: what an endpoint sends stays below its rate, also after a new process has taken over. Only the least time
// that the bytes take is checked: a busy machine takes longer.
func TestQOS(t *testing.T) {
	w := newTwoHosts(t)
	from, to := w.pods[0], w.pods[2]
	send := func() (bytes int, elapsed time.Duration) {
		t.Helper()
		return flood(t, from.Netns, to.Netns, at(to.Address, 9000), 120_000)
	}
	for _, rate := range []uint64{100_000, 200_000} {
		w.a.endpoint(from).MaxRate = rate
		w.a.apply()
		w.a.reopen(w.lab)
		w.a.apply()
		bytes, elapsed := send()
		burst := w.a.bucket(from).Burst
		if most := float64(burst) + elapsed.Seconds()*float64(rate); float64(bytes) > most {
			t.Errorf("%d bytes in %v, at %d a second no more than %.0f may leave", bytes, elapsed, rate, most)
		}
	}
	w.a.endpoint(from).MaxRate = 0
	w.a.apply()
	if b := w.a.bucket(from); b != nil {
		t.Errorf("without a rate the plan has %+v", b)
	}
	send()
}

// bucket returns what the plan of the host says about a pod.
func (h *labHost) bucket(p *pod) *compile.Bucket {
	h.t.Helper()
	plan, err := compile.Compile(h.Intent, nil)
	if err != nil {
		h.t.Fatal(err)
	}
	for _, l := range plan.Links {
		if l.Name == compile.LinkName(p.Name) {
			return l.Peer.Bucket
		}
	}
	h.t.Fatalf("no link of %s", p.Name)
	return nil
}

// flood sends from one namespace to another as fast as it can until that many bytes have arrived, and returns how many
// that were and the time since before the first one was sent.
func flood(t *testing.T, from, to string, address netip.AddrPort, enough int) (bytes int, elapsed time.Duration) {
	t.Helper()
	var l net.Listener
	err := in(t, to, func() (err error) {
		l, err = net.Listen("tcp4", address.String())
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	begin := time.Now()
	sent := make(chan error, 1)
	go func() {
		var c net.Conn
		err := in(t, from, func() (err error) {
			c, err = (&net.Dialer{}).DialContext(ctx, "tcp4", address.String())
			return err
		})
		if err != nil {
			_ = l.Close() // the receiver waits for a connection
			sent <- err
			return
		}
		defer func() { _ = c.Close() }()
		for err == nil { // until the receiver has enough
			_, err = c.Write(make([]byte, 1<<14))
		}
		sent <- nil
	}()
	c, err := l.Accept()
	if err != nil {
		t.Fatal(errors.Join(err, <-sent))
	}
	bytes, err = io.ReadAtLeast(c, make([]byte, enough), enough)
	elapsed = time.Since(begin)
	_ = c.Close()
	if err := errors.Join(err, <-sent); err != nil {
		t.Fatal(err)
	}
	return bytes, elapsed
}
