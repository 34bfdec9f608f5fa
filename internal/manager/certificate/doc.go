// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package certificate makes and renews the serving certificate of the webhooks
// and the authority that signs it, and keeps both in a Secret, so that no other
// program (cert-manager, a job of an installation) is needed.
//
// What follows what is decided by one pure function, Advance, from what the
// Secret holds and the time:
//
//	nothing, damaged,  ──► new authority + serving certificate
//	expired
//	serving certificate  ──► new serving certificate
//	ages, or names change
//	authority ages  ──► next authority, trusted beside the old one
//	   one overlap later ──► it signs a new serving certificate; the old one is
//	                         still trusted
//	   one overlap later ──► the old one is dropped
//
// At every moment each certificate that a manager may still serve is trusted by
// each bundle that an API server may still have, if both learn of a change
// within the overlap.
//
// Keeper does it: several managers may race, the API server's optimistic lock
// decides, and who lost reads what the winner wrote.
package certificate
