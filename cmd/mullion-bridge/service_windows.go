// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package main

import (
	"github.com/mullion-k8s/mullion/internal/hns"
	"github.com/mullion-k8s/mullion/internal/hns/native"
)

func service() hns.API { return native.New() }
