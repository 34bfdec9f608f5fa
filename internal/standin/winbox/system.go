// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package winbox

import (
	"bufio"
	"net/netip"
	"os"
	"strings"
)

// resolvConf is where a container's name resolution is written on the emulated
// host, in the resolver's own format: C:\ of a container is its Linux root.
// On real Windows there is no such file, and the adapters say it all.
const resolvConf = `C:\etc\resolv.conf`

// parseResolv reads the name servers and the search list.
func parseResolv(text string) (servers []netip.Addr, search []string) {
	sc := bufio.NewScanner(strings.NewReader(text))
	for sc.Scan() {
		f := strings.Fields(sc.Text())
		if len(f) < 2 {
			continue
		}
		switch f[0] {
		case "nameserver":
			if a, err := netip.ParseAddr(f[1]); err == nil {
				servers = append(servers, a)
			}
		case "search":
			search = f[1:] // the last line counts
		}
	}
	return servers, search
}

// withResolv completes what the adapters do not know.
func withResolv(n Network, file string) Network {
	text, err := os.ReadFile(file)
	if err != nil {
		return n
	}
	servers, search := parseResolv(string(text))
	if len(n.SearchList) == 0 {
		n.SearchList = search
	}
	for i := range n.Adapters {
		a := &n.Adapters[i]
		if len(a.DNS) == 0 {
			a.DNS = servers
		}
		if a.Suffix == "" && len(search) > 0 {
			a.Suffix = search[0]
		}
	}
	return n
}
