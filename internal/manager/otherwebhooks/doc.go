// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package otherwebhooks watches the other objects in a cluster that may change
// a new pod: mutating webhooks and mutating admission policies that are not
// mullion's. Without them, a pod is final when it leaves mullion's own webhook.
//
// It errs on one side: it ignores the object selectors, conditions and bindings
// of others, so that one that may change some pods of a namespace counts for all
// of them.
package otherwebhooks
