// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/alexflint/go-filemutex"
	"github.com/containernetworking/cni/pkg/invoke"
	types "github.com/containernetworking/cni/pkg/types/100"
)

// In an overlay, kube-proxy gives connections that go on to other nodes an address of this node's range,
// the source VIP, and makes an endpoint with it. No pod may have the address, so it is reserved where
// the pods' addresses come from, under the names that RKE2 uses too (rancher/rke2, pkg/windows/flannel.go).
const (
	sourceVIPContainer = "kube-proxy"
	sourceVIPInterface = "source-vip"
)

// reserveSourceVIP returns the node's source VIP. Its reservation is a file, which outlives restarts and
// reboots; one of another range is given back.
func reserveSourceVIP(ctx context.Context, plugins invoke.Exec, c Config, d Disk, podCIDR netip.Prefix) (netip.Addr,
	error) {
	reserved, err := sourceVIPs(ctx, d, c.Network.Name)
	if err != nil {
		return netip.Addr{}, fmt.Errorf("reserve source VIP: %w", err)
	}
	for _, a := range reserved {
		if podCIDR.Contains(a) {
			return a, nil
		}
	}
	conf, err := json.Marshal(cniConfiguration{
		CNIVersion: "1.0.0",
		Name:       c.Network.Name,
		Type:       "host-local",
		IPAM:       cniIPAM{Type: "host-local", DataDir: ipamDir, Ranges: [][]cniRange{{{Subnet: podCIDR}}}},
	})
	if err != nil {
		return netip.Addr{}, fmt.Errorf("reserve source VIP: %w", err)
	}
	args := &invoke.Args{
		Command:     "ADD",
		ContainerID: sourceVIPContainer,
		NetNS:       "none",
		IfName:      sourceVIPInterface,
		Path:        cniBinDir,
	}
	exe := cniBinDir + `\host-local.exe`
	if len(reserved) > 0 {
		args.Command = "DEL"
		if err := invoke.ExecPluginWithoutResult(ctx, exe, conf, args, plugins); err != nil {
			return netip.Addr{}, fmt.Errorf("give back the source VIP of another pod range: %w", err)
		}
		args.Command = "ADD"
	}
	result, err := invoke.ExecPluginWithResult(ctx, exe, conf, args, plugins)
	if err != nil {
		return netip.Addr{}, fmt.Errorf("reserve source VIP: %w", err)
	}
	r, err := types.GetResult(result)
	if err != nil {
		return netip.Addr{}, fmt.Errorf("reserve source VIP: %w", err)
	}
	for _, ip := range r.IPs {
		if a, ok := netip.AddrFromSlice(ip.Address.IP); ok && podCIDR.Contains(a.Unmap()) {
			return a.Unmap(), nil
		}
	}
	return netip.Addr{}, fmt.Errorf("reserve source VIP: host-local gave no address in %s", podCIDR)
}

// sourceVIPs lists the addresses that host-local has reserved for us: files with the address as their name, that
// contain the container and, in the next line, the interface (plugins v1.9.1,
// plugins/ipam/host-local/backend/disk). Windows removes no file that a program has open, and host-local does not
// report a failed removal: the address of a pod would stay reserved. So its lock is held meanwhile.
func sourceVIPs(ctx context.Context, d Disk, network string) (list []netip.Addr, err error) {
	dir := ipamDir + `\` + network
	if _, err := os.Stat(d.Path(dir)); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	unlock, err := lockFile(ctx, d.Path(dir+`\lock`))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	files, err := os.ReadDir(d.Path(dir))
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		a, err := netip.ParseAddr(f.Name())
		if err != nil {
			continue
		}
		content, err := os.ReadFile(d.Path(dir + `\` + f.Name()))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		owner := strings.Fields(string(content))
		if len(owner) == 2 && owner[0] == sourceVIPContainer && owner[1] == sourceVIPInterface {
			list = append(list, a)
		}
	}
	return list, nil
}

// lockEvery is the interval between attempts to lock a file that another process has
// locked.
const lockEvery = 10 * time.Millisecond

// lockFile takes the lock that the CNI plugins take on a file, which it makes if the file does
// not exist.
func lockFile(ctx context.Context, path string) (unlock func() error, err error) {
	m, err := filemutex.New(path)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	for {
		switch err := m.TryLock(); {
		case err == nil:
			return m.Close, nil
		case !errors.Is(err, filemutex.AlreadyLocked):
			return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), m.Close())
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(fmt.Errorf("lock %s: %w", path, context.Cause(ctx)), m.Close())
		case <-time.After(lockEvery):
		}
	}
}
