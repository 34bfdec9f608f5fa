// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package supervise

import (
	"context"
	"fmt"
	"net"
	"time"
)

// Times of checking whether a program is frozen.
const (
	// checkEvery is the interval between checks of a program that responds, recheck the interval for one that
	// does not.
	checkEvery = 10 * time.Second
	recheck    = time.Second
	// checkLimit is the timeout of a check; the last check before patience ends has less time.
	checkLimit = 10 * time.Second
	// patience is the time without a response after which a program is restarted. A node is not ready
	// after 50 s without its kubelet (--node-monitor-grace-period); a busy machine is slow, but not that
	// slow.
	patience = time.Minute
	// startPatience is the same for a frozen program that was restarted and has not responded since: its
	// start takes a while, too.
	startPatience = 5 * time.Minute
	// minFailed checks must have failed: the clock goes on while a virtual machine sleeps.
	minFailed = 3
	// maxFutile restarts may not help before it is hopeless.
	maxFutile = 3
)

// Freeze is the last time that a program was restarted because it did not respond.
type Freeze struct {
	At      time.Time `json:"at"`
	Message string    `json:"message"` // "kubelet did not answer for 60s; restarted"
}

// Health decides from the results of checks whether a program is frozen. It has no effects and no clock.
// A program that has not responded yet is starting, and may wait for others without a limit.
type Health struct {
	answered time.Time // time of the last response, or of the restart of a frozen program
	answers  bool      // it has responded since its start
	failed   int       // checks since
	futile   int       // restarts since the last response
}

// Started records a start of the program for another reason than a freeze.
func (h *Health) Started() {
	if h.futile == 0 {
		*h = Health{}
	}
}

// patience returns the present limit for the time without a response.
func (h *Health) patience() time.Duration {
	if h.answers {
		return patience
	}
	return startPatience
}

// Next returns the time until the next check, and the timeout of that check.
func (h *Health) Next(now time.Time) (wait, limit time.Duration) {
	if h.failed == 0 {
		return checkEvery, checkLimit
	}
	return recheck, max(recheck, min(checkLimit, h.answered.Add(h.patience()).Sub(now)-recheck))
}

// Observe takes the result of a check. If the program is frozen, it returns the minimum time without a response,
// and the caller restarts the program.
func (h *Health) Observe(now time.Time, err error) (frozen time.Duration) {
	if err == nil {
		*h = Health{answered: now, answers: true}
		return 0
	}
	if !h.answers && h.futile == 0 {
		return 0
	}
	h.failed++
	frozen = h.patience()
	if now.Sub(h.answered) < frozen || h.failed < minFailed {
		return 0
	}
	*h = Health{answered: now, futile: h.futile + 1}
	return frozen
}

// Hopeless reports whether restarts do not help.
func (h *Health) Hopeless() bool { return h.futile >= maxFutile }

// FrozenMessage returns the message about the restart of a program that did not respond
// for a while.
func FrozenMessage(name string, silent time.Duration) string {
	return fmt.Sprintf("%s did not answer for %ds; restarted", name, int(silent.Seconds()))
}

// Answers returns a check that sends a request to a server and waits for the first byte of any response. With the
// request "" it waits for the greeting of a server that sends first, as HTTP/2 servers do. A connection alone is
// not a proof: the kernel accepts it for a frozen process.
func Answers(network, address, request string) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
		if err != nil {
			return err
		}
		defer conn.Close() // the rest of the response is irrelevant
		defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })()
		if _, err := conn.Write([]byte(request)); err != nil {
			return err
		}
		_, err = conn.Read(make([]byte, 1))
		return err
	}
}

// HTTPRequest is a request for Answers. Any status is a response: a program that reports a failure is not
// frozen.
const HTTPRequest = "GET /healthz HTTP/1.0\r\n\r\n"
