// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package hnstest is the conformance suite of hns.API.
package hnstest
