// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package cluster

import (
	"fmt"
	"maps"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/mullion-k8s/mullion/internal/cgroup"
)

// Size is a host's share of the machine.
type Size struct {
	// CPUs is the number of processors; 0 means all of the machine.
	CPUs int `json:"cpus,omitempty"`
	// Memory is a quantity, as 4Gi; "" means a share of the machine's.
	Memory string `json:"memory,omitempty"`
	// Disk is the size of the host's disk, a quantity, as of Memory; "" means a share of the machine's.
	Disk string `json:"disk,omitempty"`
}

// String describes a size for people.
func (s Size) String() string {
	var parts []string
	if s.CPUs != 0 {
		parts = append(parts, fmt.Sprintf("cpus %d", s.CPUs))
	}
	if s.Memory != "" {
		parts = append(parts, "memory "+s.Memory)
	}
	if s.Disk != "" {
		parts = append(parts, "disk "+s.Disk)
	}
	if len(parts) == 0 {
		return "as the other hosts"
	}
	return strings.Join(parts, ", ")
}

// leastHost is the memory that a host needs: with less, its kubelet, which keeps 500 MiB
// free, would evict pods from the start. It is also the least size of a disk
// (host.Config).
const leastHost = 1 << 30

// Validate checks each field by itself; the error is a *fieldError.
func (s Size) Validate() error {
	if s.CPUs < 0 {
		return &fieldError{"cpus", "cpus", fmt.Errorf("%d must not be negative", s.CPUs)}
	}
	for _, f := range []struct{ name, text string }{{"memory", s.Memory}, {"disk", s.Disk}} {
		if f.text == "" {
			continue
		}
		q, err := resource.ParseQuantity(f.text)
		if err != nil {
			return &fieldError{f.name, f.name, fmt.Errorf("%q: want a quantity, as 4Gi", f.text)}
		}
		if q.Value() < leastHost {
			return &fieldError{f.name, f.name, fmt.Errorf("%s is too little: a host needs 1Gi or more", f.text)}
		}
	}
	return nil
}

// bytes returns the memory of a valid size, 0 for a share of the machine's.
func (s Size) bytes() int64 { return valueOf(s.Memory) }

// diskBytes returns the disk size of a valid size, or 0 for an existing disk or a share
// of the machine's disk.
func (s Size) diskBytes() int64 { return valueOf(s.Disk) }

func valueOf(quantity string) int64 {
	q, err := resource.ParseQuantity(quantity)
	if err != nil {
		return 0 // not given
	}
	return q.Value()
}

// limits returns the limits of a host of this size.
func (s Size) limits() cgroup.Limits {
	return cgroup.Limits{MemoryBytes: s.bytes(), MilliCPU: int64(s.CPUs) * 1000}
}

// size returns the size of a host.
func (c Config) size(name string) Size {
	s := c.Size
	if own := c.Sizes[name]; own.CPUs != 0 {
		s.CPUs = own.CPUs
	}
	if own := c.Sizes[name]; own.Memory != "" {
		s.Memory = own.Memory
	}
	if own := c.Sizes[name]; own.Disk != "" {
		s.Disk = own.Disk
	}
	return s
}

// resize gives a host its own size, or removes that size if s is empty.
func (c *Config) resize(name string, s Size) {
	c.Sizes = maps.Clone(c.Sizes)
	delete(c.Sizes, name)
	if s != (Size{}) {
		if c.Sizes == nil {
			c.Sizes = map[string]Size{}
		}
		c.Sizes[name] = s
	}
	if len(c.Sizes) == 0 {
		c.Sizes = nil
	}
}

// checkSizes returns an error for a size that no host can have.
func (c Config) checkSizes() error {
	if err := c.Size.Validate(); err != nil {
		return err
	}
	all := c
	all.Removed = nil
	for name, s := range c.Sizes {
		if !IsNode(all, name) {
			return fmt.Errorf("size of %q: there is no such host", name)
		}
		if err := s.Validate(); err != nil {
			return fmt.Errorf("size of %s: %w", name, err)
		}
	}
	return nil
}
