// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package clustercmd

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/mullion-k8s/mullion/internal/cli"
	"github.com/mullion-k8s/mullion/internal/cluster"
)

// TestEveryFlagIsAField: what a flag of `mullion up` says can be said in the file of
// --config. Flags that do not describe the cluster are listed here.
func TestEveryFlagIsAField(t *testing.T) {
	elsewhere := []string{"config", "name", "data-dir", "dry-run", "output", "wait", "kubeconfig"}
	values := map[string]string{
		"windows": "2019,2022", "linux": "3", "windows-taint": "os=windows:NoSchedule", "network": "vxlan",
		"admission": "warn", "no-admission": "true", "no-metrics": "true", "network-policy": "false",
		"no-storage":          "true",
		"datastore-endpoints": "https://etcd:2379",
		"cpus":                "2", "memory": "4Gi", "disk": "20Gi", "dsr": "false",
		"load-balancer-pool": "192.168.240.0/28,fd12::/112",
		"windows-limits":     "off", "ip-family": "dual",
	}
	with := map[string][]string{"datastore-endpoints": {"--datastore-cafile=/ca"}}
	alone := []string{"datastore-cafile", "datastore-certfile", "datastore-keyfile"} // fields of the datastore
	Up(cli.Streams{}).Flags().VisitAll(func(f *pflag.Flag) {
		if slices.Contains(elsewhere, f.Name) || slices.Contains(alone, f.Name) {
			return
		}
		value, ok := values[f.Name]
		if !ok {
			t.Errorf("--%s: no field of cluster.Choice says this; see its comment", f.Name)
			return
		}
		cmd := Up(cli.Streams{})
		var c choiceFlags
		cmd.ResetFlags()
		c.add(cmd)
		if err := cmd.ParseFlags(append(with[f.Name], "--"+f.Name+"="+value)); err != nil {
			t.Fatal(err)
		}
		asked, _, err := c.choice(cmd.Flags(), nil)
		if err != nil || reflect.DeepEqual(asked, cluster.Choice{}) {
			t.Fatalf("--%s=%s: %+v, %v", f.Name, value, asked, err)
		}
		text, err := cluster.Document{APIVersion: "mullion.dev/v1alpha1", Kind: "Cluster", Choice: asked}.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		again, err := cluster.ReadDocument(strings.NewReader(string(text)))
		if err != nil || !reflect.DeepEqual(again.Choice, asked) {
			t.Errorf("--%s=%s is in the file %q, which reads as %+v, %v", f.Name, value, text, again.Choice, err)
		}
	})
}
