// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package controlplane

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/miekg/dns"

	// The plugins that the Corefile of package plan names register themselves.
	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/cache"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/forward"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/loadbalance"
)

// coreDNS runs CoreDNS with a Corefile.
type coreDNS struct {
	corefile string
	address  netip.AddrPort
	// name is a name that the server must resolve to be ready.
	name string
	log  *slog.Logger
	up   atomic.Bool
}

func (d *coreDNS) run(ctx context.Context) error {
	caddy.Quiet, dnsserver.Quiet = true, true
	instance, err := caddy.Start(caddy.CaddyfileInput{Filepath: "Corefile", Contents: []byte(d.corefile),
		ServerTypeName: "dns"})
	if err != nil {
		return fmt.Errorf("start CoreDNS: %w", explain(d.address.String(), err))
	}
	bridgeKlog(d.log)
	d.up.Store(true)
	// A server whose socket fails logs it and ends; Wait returns then.
	ended := make(chan struct{})
	go func() {
		instance.Wait()
		close(ended)
	}()
	select {
	case <-ctx.Done():
		errs := instance.ShutdownCallbacks()
		return errors.Join(append(errs, instance.Stop())...)
	case <-ended:
		return errors.New("CoreDNS stopped by itself")
	}
}

// isReady queries a name that every cluster has, as a pod would.
func (d *coreDNS) isReady(ctx context.Context) error {
	if !d.up.Load() {
		return errors.New("the DNS server is not up yet")
	}
	client := dns.Client{Timeout: time.Second}
	reply, _, err := client.ExchangeContext(ctx, new(dns.Msg).SetQuestion(d.name, dns.TypeA), d.address.String())
	if err != nil {
		return fmt.Errorf("query the DNS server: %w", err)
	}
	if reply.Rcode != dns.RcodeSuccess || len(reply.Answer) == 0 {
		return fmt.Errorf("query the DNS server for %s: %s", d.name, dns.RcodeToString[reply.Rcode])
	}
	return nil
}
