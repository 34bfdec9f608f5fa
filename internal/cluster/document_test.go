// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package cluster

import (
	"reflect"
	"strings"
	"testing"

	"github.com/mullion-k8s/mullion/internal/agent"
	"github.com/mullion-k8s/mullion/internal/controlplane/config"
	"github.com/mullion-k8s/mullion/internal/policy"
)

const documentHead = "apiVersion: mullion.dev/v1alpha1\nkind: Cluster\n"

// TestDocument: a cluster is made from the document of another as that one is.
func TestDocument(t *testing.T) {
	for name, c := range map[string]Config{
		"defaults": {Windows: defaultWindows(), Linux: DefaultLinux},
		"everything": {Windows: []string{"2022"}, WindowsTaint: "os=windows:NoSchedule", NetworkMode: agent.VXLAN,
			Admission: policy.AdmissionWarn,
			Datastore: config.Datastore{Endpoints: []string{"https://etcd:2379"}, CAFile: "/ca", CertFile: "/c",
				KeyFile: "/k"}},
		"no webhooks, no Windows": {NoAdmission: true, NoMetrics: true, Linux: 2},
		"a removed host":          {Windows: defaultWindows(), Linux: 1, Removed: []string{"win-2", "linux-1"}},
		"hosts with sizes": {Windows: []string{"2019", "2022", "2025"}, Linux: 2, Removed: []string{"win-2"},
			Size: Size{CPUs: 2}, Sizes: map[string]Size{"win-3": {CPUs: 1, Memory: "2Gi"}, "linux-2": {Memory: "1Gi"}}},
	} {
		t.Run(name, func(t *testing.T) {
			c.APIVersion, c.Name = apiVersion, "x"
			text, err := NewDocument(c).Marshal()
			if err != nil {
				t.Fatal(err)
			}
			d, err := ReadDocument(strings.NewReader(string(text)))
			if err != nil {
				t.Fatalf("%v\n%s", err, text)
			}
			made, err := create(Layout{t.TempDir(), d.Name}, d.Choice, func(Config) error { return nil })
			if err != nil {
				t.Fatalf("%v\n%s", err, text)
			}
			if !reflect.DeepEqual(made.choice(), c.choice()) {
				t.Errorf("became %+v\n%s", made, text)
			}
			if _, err := c.merge(d.Choice, true); err != nil {
				t.Errorf("differs from itself: %v", err)
			}
		})
	}
}

func TestReadDocument(t *testing.T) {
	for text, want := range map[string]string{ // the error, "" is none
		documentHead: "",
		documentHead + "windows: [2019, '2022', 10.0.26100]\nlinux: 2":   "",
		"# a comment\n---\n" + documentHead + "name: ci\nnetwork: vxlan": "",
		"": "empty file",
		"apiVersion: mullion/v1alpha1\nkind: Cluster":       "this mullion reads apiVersion: mullion.dev/v1alpha1",
		"apiVersion: mullion.dev/v1alpha1\nkind: Node":      `kind "Node"`,
		documentHead + "linus: 1":                           `unknown field "linus"`,
		documentHead + "Linux: 1":                           `unknown field "Linux"`,
		documentHead + "linux: 1\nlinux: 2":                 `key "linux" already set`,
		documentHead + "linux: many":                        "linux",
		documentHead + "linux: -1":                          "linux: -1 must not be negative",
		documentHead + "windows: 2019":                      "want a list of builds",
		documentHead + "windows: [xp]":                      `windows: parse Windows build "xp": unknown`,
		documentHead + "windows: [[2019]]":                  "want a name or a number",
		documentHead + "sizes: {win-1: {memory: '2'}}":      "sizes.win-1.memory: 2 is too little",
		documentHead + "sizes: {win-1: {discs: 2Gi}}":       `unknown field "sizes.win-1.discs"`,
		documentHead + "name: ../x":                         "cluster name",
		documentHead + "network: ipvlan":                    `network: network "ipvlan": want`,
		documentHead + "windowsTaint: os":                   "windowsTaint: taint",
		documentHead + "admission: maybe":                   `admission: admission "maybe": want`,
		documentHead + "admission: warn\nnoAdmission: true": "noAdmission: it excludes admission warn",
		documentHead + "datastore: {caFile: x}":             "datastore: ",
		documentHead + "---\n" + documentHead:               "more than one document",
		"{":                                                 "yaml",
		strings.Repeat("#", maxDocument+1):                  "more than",
	} {
		_, err := ReadDocument(strings.NewReader(text))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%.80q: %v, want %q", text, err, want)
		}
	}
}

// FuzzDocument: a document that is accepted makes a cluster or is refused by its
// rules, and it is the same when it is written and read again.
func FuzzDocument(f *testing.F) {
	for _, s := range []string{
		documentHead + "windows: [2019, ltsc2022]\nlinux: 1\nwindowsTaint: os=windows:NoSchedule\nadmission: warn\n",
		documentHead + "name: x\nwindows: []\nnetwork: vxlan\nnoAdmission: true\n",
		documentHead + "datastore: {endpoints: ['https://etcd:2379'], caFile: /ca.crt}\n",
		documentHead + "windows: [2019]\nsizes: {win-1: {cpus: 1, memory: 2Gi}, linux-1: {}}\n",
		documentHead + "linux: 1e9\n", "a: &a [*a]", "---\n---\n", "{}", "",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		d, err := parseDocument(data)
		if err != nil {
			return
		}
		text, err := d.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		again, err := parseDocument(text)
		if err != nil || !reflect.DeepEqual(again, d) {
			t.Fatalf("%+v came back as %+v, %v\n%s", d, again, err, text)
		}
		c, err := create(Layout{"/nonexistent", "x"}, d.Choice, func(Config) error { return nil })
		if err != nil {
			return
		}
		if _, err := c.merge(d.Choice, true); err != nil {
			t.Errorf("a cluster differs from what it was made of: %v", err)
		}
	})
}
