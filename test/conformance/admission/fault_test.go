// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package admission_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mullion-k8s/mullion/internal/manager"
	"github.com/mullion-k8s/mullion/internal/manager/inventory"
	"github.com/mullion-k8s/mullion/internal/manager/registration"
	"github.com/mullion-k8s/mullion/internal/registry/lookup"
	"github.com/mullion-k8s/mullion/internal/testenv"
)

// offline keeps the tests off the internet.
func offline(c *manager.Config) { c.Registry = lookup.Config{Off: true} }

// device is a volume that no Windows pod can have; wantDevice is a pod to which
// another webhook adds it.
const (
	device     = `{"name":"device","hostPath":{"path":"/dev/sda","type":"BlockDevice"}}`
	wantDevice = `apiVersion: v1
kind: Pod
metadata: {name: device, namespace: default, labels: {want: device}}
spec:
  volumes: [{name: empty, emptyDir: {}}]
  containers: [{name: c, image: "` + ltsc2019 + `"}]
`
)

// injector is a third-party mutating webhook. To every pod it adds what Linux
// sidecar injectors add, and to pods that want it a device. It is called after
// our webhooks.
func injector(t *testing.T, c *cluster) {
	t.Helper()
	srv := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review admissionv1.AdmissionReview
		body, err := io.ReadAll(r.Body)
		if err == nil {
			err = json.Unmarshal(body, &review)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		kind := admissionv1.PatchTypeJSONPatch
		review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true, PatchType: &kind,
			Patch: []byte(`[{"op":"add","path":"/spec/securityContext/fsGroup","value":1000},{"op":"add",` +
				`"path":"/metadata/labels","value":{"injected":"yes"}}]`)}
		if bytes.Contains(review.Request.Object.Raw, []byte(`"want":"device"`)) {
			review.Response.Patch = []byte(`[{"op":"add","path":"/spec/volumes/-","value":` + device + `}]`)
		}
		review.Request = nil
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(review); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(srv.Close)
	url, none, scope, timeout := srv.URL, admissionregistrationv1.SideEffectClassNone,
		admissionregistrationv1.NamespacedScope, int32(5)
	api := c.Admin().AdmissionregistrationV1().MutatingWebhookConfigurations()
	_, err := api.Create(t.Context(), &admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "zz-injector"},
		Webhooks: []admissionregistrationv1.MutatingWebhook{{
			Name: "injector.example.com", AdmissionReviewVersions: []string{"v1"}, SideEffects: &none,
			TimeoutSeconds: &timeout, ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: &url,
				CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw})},
			Rules: []admissionregistrationv1.RuleWithOperations{
				{Operations: []admissionregistrationv1.OperationType{"CREATE"},
					Rule: admissionregistrationv1.Rule{
						APIGroups:   []string{""},
						APIVersions: []string{"v1"},
						Resources:   []string{"pods"},
						Scope:       &scope,
					}}},
		}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := api.Delete(context.Background(), "zz-injector", metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
}

// another: what a webhook after ours adds is looked at again.
func another(t *testing.T, c *cluster) {
	injector(t, c)
	testenv.Until(t, "the other webhook is asked", func() bool {
		var got corev1.Pod
		c.must(pod("probe", linux), &got, "create", "-f", "-", "--dry-run=server", "-o", "json")
		return got.Labels["injected"] == "yes"
	})
	for _, os := range []string{"", "  os: {name: windows}\n"} {
		var got corev1.Pod
		out, code := c.kubectl(pod("injected", ltsc2019, os), "create", "-f", "-", "--dry-run=server", "-o", "json")
		if code != 0 {
			t.Errorf("refused: %s", out)
			continue
		}
		if err := json.Unmarshal([]byte(out[strings.Index(out, "{"):]), &got); err != nil {
			t.Fatal(err, out)
		}
		if got.Spec.OS == nil || got.Spec.SecurityContext.FSGroup != nil {
			t.Errorf("os %v, fsGroup %v\n%s", got.Spec.OS, got.Spec.SecurityContext.FSGroup, out)
		}
		if !strings.Contains(out, "fsGroup is removed") {
			t.Errorf("there is no warning:\n%s", out)
		}
	}
	finallyRefused(t, c)
}

// finallyRefused checks that changes by other webhooks after placement are
// validated. The manager may learn of such a webhook later than the API server.
func finallyRefused(t *testing.T, c *cluster) {
	t.Helper()
	testenv.Eventually(t, "a device that another one added is refused", func() error {
		out, code := c.kubectl(wantDevice, "create", "-f", "-", "--dry-run=server")
		if code == 0 || !strings.Contains(out, `webhook "`+registration.PodRulesWebhook+`" denied`) ||
			!strings.Contains(out, "WIN212 spec.volumes[2]") {
			return fmt.Errorf("exit code %d\n%s", code, out)
		}
		return nil
	})
}

// mutatingPolicy does as another, by a policy of the API server.
func mutatingPolicy(t *testing.T, c *cluster) {
	manifest := `
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: devices}
spec:
  failurePolicy: Fail
  reinvocationPolicy: IfNeeded
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]
  matchConditions:
  - name: wants
    expression: "object.metadata.?labels.?want.orValue('') == 'device' &&
      object.spec.volumes.all(v, v.name != 'device')"
  mutations:
  - patchType: JSONPatch
    jsonPatch:
      expression: '[JSONPatch{op: "add", path: "/spec/volumes/-", value: Object.spec.volumes{name: "device",
        hostPath: Object.spec.volumes.hostPath{path: "/dev/sda", type: "BlockDevice"}}}]'
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: devices}
spec: {policyName: devices}
`
	c.must(manifest, nil, "create", "-f", "-")
	defer c.must(manifest, nil, "delete", "-f", "-")
	finallyRefused(t, c)
}

// kept checks that the manager reverts changes to the registration and the Secret.
func kept(t *testing.T, c *cluster) {
	hooks := c.Admin().AdmissionregistrationV1().MutatingWebhookConfigurations()
	before, err := hooks.Get(t.Context(), registration.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	bundle := string(before.Webhooks[0].ClientConfig.CABundle)
	same := func() bool {
		got, err := hooks.Get(t.Context(), registration.Name, metav1.GetOptions{})
		return err == nil && len(got.Webhooks) == len(before.Webhooks) &&
			string(got.Webhooks[0].ClientConfig.CABundle) == bundle &&
			*got.Webhooks[0].FailurePolicy == admissionregistrationv1.Ignore
	}
	patch := `[{"op":"replace","path":"/webhooks/0/clientConfig/caBundle","value":"` +
		base64.StdEncoding.EncodeToString(testenv.NewAuthority(t).PEM) +
		`"},{"op":"replace","path":"/webhooks/0/failurePolicy","value":"Fail"}]`
	if _, err := hooks.Patch(t.Context(), registration.Name, types.JSONPatchType, []byte(patch),
		metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	testenv.Until(t, "an edit is undone", same)
	if err := hooks.Delete(t.Context(), registration.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	testenv.Until(t, "a removal is undone", same)

	secrets := c.Admin().CoreV1().Secrets(inventory.Namespace)
	secret, err := secrets.Get(t.Context(), inventory.Secret, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	back := func() bool {
		got, err := secrets.Get(t.Context(), inventory.Secret, metav1.GetOptions{})
		return err == nil && string(got.Data["ca.crt"]) == string(secret.Data["ca.crt"]) &&
			string(got.Data["tls.key"]) == string(secret.Data["tls.key"])
	}
	if err := secrets.Delete(t.Context(), inventory.Secret, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	testenv.Until(t, "the Secret is put back", back)
	damaged, err := secrets.Get(t.Context(), inventory.Secret, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	damaged.Data["tls.crt"] = []byte("x")
	if _, err := secrets.Update(t.Context(), damaged, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	testenv.Until(t, "the damaged Secret is replaced", back)
	testenv.Until(t, "pods are placed after all that", func() bool {
		var got corev1.Pod
		c.must(pod("probe", linux), &got, "create", "-f", "-", "--dry-run=server", "-o", "json")
		return got.Spec.NodeSelector["kubernetes.io/os"] == "linux"
	})
}

// TestWebhooksDown: pods are made without the webhooks, but none that uses a
// GMSA; and the next manager takes over.
func TestWebhooksDown(t *testing.T) {
	c := startCluster(t)
	c.addNodes()
	var address string
	m, stop := c.startManager(func(cfg *manager.Config) {
		offline(cfg)
		address = cfg.Listener.Addr().String()
	})
	c.ready(m)
	c.must(credentialSpec, nil, "create", "-f", "-")
	c.must(mayUse, nil, "create", "-f", "-")
	stop()
	without := func(t *testing.T, why string) {
		t.Helper()
		var got corev1.Pod
		out, code := c.kubectl(pod("alone", ltsc2019), "create", "-f", "-", "--dry-run=server", "-o", "json")
		if code != 0 || json.Unmarshal([]byte(out), &got) != nil || got.Spec.NodeSelector != nil {
			t.Errorf("%s: %d\n%s", why, code, out)
		}
		if out, code := c.kubectl(pod("alone", ltsc2019,
			"  securityContext: {windowsOptions: {gmsaCredentialSpecName: web}}\n"), "create", "-f", "-",
			"--dry-run=server"); code == 0 || !strings.Contains(out, `failed calling webhook "gmsa.mullion.dev"`) {
			t.Errorf("%s: a pod with a GMSA: %d\n%s", why, code, out)
		}
	}
	without(t, "the port is closed")
	foreign := testenv.NewAuthority(t).Issue(t, x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}})
	for _, tc := range badWebhooks(foreign, c.servingCertificate()) {
		asked := tc.serve(t, address)
		without(t, tc.name)
		if got := asked(); got != tc.asked {
			t.Errorf("%s: the webhook was reached: %v, want %v", tc.name, got, tc.asked)
		}
	}

	m, _ = c.startManager(offline) // at another address
	c.ready(m)
	c.must(pod("again", ltsc2019, "  securityContext: {windowsOptions: {gmsaCredentialSpecName: web}}\n"), nil,
		"create", "-f", "-", "--dry-run=server")
}

// servingCertificate returns the one that the API server trusts.
func (c *cluster) servingCertificate() tls.Certificate {
	c.t.Helper()
	secret, err := c.Admin().CoreV1().Secrets(inventory.Namespace).Get(c.t.Context(), inventory.Secret,
		metav1.GetOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey])
	if err != nil {
		c.t.Fatal(err)
	}
	return pair
}

// badWebhook listens where the webhooks should.
type badWebhook struct {
	name  string
	cert  tls.Certificate
	reply http.HandlerFunc
	asked bool // the API server's question arrives
}

func badWebhooks(foreign, trusted tls.Certificate) []badWebhook {
	say := func(code int, text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(code)
			_, _ = io.WriteString(w, text) // the API server may have left
		}
	}
	return []badWebhook{
		{"wrong certificate", foreign, say(http.StatusOK, ""), false},
		{"error 500", trusted, say(http.StatusInternalServerError, "broken"), true},
		{"no answer in the answer", trusted, say(http.StatusOK, ""), true},
		{"garbage", trusted, say(http.StatusOK, strings.Repeat("\xff{[", 1000)), true},
		{"another object", trusted, say(http.StatusOK, `{"apiVersion":"v1","kind":"Pod"}`), true},
		{"a foreign question's answer", trusted, say(http.StatusOK, `{"apiVersion":"admission.k8s.io/v1",`+
			`"kind":"AdmissionReview","response":{"uid":"x","allowed":false}}`), true},
		{"slow", trusted, func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil { // a byte now and then, and no end
				_, _ = io.WriteString(w, " ")
				_ = http.NewResponseController(w).Flush()
				select {
				case <-r.Context().Done():
				case <-time.After(100 * time.Millisecond):
				}
			}
		}, true},
		{"hanging", trusted, func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body) // else the server does not see that the client has left
			<-r.Context().Done()
		}, true},
	}
}

// serve listens until the function that it returns is called, which reports
// whether the API server asked.
func (b badWebhook) serve(t *testing.T, address string) (asked func() bool) {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	var reached atomic.Bool
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		reached.Store(true)
		b.reply(w, r)
	}))
	srv.Config.ErrorLog = log.New(io.Discard, "", 0) // refused handshakes
	srv.Listener.Close()
	srv.Listener, srv.TLS = l, &tls.Config{Certificates: []tls.Certificate{b.cert}}
	srv.StartTLS()
	return func() bool {
		srv.CloseClientConnections()
		srv.Close()
		return reached.Load()
	}
}
