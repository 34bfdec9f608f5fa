// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package admission_test

import (
	"context"
	"encoding/json"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/mullion-k8s/mullion/internal/manager/facts"
	"github.com/mullion-k8s/mullion/internal/manager/inventory"
	"github.com/mullion-k8s/mullion/internal/policy"
	"github.com/mullion-k8s/mullion/internal/registry/lookup"
	"github.com/mullion-k8s/mullion/internal/testenv"
)

// privateRegistry wants a password for everything below private/.
func privateRegistry(t *testing.T) (host string) {
	t.Helper()
	reg := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		if (user != "u" || password != "p") && (r.URL.Path == "/v2/" || strings.HasPrefix(r.URL.Path, "/v2/private/")) {
			w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		reg.ServeHTTP(w, r)
	}))
	t.Cleanup(srv.Close)
	return srv.Listener.Addr().String()
}

func push(t *testing.T, ref, os, version string) {
	t.Helper()
	image, err := mutate.ConfigFile(empty.Image, &v1.ConfigFile{OS: os, Architecture: "amd64", OSVersion: version})
	if err != nil {
		t.Fatal(err)
	}
	tag, err := name.NewTag(ref)
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(tag, image, remote.WithAuth(&authn.Basic{Username: "u", Password: "p"})); err != nil {
		t.Fatal(err)
	}
}

// TestImagesThatSayNothing: pods whose images' names say nothing are placed by
// what the registry says, with the pod's credentials, and by what was loaded.
func TestImagesThatSayNothing(t *testing.T) {
	c := startCluster(t)
	c.addNodes()
	host := privateRegistry(t)
	push(t, host+"/public/shop:1", "windows", build2019+".1")
	push(t, host+"/public/web:1", "linux", "")
	push(t, host+"/private/shop:1", "windows", build2022+".1")
	ctx := t.Context()
	auths, err := json.Marshal(
		map[string]any{"auths": map[string]any{host: map[string]string{"username": "u", "password": "p"}}})
	if err != nil {
		t.Fatal(err)
	}
	api := c.Admin().CoreV1()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "pull"}, Type: corev1.SecretTypeDockerConfigJson,
		Data: map[string][]byte{corev1.DockerConfigJsonKey: auths}}
	if _, err := api.Secrets("default").Create(ctx, secret, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	m, _ := c.startManager(nil)
	c.ready(m)
	if err := facts.RecordLoaded(ctx, c.Admin(), "",
		[]facts.Loaded{{Reference: "mine:1", OS: "windows", Arch: "amd64", OSVersion: build2022 + ".1"}}); err != nil {
		t.Fatal(err)
	}
	placed := func(image string, secrets ...corev1.LocalObjectReference) map[string]string {
		t.Helper()
		p, err := api.Pods("default").Create(ctx, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "p"},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: image}},
				ImagePullSecrets: secrets},
		}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil {
			t.Fatalf("%s: %v", image, err)
		}
		return p.Spec.NodeSelector
	}
	is := func(selector map[string]string, os, build string) bool {
		return selector[corev1.LabelOSStable] == os && selector[corev1.LabelWindowsBuild] == build
	}
	// A registry on a busy machine may need longer than the budget; the next asks what is kept.
	testenv.Until(t, "the image of a public registry is known", func() bool {
		return is(placed(host+"/public/shop:1"), "windows", build2019)
	})
	testenv.Until(t, "the image of a private registry is known", func() bool {
		return is(placed(host+"/private/shop:1", corev1.LocalObjectReference{Name: "pull"}), "windows", build2022)
	})
	testenv.Until(t, "the loaded image is known", func() bool {
		return is(placed("docker.io/library/mine:1"), "windows", build2022)
	})
	if got := placed(host + "/public/web:1"); got[corev1.LabelOSStable] != "linux" {
		t.Errorf("image for Linux: %v", got)
	}
	if got := placed(host + "/private/shop:1"); got[corev1.LabelOSStable] != "linux" {
		t.Errorf("without the credentials: %v", got)
	}
}

// TestRightsOfFacts: the rights that facts asks for are enough, and the
// lack of one only leaves something unknown.
func TestRightsOfFacts(t *testing.T) {
	c := startCluster(t)
	c.addNodes()
	ctx, client := t.Context(), c.Admin()
	if err := facts.RecordLoaded(ctx, client, "", []facts.Loaded{{Reference: "mine:1", OS: "windows"}}); err != nil {
		t.Fatal(err)
	}
	const namespace = inventory.Namespace
	grant := func(account string, cluster, own []rbacv1.PolicyRule) kubernetes.Interface {
		t.Helper()
		meta := metav1.ObjectMeta{Name: account, Namespace: namespace}
		subjects := []rbacv1.Subject{{Kind: "ServiceAccount", Name: account, Namespace: namespace}}
		rbac := client.RbacV1()
		_, err1 := rbac.ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: meta, Rules: cluster},
			metav1.CreateOptions{})
		_, err2 := rbac.ClusterRoleBindings().Create(ctx,
			&rbacv1.ClusterRoleBinding{ObjectMeta: meta, Subjects: subjects,
				RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: account}},
			metav1.CreateOptions{})
		_, err3 := rbac.Roles(namespace).Create(ctx, &rbacv1.Role{ObjectMeta: meta, Rules: own}, metav1.CreateOptions{})
		_, err4 := rbac.RoleBindings(namespace).Create(ctx, &rbacv1.RoleBinding{ObjectMeta: meta, Subjects: subjects,
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: account}}, metav1.CreateOptions{})
		for _, err := range []error{err1, err2, err3, err4} {
			if err != nil {
				t.Fatal(err)
			}
		}
		cfg := c.REST()
		cfg.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:" + namespace + ":" + account}
		out, err := kubernetes.NewForConfig(cfg)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	object := map[string]any{"apiVersion": "v1", "kind": "Pod",
		"spec": map[string]any{"containers": []any{map[string]any{"image": "mine:1"}}}}
	known := func(client kubernetes.Interface) policy.Facts {
		t.Helper()
		s := facts.New(client, facts.Config{Log: slog.New(slog.DiscardHandler), Registry: lookup.Config{Off: true}})
		ctx, cancel := context.WithCancel(ctx)
		done := make(chan error, 1)
		go func() { done <- s.Run(ctx) }()
		defer func() {
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		}()
		testenv.Until(t, "the facts are known", s.Synced)
		f, warnings := s.Facts(ctx, "default", policy.Parse(object))
		if len(warnings) > 0 {
			t.Errorf("warnings %q", warnings)
		}
		return f
	}
	all := known(grant("all", facts.Rules(), facts.NamespaceRules()))
	if len(all.Nodes) != 3 || all.RuntimeClasses == nil || len(all.Namespaces) != 1 || len(all.Images) != 1 ||
		all.Kubernetes == 0 {
		t.Errorf("with all rights: %+v", all)
	}
	some := grant("some",
		[]rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"list", "watch"}}},
		nil)
	if f := known(some); len(f.Nodes) != 3 || f.RuntimeClasses != nil || f.Namespaces != nil || f.Images != nil {
		t.Errorf("with the right to nodes only: %+v", f)
	}
	f, notes, err := facts.Read(ctx, some)
	if err != nil || len(f.Nodes) != 3 || len(notes) != 3 {
		t.Errorf("read once: %+v, notes %q, error %v", f, notes, err)
	}
}
