// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package plan_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/mullion-k8s/mullion/internal/controlplane/config"
	"github.com/mullion-k8s/mullion/internal/controlplane/config/ipv6"
	"github.com/mullion-k8s/mullion/internal/controlplane/plan"
	"github.com/mullion-k8s/mullion/internal/testenv"
)

func testConfig() config.Config {
	return config.Config{
		APIVersion:  config.Version,
		Name:        "default",
		DataDir:     "/var/lib/mullion/clusters/default",
		Addresses:   []netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("10.89.0.1")},
		Port:        6443,
		NodeCIDR:    netip.MustParsePrefix("10.89.0.0/24"),
		PodCIDR:     netip.MustParsePrefix("10.244.0.0/16"),
		ServiceCIDR: netip.MustParsePrefix("10.96.0.0/16"),
		DNSAddress:  netip.MustParseAddrPort("10.89.0.1:53"),

		NetworkPolicy:  true,
		MetricsAddress: netip.MustParseAddrPort("10.89.0.1:4443"),
	}.Default()
}

func machine() plan.Machine {
	return plan.Machine{Resolvers: []netip.AddrPort{netip.MustParseAddrPort("192.0.2.53:53"),
		netip.MustParseAddrPort("10.89.0.1:53")}}
}

func TestGolden(t *testing.T) {
	external := testConfig()
	external.Datastore = config.Datastore{
		Endpoints: []string{"https://a:2379", "https://b:2379"},
		CAFile:    "/etcd/ca.crt",
		CertFile:  "/etcd/c.crt",
		KeyFile:   "/etcd/c.key",
	}
	noDNS := testConfig()
	noDNS.DNSAddress, noDNS.MetricsAddress = netip.AddrPort{}, netip.AddrPort{}
	admission := testConfig()
	admission.AdmissionPort = 9443
	balanced := testConfig()
	balanced.LoadBalancer = config.LoadBalancer{Pool: netip.MustParsePrefix("10.90.0.0/24"), Router: "/run/netns/m"}
	dual := testConfig()
	dual.IPv6 = ipv6.Plan{
		NodeCIDR:    netip.MustParsePrefix("fd00:10:89::/64"),
		PodCIDR:     netip.MustParsePrefix("fd00:10:244::/48"),
		ServiceCIDR: netip.MustParsePrefix("fd00:10:96::/112"),
	}
	isolated := testConfig()
	isolated.DNSUpstream = []netip.AddrPort{}
	isolated.ClusterDomain = "k8s.example.com"
	for _, tc := range []struct {
		name string
		c    config.Config
	}{{"default", testConfig()}, {"external_etcd", external}, {"admission", admission}, {"no_dns", noDNS},
		{"load_balancer", balanced}, {"no_upstream", isolated}, {"two_families", dual.Default()}} {
		t.Run(tc.name, func(t *testing.T) {
			p, err := plan.New(tc.c, machine())
			if err != nil {
				t.Fatal(err)
			}
			var b bytes.Buffer
			b.WriteString(p.String())
			if tc.name == "default" || tc.name == "admission" {
				for _, f := range p.Files {
					fmt.Fprintf(&b, "-- %s --\n%s", f.Path, f.Content)
				}
			}
			testenv.Golden(t, tc.name+".txt", b.Bytes())
		})
	}
}

// TestSecurity states the rules that a change of the argv must not break.
func TestSecurity(t *testing.T) {
	p, err := plan.New(testConfig(), machine())
	if err != nil {
		t.Fatal(err)
	}
	argv := func(name string) []string {
		return p.Components[slices.IndexFunc(p.Components, func(c plan.Component) bool { return c.Name == name })].Argv
	}
	api := argv(plan.APIServer)
	for _, want := range []string{"--authorization-mode=Node,RBAC", "--profiling=false",
		"--service-account-extend-token-expiration=false"} {
		if !slices.Contains(api, want) {
			t.Errorf("kube-apiserver lacks %s", want)
		}
	}
	for _, c := range p.Components {
		for _, a := range c.Argv {
			for _, bad := range []string{"--token-auth-file", "--anonymous-auth", "0.0.0.0", "http://", "AlwaysAdmit",
				"AlwaysAllow"} {
				if strings.Contains(a, bad) {
					t.Errorf("%s has %s", c.Name, a)
				}
			}
		}
	}
	for _, f := range p.Files {
		if f.Mode != 0o600 {
			t.Errorf("%s has mode %v", f.Path, f.Mode)
		}
		if !json.Valid(f.Content) {
			t.Errorf("%s is not JSON", f.Path)
		}
		if bytes.Contains(f.Content, []byte("PRIVATE KEY")) {
			t.Errorf("%s holds a key", f.Path)
		}
	}
}

func TestAdminKubeconfig(t *testing.T) {
	data, err := plan.AdminKubeconfig(testConfig(), []byte("ca"), []byte("cert"), []byte("key"))
	if err != nil {
		t.Fatal(err)
	}
	testenv.Golden(t, "admin.kubeconfig", data)
}

func TestObjects(t *testing.T) {
	objects, err := plan.Objects(testConfig(), []byte("ca"))
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	for _, o := range objects {
		fmt.Fprintf(&b, "%s\n", o.Path)
		if err := json.Indent(&b, o.Content, "", "  "); err != nil {
			t.Fatal(err)
		}
		b.WriteByte('\n')
	}
	testenv.Golden(t, "objects.txt", b.Bytes())
}

func TestParseResolvConf(t *testing.T) {
	for _, tc := range []struct{ in, want string }{
		{"", "[]"},
		{"# x\nsearch a b\nnameserver 192.0.2.1\nnameserver\t2001:db8::1 # y\n", "[192.0.2.1:53 [2001:db8::1]:53]"},
		{"nameserver\nnameserver x\nnameserver fe80::1%eth0\n", "[]"},
		{"nameserver 1.1.1.1\nnameserver 1.1.1.2\nnameserver 1.1.1.3\nnameserver 1.1.1.4\n",
			"[1.1.1.1:53 1.1.1.2:53 1.1.1.3:53]"},
		{"nameserver 1.1.1.1 } evil {", "[1.1.1.1:53]"},
	} {
		if got := fmt.Sprint(plan.ParseResolvConf(tc.in)); got != tc.want {
			t.Errorf("%q: %s, want %s", tc.in, got, tc.want)
		}
	}
}

func FuzzParseResolvConf(f *testing.F) {
	f.Add("nameserver 192.0.2.1\n")
	f.Fuzz(func(t *testing.T, in string) {
		p, err := plan.New(testConfig(), plan.Machine{Resolvers: plan.ParseResolvConf(in)})
		if err != nil {
			t.Fatal(err)
		}
		// Nothing of the file but addresses may reach the Corefile: the same
		// number of blocks, always.
		if n := strings.Count(p.Corefile, "{"); n < 3 || n > 4 {
			t.Errorf("Corefile:\n%s", p.Corefile)
		}
	})
}
