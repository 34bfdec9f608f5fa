// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package cluster

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/mullion-k8s/mullion/internal/agent"
	"github.com/mullion-k8s/mullion/internal/policy"
	"github.com/mullion-k8s/mullion/internal/winsys/winver"
)

// fieldError is an error in one field of a Choice.
type fieldError struct {
	Flag  string // of `mullion up`
	Field string // in the file
	Err   error
}

func (e *fieldError) Error() string { return "--" + e.Flag + ": " + e.Err.Error() }

// Unwrap returns the error without the field.
func (e *fieldError) Unwrap() error { return e.Err }

// Validate checks each field by itself; the error is a *fieldError.
func (c Choice) Validate() error {
	for _, w := range c.Windows {
		if _, err := winver.Parse(w); err != nil {
			return &fieldError{"windows", "windows", err}
		}
	}
	if c.Linux != nil && *c.Linux < 0 {
		return &fieldError{"linux", "linux", fmt.Errorf("%d must not be negative", *c.Linux)}
	}
	if err := c.size(Size{}).Validate(); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(c.Sizes)) {
		if f, ok := errors.AsType[*fieldError](c.Sizes[name].Validate()); ok {
			return &fieldError{"config", "sizes." + name + "." + f.Field, f.Err}
		}
	}
	if c.WindowsTaint != nil && *c.WindowsTaint != "" {
		if _, err := policy.ParseWindowsTaint(*c.WindowsTaint); err != nil {
			return &fieldError{"windows-taint", "windowsTaint", err}
		}
	}
	if c.NetworkMode != nil {
		if _, err := agent.ParseNetworkMode(string(*c.NetworkMode)); err != nil {
			return &fieldError{"network", "network", err}
		}
	}
	if c.IPFamily != nil {
		if _, err := parseFamily(*c.IPFamily); err != nil {
			return &fieldError{"ip-family", "ipFamily", err}
		}
	}
	if p := c.LoadBalancerPool; p != nil && *p != "" && *p != noPool {
		if _, err := parsePools(*p); err != nil {
			return &fieldError{"load-balancer-pool", "loadBalancerPool", err}
		}
	}
	if c.Admission != nil {
		if err := c.Admission.Validate(); err != nil {
			return &fieldError{"admission", "admission", err}
		}
	}
	if c.without() && c.Admission != nil && *c.Admission != "" {
		return &fieldError{"no-admission", "noAdmission", fmt.Errorf(
			"it excludes admission %s: there would be no webhooks", *c.Admission)}
	}
	if c.Datastore != nil {
		if err := c.Datastore.Validate(); err != nil {
			return &fieldError{"datastore-endpoints", "datastore", err}
		}
	}
	return nil
}
