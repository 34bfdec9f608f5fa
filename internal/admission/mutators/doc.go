// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package mutators knows whether anybody else in a cluster may change a new
// pod: a mutating webhook, or a mutating admission policy. Where nobody does,
// what leaves our own webhook is the final state.
//
// It errs to one side: selectors of objects, conditions and bindings are not
// looked at, so that somebody who may change some pods of a namespace counts for
// all of them.
package mutators
