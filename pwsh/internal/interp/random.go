// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package interp

import "math/rand/v2"

// randSource is the session's generator (Get-Random -SetSeed seeds it).
//
// Fidelity: simplified - the sequence of a seed is not .NET's (docs/fidelity/pwsh.md).
type randSource struct{ *rand.Rand }

// Rand returns the session's random numbers.
func (r *Runner) Rand() *rand.Rand {
	if r.rand == nil {
		r.rand = &randSource{rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))}
	}
	return r.rand.Rand
}

// Seed makes the random numbers repeatable.
func (r *Runner) Seed(n int64) { r.rand = &randSource{rand.New(rand.NewPCG(uint64(n), 0))} }
