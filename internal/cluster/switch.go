// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package cluster

import "errors"

// Switch is a setting with the values on and off, as people write and read it.
type Switch bool

func (s Switch) String() string {
	if s {
		return "on"
	}
	return "off"
}

// Set implements pflag.Value.
func (s *Switch) Set(value string) error {
	switch value {
	case "on":
		*s = true
	case "off":
		*s = false
	default:
		return errors.New("want on or off")
	}
	return nil
}

// Type implements pflag.Value.
func (s *Switch) Type() string { return "on|off" }
