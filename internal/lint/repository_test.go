// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package lint

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
)

const (
	windowsWeb = `apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      os: {name: windows}
      nodeSelector: {kubernetes.io/os: windows}
      containers:
      - name: web
        image: registry.example/web
        ports: [{name: http, containerPort: 80}]
        resources: {limits: {memory: 1Gi}}
`
	linuxWeb = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec:\n" +
		"  selector: {matchLabels: {app: web}}\n" +
		"  template:\n    metadata: {labels: {app: web}}\n" +
		"    spec: {containers: [{name: web, image: registry.example/web, ports: [{name: web, containerPort: 80}]}]}\n"
	webService = "apiVersion: v1\nkind: Service\nmetadata:\n  # one comment\n  labels:\n    name: other\n" +
		"  name: \"web\" # another\nspec: {selector: {app: web}, ports: [{port: 80, targetPort: web}]}\n"
	otherService = "apiVersion: v1\nkind: Service\nmetadata: {labels: {a: b}, name: other}\n" +
		"spec: {selector: {app: web}, ports: [{port: 80, targetPort: web}]}\n"
	mountedClaim = "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: data}\n" +
		"spec: {accessModes: [ReadWriteOnce], volumeMode: Block, resources: {requests: {storage: 1Gi}}}\n"
	mounts = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  os: {name: windows}\n" +
		"  nodeSelector: {kubernetes.io/os: windows}\n" +
		"  volumes: [{name: d, persistentVolumeClaim: {claimName: data}}]\n" +
		"  containers: [{name: c, image: registry.example/c, resources: {limits: {memory: 1Gi}}}]\n"
	settings   = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {color: red}\n"
	noSettings = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\n"
	reads      = "apiVersion: v1\nkind: Pod\nmetadata: {name: reads}\nspec:\n  containers:\n  - name: c\n" +
		"    image: registry.example/c\n" +
		"    env: [{name: C, valueFrom: {configMapKeyRef: {name: settings, key: colour}}}]\n"
	class = "apiVersion: node.k8s.io/v1\nkind: RuntimeClass\nmetadata: {name: windows}\n" +
		"handler: runhcs-wcow-process\n" +
		"scheduling: {nodeSelector: {kubernetes.io/os: windows, node.kubernetes.io/windows-build: 10.0.20348}}\n"
	ofClass = "apiVersion: v1\nkind: Pod\nmetadata: {name: classy}\nspec:\n  runtimeClassName: windows\n" +
		"  containers: [{name: c, image: 'mcr.microsoft.com/windows/nanoserver:1809', resources: {limits: " +
		"{memory: 1Gi}}}]\n"
)

// TestRepository judges repositories as they are: relations hold between objects
// that are applied together, and not between examples and environments that have
// the same objects.
func TestRepository(t *testing.T) {
	for _, c := range []struct {
		name  string
		files []string // FILE, CONTENT, …
		want  []string // FILE CODE
	}{
		{"folders by kind", []string{"deploy/web.yaml", windowsWeb, "services/web.yaml", webService},
			[]string{"services/web.yaml WIN623"}},
		{"one file", []string{"web.yaml", windowsWeb + "---\n" + webService}, []string{"web.yaml WIN623"}},
		{"folder below", []string{"svc.yaml", otherService, "linux/web.yaml", linuxWeb, "windows/web.yaml", windowsWeb},
			[]string{"svc.yaml WIN623"}},
		{"an example for each system", []string{"linux/web.yaml", linuxWeb, "linux/svc.yaml", webService,
			"windows/web.yaml", windowsWeb}, nil},
		{"the same Service twice", []string{"a/svc/web.yaml", webService, "b/svc/web.yaml", webService,
			"b/deploy/web.yaml", windowsWeb}, []string{"b/svc/web.yaml WIN623"}},
		{"the same workload twice", []string{"a/deploy/web.yaml", linuxWeb, "a/svc/other.yaml", otherService,
			"b/deploy/web.yaml", windowsWeb}, nil},
		{"environments that share a workload", []string{"base/web.yaml", windowsWeb, "dev/svc.yaml", webService,
			"prod/svc.yaml", webService}, []string{"dev/svc.yaml WIN623", "prod/svc.yaml WIN623"}},
		{"alternatives in a folder", []string{"2019.yaml", windowsWeb + "---\n" +
			strings.Replace(webService, "targetPort: web", "targetPort: http", 1),
			"linux.yaml", linuxWeb + "---\n" + webService}, nil},
		{"a claim of an example without Windows", []string{"block/claim.yaml", mountedClaim, "block/web.yaml", linuxWeb,
			"windows/pod.yaml", mounts}, nil},
		{"a claim", []string{"claim.yaml", mountedClaim, "pod.yaml", mounts}, []string{"claim.yaml WIN211"}},
		{"a key", []string{"settings.yaml", settings, "pod.yaml", reads}, []string{"pod.yaml WIN237"}},
		{"a key of another environment", []string{"dev/settings.yaml", settings, "prod/settings.yaml",
			strings.Replace(settings, "color", "colour", 1), "prod/pod.yaml", reads}, nil},
		{"keys that a program adds", []string{"settings.yaml", noSettings, "pod.yaml", reads}, nil},
		{"a class", []string{"class.yaml", class, "pod.yaml", ofClass}, []string{"pod.yaml WIN702"}},
		{"a class for each environment", []string{"dev/class.yaml", class, "prod/class.yaml",
			strings.Replace(class, "20348", "17763", 1), "pod.yaml", ofClass}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			var cfg Config
			for i := 0; i < len(c.files); i += 2 {
				cfg.Inputs = append(cfg.Inputs, text(c.files[i], c.files[i+1]))
			}
			var got []string
			_, err := Run(t.Context(), cfg, func(r Result) error {
				got = append(got, r.File+" "+r.Code)
				return nil
			})
			got = slices.DeleteFunc(got, func(s string) bool {
				return !slices.ContainsFunc([]string{"WIN623", "WIN211", "WIN237", "WIN702"}, func(code string) bool {
					return strings.HasSuffix(s, code)
				})
			})
			slices.Sort(got)
			if err != nil || !slices.Equal(got, c.want) {
				t.Errorf("%q, want %q (%v)", got, c.want, err)
			}
		})
	}
}

// TestWorlds: what is built or rendered as a whole goes with nothing else.
func TestWorlds(t *testing.T) {
	archive := txtar.Parse([]byte("-- windows --\n" + windowsWeb + "-- service --\n" + webService))
	for i, c := range []struct {
		worlds [2]string
		want   int
	}{
		{[2]string{"", ""}, 1}, {[2]string{"chart a", "chart a"}, 1}, {[2]string{"chart a", "chart b"}, 0},
		{[2]string{"chart a", ""}, 0},
	} {
		var cfg Config
		for j, f := range archive.Files {
			in := text(f.Name, string(f.Data))
			in.World = c.worlds[j]
			cfg.Inputs = append(cfg.Inputs, in)
		}
		found := 0
		_, err := Run(t.Context(), cfg, func(r Result) error {
			if r.Code == "WIN623" {
				found++
			}
			return nil
		})
		if err != nil || found != c.want {
			t.Error(fmt.Sprint(i, ": ", found), "findings, want", c.want, err)
		}
	}
}
