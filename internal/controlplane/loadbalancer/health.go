// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package loadbalancer

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"sync"
	"time"
)

// The interval and the timeout of health checks. Clouds check every 5 to 10 s and give up after
// two or three failures; a machine with all nodes on it can do better.
const (
	checkEvery   = 2 * time.Second
	checkTimeout = time.Second
	// strikes is the number of failures in a row after which a node is not fit any more: one may
	// be due to a busy machine.
	strikes = 2
)

// health remembers which nodes are fit. The zero value has no nodes.
type health struct {
	mu sync.Mutex
	// failures in a row; one that has never responded has strikes. guarded by mu
	failures map[probe]int
}

func (h *health) fit(p probe) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	n, known := h.failures[p]
	return known && n < strikes
}

// asker checks a node once.
type asker func(context.Context, probe) error

// learn checks the probes that are new, so that a Service need not wait for the next check.
func (h *health) learn(ctx context.Context, probes map[probe]struct{}, ask asker) {
	unknown := map[probe]struct{}{}
	h.mu.Lock()
	for p := range probes {
		if _, known := h.failures[p]; !known {
			unknown[p] = struct{}{}
		}
	}
	h.mu.Unlock()
	answers := askAll(ctx, unknown, ask)
	if ctx.Err() != nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.failures == nil {
		h.failures = map[probe]int{}
	}
	for p, err := range answers {
		h.failures[p] = after(strikes, err)
	}
}

// check runs all probes, and forgets others.
func (h *health) check(ctx context.Context, probes map[probe]struct{}, ask asker) {
	answers := askAll(ctx, probes, ask)
	if ctx.Err() != nil {
		return // the failures are ours
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	next := map[probe]int{}
	for p, err := range answers {
		before, known := h.failures[p]
		if !known {
			before = strikes
		}
		next[p] = after(before, err)
	}
	h.failures = next
}

// after returns the number of consecutive failures after one more result.
func after(failures int, err error) int {
	if err == nil {
		return 0
	}
	return min(failures+1, strikes)
}

// askAll runs all probes concurrently.
func askAll(ctx context.Context, probes map[probe]struct{}, ask asker) map[probe]error {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	var mu sync.Mutex
	var wait sync.WaitGroup
	answers := map[probe]error{}
	for p := range probes {
		wait.Go(func() {
			err := ask(ctx, p)
			mu.Lock()
			defer mu.Unlock()
			answers[p] = err
		})
	}
	wait.Wait()
	return answers
}

// askNode checks a node over HTTP. kube-proxy returns 200 if it keeps up and, on the port of
// a Service, if the node has an endpoint of it.
func askNode(ctx context.Context, p probe) error {
	url := fmt.Sprintf("http://%s/healthz", netip.AddrPortFrom(p.node, p.port))
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return fmt.Errorf("query node: %w", err)
	}
	client := http.Client{
		// Each check makes a new connection: an old one proves that the process runs, but not that it
		// listens.
		Transport: &http.Transport{DisableKeepAlives: true, DisableCompression: true,
			MaxResponseHeaderBytes: maxAnswer},
		// A pod with a hostPort can respond in place of kube-proxy. It must not choose where the next request
		// goes.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	resp, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("query node: %w", err)
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, io.LimitReader(resp.Body, maxAnswer)); err != nil {
		return fmt.Errorf("query node: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("query node: %s: %s", url, resp.Status)
	}
	return nil
}

// maxAnswer is the maximum size read of a response's header and of its body, in bytes; kube-proxy's have a few
// hundred.
const maxAnswer = 4096
