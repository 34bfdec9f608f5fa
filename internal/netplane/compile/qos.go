// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package compile

import (
	"cmp"
	"math"
)

// Bucket bounds a link's sending rate: the token bucket of Linux (tc-tbf(8)).
type Bucket struct {
	Rate  uint64 // bytes per second, of whole frames
	Burst uint32 // bytes that may leave at once after a pause
	Queue uint32 // bytes that may wait; further packets are dropped
}

const (
	// minRate is the lowest bound, in bytes per second. The kernel keeps the time that a burst takes at the rate in 32
	// bits, in units of 64 ns: 275 s at most, in which four frames of 64 KiB must pass.
	minRate = 1000
	// maxRate is a bound that no veth pair reaches: 100 Gbit/s in bytes per second.
	maxRate = 12_500_000_000
)

// bucket returns the token bucket for a rate in bytes per second, or nil without a bound. Windows does not document
// how far a port may exceed its bound for a moment: 20 ms of the rate here, four frames at least. A queue of 100 ms
// holds the data that TCP sends before it notices; 64 KiB is the largest packet that a program can send.
func bucket(rate uint64, mtu int) *Bucket {
	if rate == 0 || rate >= maxRate {
		return nil
	}
	rate = max(rate, minRate)
	frame := uint64(cmp.Or(mtu, defaultMTU)) + ethernetHeader
	burst := max(rate/50, 4*frame)
	queue := burst + max(rate/10, 1<<16)
	return &Bucket{Rate: rate, Burst: uint32(min(burst, math.MaxInt32)), Queue: uint32(min(queue, math.MaxInt32))}
}

// ethernetHeader is ETH_HLEN of linux/if_ether.h, in bytes.
const ethernetHeader = 14
