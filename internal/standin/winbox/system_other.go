// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

//go:build !windows

package winbox

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"time"
)

type system struct{}

// errNotWindows is returned by what only Windows can do.
var errNotWindows = errors.New("works on Windows only")

// NewSystem is of little use outside Windows; tests bring their own.
func NewSystem() System { return system{} }

func (system) Hostname() (string, error)     { return os.Hostname() }
func (system) Identity() (Identity, error)   { return Identity{}, errNotWindows }
func (system) Network() (Network, error)     { return Network{}, errNotWindows }
func (system) OS() (OSInfo, error)           { return OSInfo{}, errNotWindows }
func (system) Processes() ([]Process, error) { return nil, errNotWindows }

func (system) HNSCall(context.Context, string, string) (string, error) { return "", errNotWindows }

func (system) Security(string) (Security, error)  { return Security{}, errNotWindows }
func (system) SetSecurity(string, Security) error { return errNotWindows }
func (system) SetOwner(string, string) error      { return errNotWindows }
func (system) LookupSID(string) (string, error)   { return "", errNotWindows }

func (system) Echo(context.Context, netip.Addr, int, int, time.Duration) (EchoReply, error) {
	return EchoReply{}, errNotWindows
}

func (system) Routes() ([]Route, error)            { return nil, errNotWindows }
func (system) Routes6() ([]Route, error)           { return nil, errNotWindows }
func (system) AddRoute(Route) error                { return errNotWindows }
func (system) DeleteRoute(Route) error             { return errNotWindows }
func (system) Interfaces() ([]Interface, error)    { return nil, errNotWindows }
func (system) SetInterface(Interface) error        { return errNotWindows }
func (system) PersistentRoutes() ([]string, error) { return nil, errNotWindows }
func (system) KeepRoute(string) error              { return errNotWindows }
func (system) ForgetRoute(string) error            { return errNotWindows }
