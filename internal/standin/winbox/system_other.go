// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

//go:build !windows

package winbox

import (
	"context"
	"errors"
	"net/netip"
	"time"
)

type system struct{}

// errNotWindows is returned by methods that work only on Windows.
var errNotWindows = errors.New("works on Windows only")

// NewSystem is of little use outside Windows; tests bring their own.
func NewSystem() System { return system{} }

func (system) SearchList() []string { return nil }

func (system) HNSCall(context.Context, string, string) (string, error) { return "", errNotWindows }

func (system) Echo(context.Context, netip.Addr, int, int, time.Duration) (EchoReply, error) {
	return EchoReply{}, errNotWindows
}
