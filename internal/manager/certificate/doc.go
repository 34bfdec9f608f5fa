// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package certificate makes and renews the serving certificate of the webhooks
// and the authority that signs it, and keeps both in a Secret, so that no other
// program (cert-manager, a job of an installation) is needed.
//
// One pure function, advance, decides the next step from the content of the
// Secret and the time:
//
//	empty, damaged,    ──► new authority + serving certificate
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
// Keeper carries this out: several managers may race; the API server's
// optimistic lock decides, and the losers read the winner's version.
package certificate
