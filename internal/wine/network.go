// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package wine

import (
	"bytes"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path"
	"strings"
)

// Network is the network configuration of a host or a container in its registry.
type Network struct {
	// Index is the number of the adapter, of which Wine makes the adapter's GUID.
	Index int
	// Adapter is the name by which Windows shows the adapter: "vEthernet (NAME)".
	Adapter   string
	Addresses []netip.Prefix
	Gateway   netip.Addr
	Servers   []string // of DNS
	Suffix    string   // of the adapter; the search list consists of it
}

// adapterGUID is Wine's name for an adapter (dlls/nsiproxy.sys/ndis.c, add_entry).
func adapterGUID(index int) string { return fmt.Sprintf("{%08X-0000-0000-0000-4E6574446576}", index) }

// adapterClass is the key with the names of adapters.
const adapterClass = currentControl + `\Network\{4D36E972-E325-11CE-BFC1-08002BE10318}`

// changes lists the values that Windows has for it, which are on the page
// https://learn.microsoft.com/troubleshoot/windows-client/networking/tcpip-and-nbt-configuration-parameters
// (read 2026-11).
func (n Network) changes() []change {
	var addresses, masks, gateways []string
	for _, p := range n.Addresses {
		addresses = append(addresses, p.Addr().String())
		masks = append(masks, net.IP(net.CIDRMask(p.Bits(), p.Addr().BitLen())).String())
	}
	if n.Gateway.IsValid() {
		gateways = []string{n.Gateway.String()}
	}
	changes := []change{
		{key: services + `\Tcpip\Parameters`, values: []value{
			{"SearchList", n.Suffix}, {"Domain", ""}, {"NV Domain", ""}, {"NameServer", ""},
		}},
		{key: services + `\Tcpip\Parameters\Interfaces\` + adapterGUID(n.Index), values: []value{
			{"EnableDHCP", uint32(0)}, {"Domain", n.Suffix}, {"SearchList", ""},
			{"NameServer", strings.Join(n.Servers, ",")}, {"IPAddress", addresses}, {"SubnetMask", masks},
			{"DefaultGateway", gateways},
		}},
	}
	if n.Adapter != "" {
		changes = append(changes, change{key: adapterClass + `\` + adapterGUID(n.Index) + `\Connection`,
			values: []value{{"Name", n.Adapter}}})
	}
	return changes
}

// WriteContainer writes the network into the registry of a container that was not
// started yet; root is its root directory.
func (n Network) WriteContainer(root *os.Root) error {
	return n.write(root, strings.TrimPrefix(containerPrefix, "/"))
}

// WriteHost writes the network into the registry of a prefix without a wineserver.
func (n Network) WriteHost(prefix string) error {
	root, err := os.OpenRoot(prefix)
	if err != nil {
		return fmt.Errorf("write network into the registry: %w", err)
	}
	defer func() { _ = root.Close() }() // opened for look-ups
	return n.write(root, ".")
}

// write appends the values to the registry's file. A key may stand in it twice:
// the last value counts, and the wineserver writes it once.
func (n Network) write(root *os.Root, prefix string) error {
	name := path.Join(prefix, "system.reg")
	h := &hive{}
	h.apply(n.changes())
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return fmt.Errorf("write network into the registry: %w", err)
	}
	_, err = f.Write(append([]byte("\n"), bytes.TrimPrefix(h.bytes(), []byte("\n"))...))
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return fmt.Errorf("write network into the registry: %w", err)
	}
	return nil
}
