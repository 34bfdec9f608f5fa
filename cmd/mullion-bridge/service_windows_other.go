// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

//go:build !windows

package main

import (
	"github.com/mullion-k8s/mullion/internal/hns"
	"github.com/mullion-k8s/mullion/internal/hns/wire"
)

// service is the HNS of an emulated host in whose network namespace the plugin runs. Other systems don't have
// an HNS.
func service() hns.API { return &wire.Client{Address: wire.DefaultAddress} }
