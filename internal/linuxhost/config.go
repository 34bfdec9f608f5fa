// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package linuxhost

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"

	"github.com/mullion-k8s/mullion/internal/agent"
	"github.com/mullion-k8s/mullion/internal/host"
)

// Config configures one Linux worker.
type Config struct {
	host.Config
	// PodGateway makes the worker a way of the machine, on which the API server runs, into
	// an overlay: its packets for pods of all nodes come to the first one that runs.
	PodGateway bool `json:"podGateway,omitempty"`
}

// dual reports whether the cluster has two address families.
func (c Config) dual() bool { return !c.IPv6.IsZero() }

// machine returns the machine's address in the network between the hosts, or the
// invalid address if the server is named otherwise.
func (c Config) machine() netip.Addr {
	u, err := url.Parse(c.Server)
	if err != nil {
		return netip.Addr{}
	}
	a, _ := netip.ParseAddr(u.Hostname()) // the invalid address for a name
	return a
}

// Load reads a Config.
func Load(path string) (Config, error) { return host.Load(path, (*Config).complete) }

// complete moves settings of documents of earlier versions to their fields, and checks the result.
func (c *Config) complete() error {
	c.MoveIPv6()
	return c.Validate()
}

// Validate checks a Config; all faults are reported together.
func (c Config) Validate() error {
	errs := []error{c.Config.Validate()}
	if c.PodGateway && c.Network != agent.VXLAN {
		errs = append(errs, fmt.Errorf("podGateway is for the network %s", agent.VXLAN))
	}
	if c.PodGateway && !c.machine().IsValid() {
		errs = append(errs, fmt.Errorf("server %q: podGateway needs the machine's address there", c.Server))
	}
	return errors.Join(errs...)
}
