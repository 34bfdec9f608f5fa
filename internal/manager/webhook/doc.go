// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package webhook answers the API server's admission reviews: it turns an
// AdmissionReview into a call of package policy, and the outcome into an
// AdmissionReview. It has no rules about Windows.
//
// Three layers, each without knowledge of the next:
//
//	HTTP (server.go)      method, media type, sizes, time, panics → status codes
//	review (review.go)    JSON ↔ Request and Response, with limits
//	webhook (place.go, validate.go, place_then_validate.go, ../gmsa)   Handler: Request → Response
//
// Objects are read as trees and changed by JSON patches, so that fields that
// are newer than this program survive. A Handler that cannot decide returns an
// error: the API server sees a failed call, and applies the webhook's
// failurePolicy. Only findings that policy calls errors are refused.
package webhook
