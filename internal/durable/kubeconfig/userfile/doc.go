// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package userfile adds the contexts of clusters to the kubeconfig file that the
// user's kubectl reads, for `mullion up`, and removes them again, for `mullion down`.
package userfile
