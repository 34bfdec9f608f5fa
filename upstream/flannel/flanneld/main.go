// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Command flanneld is flannel on a Linux worker: flannel's own packages, unmodified,
// with the two backends that mixed clusters use. Upstream's main package also links
// backends that need cgo, and starts only where iptables is installed, to remove rules
// of an earlier setting. What it does for a node with --kube-subnet-mgr and
// --ip-masq=false is here in the same order (flannel v0.28.10, main.go).
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/flannel-io/flannel/pkg/backend"
	_ "github.com/flannel-io/flannel/pkg/backend/hostgw"
	_ "github.com/flannel-io/flannel/pkg/backend/vxlan"
	"github.com/flannel-io/flannel/pkg/ipmatch"
	"github.com/flannel-io/flannel/pkg/subnet/kube"
	log "k8s.io/klog/v2"
)

// options have the names of upstream's flags.
type options struct {
	kubeconfig, netConf, subnetFile, iface string
}

func main() {
	var o options
	flag.StringVar(&o.kubeconfig, "kubeconfig-file", "", "kubeconfig of the node")
	flag.StringVar(&o.netConf, "net-config-path", "/etc/kube-flannel/net-conf.json", "network configuration")
	flag.StringVar(&o.subnetFile, "subnet-file", "/run/flannel/subnet.env", "what the CNI plugin reads")
	flag.StringVar(&o.iface, "iface", "", "address of the interface to other nodes")
	log.InitFlags(nil)
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil && ctx.Err() == nil {
		fmt.Fprintf(os.Stderr, "flanneld: %v\n", err)
		stop()
		os.Exit(1)
	}
}

// run connects the pods of this node with those of the others until the context ends.
func run(ctx context.Context, o options) error {
	sm, err := kube.NewSubnetManager(ctx, "", o.kubeconfig, "flannel.alpha.coreos.com", o.netConf, true)
	if err != nil {
		return fmt.Errorf("make subnet manager: %w", err)
	}
	config, err := sm.GetNetworkConfig(ctx)
	if err != nil {
		return fmt.Errorf("read network configuration: %w", err)
	}
	stack, err := ipmatch.GetIPFamily(config.EnableIPv4, config.EnableIPv6)
	if err != nil {
		return err
	}
	publicIP, publicIPv6 := sm.GetStoredPublicIP(ctx)
	extIface, err := ipmatch.LookupExtIface(o.iface, "", "", stack,
		ipmatch.PublicIPOpts{PublicIP: publicIP, PublicIPv6: publicIPv6})
	if err != nil {
		return fmt.Errorf("find interface %s: %w", o.iface, err)
	}
	be, err := backend.NewManager(ctx, sm, extIface).GetBackend(config.BackendType)
	if err != nil {
		return err
	}
	var wg sync.WaitGroup
	network, err := be.RegisterNetwork(ctx, &wg, config)
	if err != nil {
		return fmt.Errorf("register network: %w", err)
	}
	lease := network.Lease()
	if err := sm.HandleSubnetFile(o.subnetFile, config, false, lease.Subnet, lease.IPv6Subnet,
		network.MTU()); err != nil {
		return fmt.Errorf("write %s: %w", o.subnetFile, err)
	}
	log.Infof("flannel is ready: %s, %s", config.BackendType, lease.Subnet)
	wg.Go(func() { network.Run(ctx) })
	if err := sm.CompleteLease(ctx, lease, &wg); err != nil {
		return fmt.Errorf("say that the network is there: %w", err)
	}
	<-ctx.Done()
	wg.Wait()
	return nil
}
