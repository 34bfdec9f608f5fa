// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package lintcmd

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
)

// answers holds the responses of the tests' API server, by path.
func answers() map[string]string {
	return map[string]string{
		"/version": `{"major": "1", "minor": "36", "gitVersion": "v1.36.3"}`,
		"/api/v1/nodes": `{"kind": "NodeList", "apiVersion": "v1", "items": [{"metadata": {"name": "w1", "labels": {"kubernetes.io/os": "windows", "node.kubernetes.io/windows-build": "10.0.20348"}},
			"spec": {"taints": [{"key": "os", "value": "windows", "effect": "NoSchedule"}]}, "status": {"nodeInfo": {"operatingSystem": "windows", "kernelVersion": "10.0.20348.2402"}}}]}`,
		"/apis/apps/v1/deployments": `{"kind": "DeploymentList", "apiVersion": "apps/v1", "items": [{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "old", "namespace": "shop"},
			"spec": {"template": {"spec": {"nodeSelector": {"kubernetes.io/os": "windows"}, "tolerations": [{"key": "os", "operator": "Equal", "value": "windows", "effect": "NoSchedule"}],
			"containers": [{"name": "c", "image": "mcr.microsoft.com/windows/nanoserver:ltsc2025", "resources": {"limits": {"memory": "1Gi"}}}]}}}}]}`,
	}
}

// apiServer answers as one; everything that has no answer is an empty list.
// It returns a kubeconfig.
func apiServer(t *testing.T, have map[string]string, forbidden ...string) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if slices.Contains(forbidden, r.URL.Path) {
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprint(w, `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Forbidden", "code": 403, "message": "you may not"}`)
			return
		}
		body, ok := have[r.URL.Path]
		if !ok {
			body = `{"kind": "List", "apiVersion": "v1", "metadata": {}, "items": []}`
		}
		fmt.Fprint(w, body)
	}))
	t.Cleanup(s.Close)
	return write(t, t.TempDir(), "kubeconfig", fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: c, clusters: [{name: c, cluster: {server: %q}}], contexts: [{name: c, context: {cluster: c, user: u}}], users: [{name: u, user: {}}]}`, s.URL))
}

func TestClusterFacts(t *testing.T) {
	file := write(t, t.TempDir(), "pod.yaml", strings.Replace(privileged, "    securityContext: {privileged: false}\n", "", 1))
	code, out, errs := call(t, "", "--cluster", "--kubeconfig", apiServer(t, answers()), file)
	if code != 1 || !strings.Contains(out, "WIN404") || !strings.Contains(out, "os=windows:NoSchedule") {
		t.Errorf("exit code %d; want the taint of the cluster's nodes in\n%s%s", code, out, errs)
	}
}

// TestClusterObjects judges what the cluster holds: the place is the object.
func TestClusterObjects(t *testing.T) {
	config := apiServer(t, answers(), "/api/v1/services")
	code, out, errs := call(t, "", "--cluster", "--kubeconfig", config)
	want := "Deployment shop/old: spec.template.spec.containers[0].image: error WIN412: "
	if code != 1 || !strings.HasPrefix(out, want) || !strings.Contains(out, "  fix: ") {
		t.Errorf("exit code %d; want %q in\n%s%s", code, want, out, errs)
	}
	for _, s := range []string{"1 object in the cluster: 1 error, 0 warnings", "services are not known: you may not"} {
		if !strings.Contains(errs, s) {
			t.Errorf("want %q in %s", s, errs)
		}
	}
	for _, format := range []string{"json", "sarif"} {
		_, out, _ := call(t, "", "--cluster", "--kubeconfig", config, "-o", format)
		if !json.Valid([]byte(out)) || !strings.Contains(out, "Deployment shop/old") || strings.Contains(out, `"line"`) {
			t.Errorf("%s: %s", format, out)
		}
	}
}

// TestClusterPlaces: where mullion's admission is installed it adds what pods
// lack, and lint need not ask for it.
func TestClusterPlaces(t *testing.T) {
	have := answers()
	have["/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"] = `{"kind": "MutatingWebhookConfigurationList", "apiVersion": "admissionregistration.k8s.io/v1", "items": [
		{"metadata": {"name": "mullion"}, "webhooks": [{"name": "placement.mullion.dev"}]}]}`
	file := write(t, t.TempDir(), "pod.yaml", strings.Replace(privileged, "    securityContext: {privileged: false}\n", "", 1))
	if code, out, errs := call(t, "", "--cluster", "--kubeconfig", apiServer(t, have), file); code != 0 || out != "" {
		t.Errorf("exit code %d\n%s%s", code, out, errs)
	}
	if code, out, errs := call(t, "", "--placed", "--builds", "2022", "--node-taints", "os=windows:NoSchedule", file); code != 0 || out != "" {
		t.Errorf("exit code %d\n%s%s", code, out, errs)
	}
	if code, out, _ := call(t, "", "--cluster", "--kubeconfig", apiServer(t, have)); code != 1 || !strings.Contains(out, "WIN412") {
		t.Errorf("problems that placement cannot fix are missing: exit code %d\n%s", code, out)
	}
}

func TestClusterIsDown(t *testing.T) {
	config := write(t, t.TempDir(), "kubeconfig", `{apiVersion: v1, kind: Config, current-context: c, clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}], contexts: [{name: c, context: {cluster: c}}]}`)
	code, out, errs := call(t, "", "--cluster", "--kubeconfig", config)
	if code != 1 || out != "" || !strings.Contains(errs, "http://127.0.0.1:1") || !strings.Contains(errs, "refused") {
		t.Errorf("exit code %d\n%s%s", code, out, errs)
	}
}
