// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package hnstest

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mullion-k8s/mullion/internal/hns"
	"github.com/mullion-k8s/mullion/internal/hns/schema"
	"github.com/mullion-k8s/mullion/internal/testenv"
)

// installCNI puts CNI plugins into C:\cni.
func (p *prefixed) installCNI(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		exe, err := os.ReadFile(testenv.Bin("windows", name))
		if err != nil {
			testenv.Need(t, testenv.Built)
			t.Fatal(err)
		}
		dir := filepath.Join(p.dir, "drive_c/cni")
		if err := errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, name), exe, 0o755)); err != nil {
			t.Fatal(err)
		}
	}
}

// bridged is a pod and the plugin that gives it addresses.
type bridged struct {
	*prefixed
	address, namespace string
}

// run calls mullion-bridge.exe and returns what it printed, and whether it succeeded.
func (b bridged) run(t *testing.T, command, config string) ([]byte, bool) {
	t.Helper()
	cmd := b.command(t.Context(), b.address, `C:\cni\mullion-bridge.exe`)
	cmd.Env = append(cmd.Env, "CNI_COMMAND="+command, "CNI_CONTAINERID=0123abcd", "CNI_NETNS="+b.namespace,
		"CNI_IFNAME=eth0", `CNI_PATH=C:\cni`)
	cmd.Stdin = strings.NewReader(config)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return out.Bytes(), err == nil
}

// leases returns the addresses that host-local has given away.
func (b bridged) leases(t *testing.T) []string {
	t.Helper()
	var found []string
	root := filepath.Join(b.dir, "drive_c/cni/dual")
	err := filepath.WalkDir(root, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		// It writes an address' colons as underscores, which Windows' file names cannot have.
		if a, err := netip.ParseAddr(strings.ReplaceAll(d.Name(), "_", ":")); err == nil {
			found = append(found, a.String())
		}
		return nil
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return found
}

// bridgeConfig returns a configuration with ranges of host-local, and for CHECK the result of ADD.
func bridgeConfig(t *testing.T, previous []byte, ranges ...string) string {
	t.Helper()
	config := map[string]any{
		"cniVersion": "1.0.0", "name": "dual", "type": "mullion-bridge", "apiVersion": 2,
		"ipam": map[string]any{"type": "host-local", "dataDir": `C:\cni\dual`,
			"ranges": json.RawMessage("[[" + strings.Join(ranges, "],[") + "]]")},
	}
	if previous != nil {
		config["prevResult"] = json.RawMessage(previous)
	}
	text, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// testMullionBridge gives a pod addresses of both families and of each, with our plugin and upstream's host-local.
func testMullionBridge(t *testing.T, p *prefixed) {
	p.installCNI(t, "mullion-bridge.exe", "host-local.exe")
	s := open(t, schema.Version{})
	b := bridged{p, serve(t, s), ""}
	c := &client{T: t, api: s}
	c.create(hns.Network, schema.GUID{}, `{"Name":"dual","Type":"L2Bridge","SchemaVersion":{"Major":2,"Minor":0},
		"Ipams":[{"Type":"Static","Subnets":[{"IpAddressPrefix":"198.18.1.0/24",
		  "Routes":[{"NextHop":"198.18.1.1","DestinationPrefix":"0.0.0.0/0"}]},{"IpAddressPrefix":"fd00:18:1::/64",
		  "Routes":[{"NextHop":"fd00:18:1::1","DestinationPrefix":"::/0"}]}]}]}`)
	var err error
	if b.namespace, err = s.CreateNamespace(t.Context()); err != nil {
		t.Fatal(err)
	}
	const four = `{"subnet":"198.18.1.0/24","rangeStart":"198.18.1.3"}`
	const six = `{"subnet":"fd00:18:1::/64","rangeStart":"fd00:18:1::3"}`
	for name, v := range map[string]struct{ ranges, want []string }{
		"both families": {[]string{four, six}, []string{"198.18.1.3/24", "fd00:18:1::3/64"}},
		"IPv4":          {[]string{four}, []string{"198.18.1.3/24"}},
		"IPv6":          {[]string{six}, []string{"fd00:18:1::3/64"}},
	} {
		t.Run(name, func(t *testing.T) { b.cycle(t, c, v.ranges, v.want) })
	}
	for name, v := range map[string]struct{ config, want string }{
		"no JSON":    {"{", "unexpected end"},
		"no network": {strings.Replace(bridgeConfig(t, nil, four), `"dual"`, `"other"`, 1), "HNS has no network other"},
		"no subnet":  {bridgeConfig(t, nil, `{"subnet":"nonsense"}`), "nonsense"},
	} {
		t.Run(name, func(t *testing.T) {
			if out, ok := b.run(t, "ADD", v.config); ok || !bytes.Contains(out, []byte(v.want)) {
				t.Errorf("ADD: success %v, want an error with %q: %s", ok, v.want, out)
			}
			if ids, kept := c.enumerate(hns.Endpoint, ""), b.leases(t); len(ids)+len(kept) != 0 {
				t.Errorf("endpoints %v and addresses %q are left", ids, kept)
			}
		})
	}
}

// cycle adds a pod twice, checks it, and removes it twice.
func (b bridged) cycle(t *testing.T, c *client, ranges, want []string) {
	// host-local begins behind the last address that it gave away.
	if err := os.RemoveAll(filepath.Join(b.dir, "drive_c/cni/dual")); err != nil {
		t.Fatal(err)
	}
	config := bridgeConfig(t, nil, ranges...)
	var first []byte
	for range 2 {
		out, ok := b.run(t, "ADD", config)
		var result struct {
			IPs []struct{ Address string }
		}
		var got []string
		if err := json.Unmarshal(out, &result); err != nil || !ok {
			t.Fatalf("ADD: success %v, %v: %s", ok, err, out)
		}
		for _, ip := range result.IPs {
			got = append(got, ip.Address)
		}
		if strings.Join(got, " ") != strings.Join(want, " ") {
			t.Errorf("addresses %q, want %q", got, want)
		}
		if ids := c.enumerate(hns.Endpoint, ""); len(ids) != 1 {
			t.Fatalf("endpoints %v, want one", ids)
		}
		first = out
	}
	if kept := b.leases(t); len(kept) != len(want) {
		t.Errorf("host-local has given away %q", kept)
	}
	if out, ok := b.run(t, "CHECK", bridgeConfig(t, first, ranges...)); !ok {
		t.Errorf("CHECK: %s", out)
	}
	if out, ok := b.run(t, "CHECK", config); ok || !bytes.Contains(out, []byte("prevResult is missing")) {
		t.Errorf("CHECK without a result: success %v: %s", ok, out)
	}
	for range 2 {
		if out, ok := b.run(t, "DEL", config); !ok {
			t.Errorf("DEL: %s", out)
		}
		if ids, kept := c.enumerate(hns.Endpoint, ""), b.leases(t); len(ids)+len(kept) != 0 {
			t.Errorf("endpoints %v and addresses %q are left after DEL", ids, kept)
		}
	}
	if out, ok := b.run(t, "CHECK", bridgeConfig(t, first, ranges...)); ok {
		t.Errorf("CHECK of a pod that is gone succeeded: %s", out)
	}
}
