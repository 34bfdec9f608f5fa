// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package cluster

import (
	"context"
	"errors"
	"fmt"

	"github.com/mullion-k8s/mullion/internal/host"
	"github.com/mullion-k8s/mullion/internal/netplane/fabric"
	"github.com/mullion-k8s/mullion/internal/supervise"
)

func (r *run) makeFabric(ctx context.Context, p Plan) error {
	f, err := fabric.New(fabricConfig(r.layout, p.Config))
	if err != nil {
		return err
	}
	return inUse(f.Apply(ctx))
}

// inUse adds a hint to the error about addresses that the machine uses for something
// else. A retry would fail, too.
func inUse(err error) error {
	if _, ok := errors.AsType[*fabric.InUseError](err); !ok {
		return err
	}
	return supervise.Permanent(fmt.Errorf("%w; free it ('mullion down --name NAME' removes the remains "+
		"of a cluster), or make this cluster again with other addresses ('mullion down --purge', then 'mullion "+
		"up')", err))
}

// freeAddresses returns an error if a new cluster cannot have the addresses of its index: another
// cluster runs with them, has left them behind when it was killed, or the machine uses them.
func freeAddresses(l Layout, of Config) error {
	c := Config{Name: l.Name, Index: of.Index, IPFamily: of.IPFamily}
	if err := c.networkClaim().taken(); err != nil {
		return err
	}
	f, err := fabric.New(fabricConfig(l, c))
	if err != nil {
		return err
	}
	return f.CheckRanges()
}

func (r *run) removeFabric(ctx context.Context, p Plan) error {
	return removeFabric(ctx, r.layout, p.Config)
}

func removeFabric(ctx context.Context, l Layout, c Config) error {
	f, err := fabric.New(fabricConfig(l, c))
	if err != nil {
		return err
	}
	return f.Delete(ctx)
}

// Clean removes the remains of a killed supervisor from the machine. The cluster must not
// run. A cluster that never existed has no remains. If the cluster's description cannot
// be read, Clean removes the parts that don't need it; the network goes when Purge takes
// its namespace away.
func Clean(ctx context.Context, l Layout) error {
	c, err := Load(l)
	switch {
	case errors.Is(err, ErrNotFound):
		return nil
	case err != nil:
		return unlessInUse(Config{Name: l.Name}.nameClaim(), func() error { return host.Clear(ctx, l.Name) })
	}
	return errors.Join(
		unlessInUse(c.nameClaim(), func() error { return host.Clear(ctx, c.Name) }),
		unlessInUse(c.networkClaim(), func() error {
			// The machine's table has the cluster's name.
			return unlessInUse(c.nameClaim(), func() error { return removeFabric(ctx, l, c) })
		}))
}

// unlessInUse calls remove unless a running cluster of another data directory has
// the name.
func unlessInUse(name claim, remove func() error) error {
	release, err := name.take()
	if _, inUse := errors.AsType[*inUseError](err); inUse {
		return nil
	}
	if err != nil {
		return err
	}
	defer release()
	return remove()
}
