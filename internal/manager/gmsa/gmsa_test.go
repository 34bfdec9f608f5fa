// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package gmsa

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/mullion-k8s/mullion/internal/manager/webhook"
	"github.com/mullion-k8s/mullion/internal/policy/tree"
)

// fakeCluster knows the credential specs web and db; default may use web.
type fakeCluster struct {
	down  bool
	asked []string
}

func (f *fakeCluster) CredentialSpec(_ context.Context, name string) (string, error) {
	f.asked = append(f.asked, "read "+name)
	switch {
	case f.down:
		return "", errors.New("the API server is down")
	case name == "empty":
		return "", fmt.Errorf("%w: empty", errNoContents)
	case name == "web" || name == "db":
		return `{"CmsPlugins":["ActiveDirectory"],"Name":"` + name + `"}`, nil
	}
	return "", fmt.Errorf("%w: %s", errNotFound, name)
}

func (f *fakeCluster) MayUse(_ context.Context, namespace, account, spec string) (bool, string, error) {
	f.asked = append(f.asked, fmt.Sprintf("may %s/%s use %s", namespace, account, spec))
	if f.down {
		return false, "", errors.New("the API server is down")
	}
	return namespace == "ns" && account == "default" && spec != "db", "", nil
}

func (f *fakeCluster) OptedOut(_ context.Context, namespace string) (bool, error) {
	f.asked = append(f.asked, "labels of "+namespace)
	if f.down {
		return false, errors.New("the API server is down")
	}
	return namespace == "others", nil
}

func parse(t testing.TB, text string) map[string]any {
	t.Helper()
	if text == "" {
		return nil
	}
	var out map[string]any
	if err := yaml.Unmarshal([]byte(text), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func request(t testing.TB, object, old, sub string) *webhook.Request {
	t.Helper()
	r := &webhook.Request{
		UID:         "u",
		Namespace:   "ns",
		Operation:   webhook.Create,
		SubResource: sub,
		Object:      parse(t, object),
		OldObject:   parse(t, old),
	}
	r.Kind.Kind = "Pod"
	if old != "" {
		r.Operation = webhook.Update
	}
	return r
}

const (
	onPod = `{metadata: {name: p}, spec: {serviceAccountName: default, securityContext: {windowsOptions: ` +
		`{%s}}, containers: [{name: c}]}}`
	onContainer = `{metadata: {generateName: p-}, spec: {containers: [{name: a}, {name: c, securityContext: ` +
		`{windowsOptions: {%s}}}]}}`
	onInit = `{metadata: {name: p}, spec: {initContainers: [{name: i, securityContext: {windowsOptions: ` +
		`{%s}}}], containers: [{name: c}]}}`
	onEphemeral = `{metadata: {name: p}, spec: {ephemeralContainers: [{name: e, securityContext: {windowsOptions: ` +
		`{%s}}}], containers: [{name: c}]}}`
	none = `{metadata: {name: p}, spec: {containers: [{name: c}]}}`
)

func TestMutate(t *testing.T) {
	const contents = `"value":"{\"CmsPlugins\":[\"ActiveDirectory\"],\"Name\":\"web\"}"`
	for _, tc := range []struct {
		name, object, old, sub string
		random                 bool
		patch                  string // what is in it, if anything
		code                   int32
		message                string
	}{
		{name: "nothing", object: none},
		{name: "pod", object: fmt.Sprintf(onPod, "gmsaCredentialSpecName: web"),
			patch: `[{"op":"add","path":"/spec/securityContext/windowsOptions/gmsaCredentialSpec",` + contents + `}]`},
		{name: "container", object: fmt.Sprintf(onContainer, "gmsaCredentialSpecName: web"),
			patch: `/spec/containers/1/securityContext/windowsOptions/gmsaCredentialSpec`},
		{name: "init container", object: fmt.Sprintf(onInit, "gmsaCredentialSpecName: web"),
			patch: `/spec/initContainers/0/securityContext/windowsOptions/gmsaCredentialSpec`},
		{name: "null contents", object: fmt.Sprintf(onPod, "gmsaCredentialSpecName: web, gmsaCredentialSpec: null"),
			patch: contents},
		{name: "preset contents", object: fmt.Sprintf(onPod, "gmsaCredentialSpecName: web, gmsaCredentialSpec: '{}'")},
		{name: "contents without a name", object: fmt.Sprintf(onPod, "gmsaCredentialSpec: '{}'")},
		{name: "not there", object: fmt.Sprintf(onPod, "gmsaCredentialSpecName: nowhere"), code: 404,
			message: "cred spec nowhere does not exist"},
		{name: "no contents", object: fmt.Sprintf(onPod, "gmsaCredentialSpecName: empty"), code: 417,
			message: "cred spec empty does not have a credspec key"},
		{name: "a name that is none", object: fmt.Sprintf(onPod, "gmsaCredentialSpecName: gmsa-WebApp1")},
		{name: "update", object: fmt.Sprintf(onPod, "gmsaCredentialSpecName: web"), old: none},
		{name: "ephemeral container", object: fmt.Sprintf(onEphemeral, "gmsaCredentialSpecName: web"), old: none,
			sub:   "ephemeralcontainers",
			patch: `/spec/ephemeralContainers/0/securityContext/windowsOptions/gmsaCredentialSpec`},
		{name: "ephemeral container that was there", object: fmt.Sprintf(onEphemeral, "gmsaCredentialSpecName: web"),
			old: fmt.Sprintf(onEphemeral, "gmsaCredentialSpecName: web"), sub: "ephemeralcontainers"},
		{name: "random host name", object: fmt.Sprintf(onInit, "gmsaCredentialSpecName: web"), random: true,
			patch: `"path":"/spec/hostname","value":"w`},
		{name: "no GMSA, no host name", object: none, random: true},
		{name: "a host name of its own", object: `{spec: {hostname: h, securityContext: {windowsOptions: ` +
			`{gmsaCredentialSpecName: web, gmsaCredentialSpec: x}}}}`, random: true},
		{name: "hostile", object: `{spec: {securityContext: [], containers: [null, 1, {securityContext: ` +
			`{windowsOptions: {gmsaCredentialSpecName: 1}}}], initContainers: {}}}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := request(t, tc.object, tc.old, tc.sub)
			resp, err := Mutate(Config{Cluster: &fakeCluster{}, RandomHostname: tc.random})(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			_, ops, err := tree.Apply(r.Object, resp.Edits)
			if err != nil {
				t.Fatal(err)
			}
			patch, err := json.Marshal(ops)
			if err != nil {
				t.Fatal(err)
			}
			if resp.Allowed != (tc.code == 0) || resp.Refusal.Code != tc.code || resp.Refusal.Message != tc.message {
				t.Errorf("%+v", resp)
			}
			if (len(ops) > 0) != (tc.patch != "") || !strings.Contains(string(patch), tc.patch) {
				t.Errorf("patch %s; want %s", patch, tc.patch)
			}
		})
	}
}

func TestValidate(t *testing.T) {
	const web = `gmsaCredentialSpecName: web, gmsaCredentialSpec: '{"Name": "web", "CmsPlugins": ["ActiveDirectory"]}'`
	changed := func(what, on string) string {
		return "cannot update an existing pod's GMSA settings (GMSA " + what + " modified on " + on + ")"
	}
	for _, tc := range []struct {
		name, object, old, sub string
		code                   int32
		message                string
	}{
		{name: "nothing", object: none},
		{name: "allowed, the same contents", object: fmt.Sprintf(onPod, web)},
		{name: "allowed, not filled in", object: fmt.Sprintf(onPod, "gmsaCredentialSpecName: web"), code: 503,
			message: `the contents of cred spec "web" were not filled in for pod "p": the webhook that does it did ` +
				`not answer; try again`},
		{name: "update, not filled in before", object: fmt.Sprintf(onPod, "gmsaCredentialSpecName: web"),
			old: fmt.Sprintf(onPod, "gmsaCredentialSpecName: web")},
		{name: "not allowed", object: fmt.Sprintf(onContainer, "gmsaCredentialSpecName: db"), code: 403,
			message: "service account \"default\" is not authorized to `use` GMSA cred spec \"db\""},
		{name: "not allowed, another account", object: `{metadata: {name: p}, spec: {serviceAccountName: other, ` +
			`initContainers: [{name: i, securityContext: {windowsOptions: {gmsaCredentialSpecName: web}}}]}}`,
			code: 403, message: "service account \"other\" is not authorized to `use` GMSA cred spec \"web\""},
		{name: "init container", object: fmt.Sprintf(onInit, "gmsaCredentialSpecName: db"), code: 403,
			message: "service account \"default\" is not authorized to `use` GMSA cred spec \"db\""},
		{name: "other contents",
			object: fmt.Sprintf(onPod, `gmsaCredentialSpecName: web, gmsaCredentialSpec: '{"hunter2": 1}'`), code: 422,
			message: `the GMSA cred spec contents for pod "p" does not match the contents of GMSA resource "web"`},
		{name: "contents of an init container",
			object: fmt.Sprintf(onInit, `gmsaCredentialSpecName: web, gmsaCredentialSpec: '{"hunter2": 1}'`), code: 422,
			message: `the GMSA cred spec contents for container "i" does not match the contents of GMSA resource ` +
				`"web"`},
		{name: "contents that are not JSON",
			object: fmt.Sprintf(onPod, `gmsaCredentialSpecName: web, gmsaCredentialSpec: hunter2`), code: 422,
			message: `the GMSA cred spec contents for pod "p" does not match the contents of GMSA resource "web": ` +
				`they are not JSON`},
		{name: "contents with a key twice",
			object: fmt.Sprintf(onPod, `gmsaCredentialSpecName: web, gmsaCredentialSpec: '{"Name": "hunter2", `+
				`"CmsPlugins": ["ActiveDirectory"], "Name": "web"}'`), code: 422,
			message: `the GMSA cred spec contents for pod "p" does not match the contents of GMSA resource "web"`},
		{name: "two texts of JSON",
			object: fmt.Sprintf(onPod, `gmsaCredentialSpecName: web, gmsaCredentialSpec: '{"Name": "web", `+
				`"CmsPlugins": ["ActiveDirectory"]} {}'`), code: 422,
			message: `the GMSA cred spec contents for pod "p" does not match the contents of GMSA resource "web": ` +
				`they are not JSON`},
		{name: "no name", object: fmt.Sprintf(onContainer, "gmsaCredentialSpec: '{}'"), code: 422,
			message: `container "c" has a GMSA cred spec set, but does not define the name of the corresponding ` +
				`resource`},
		{name: "update, the same", object: fmt.Sprintf(onPod, "gmsaCredentialSpecName: db"),
			old: fmt.Sprintf(onPod, "gmsaCredentialSpecName: db")},
		{name: "update, name", object: fmt.Sprintf(onPod, "gmsaCredentialSpecName: db"),
			old: fmt.Sprintf(onPod, "gmsaCredentialSpecName: web"), code: 403, message: changed("name", `pod "p"`)},
		{name: "update, both", object: fmt.Sprintf(onPod, web), old: none, code: 403,
			message: changed("name and contents", `pod "p"`)},
		{name: "update, taken away", object: none, old: fmt.Sprintf(onPod, "gmsaCredentialSpecName: web"), code: 403,
			message: changed("name", `pod "p"`)},
		{name: "update, init container", object: fmt.Sprintf(onInit, "gmsaCredentialSpec: x"),
			old: fmt.Sprintf(onInit, ""), code: 403, message: changed("contents", `container "i"`)},
		{name: "ephemeral, allowed", object: fmt.Sprintf(onEphemeral, web), old: none, sub: "ephemeralcontainers"},
		{name: "ephemeral, not allowed", object: fmt.Sprintf(onEphemeral, "gmsaCredentialSpecName: db"), old: none,
			sub: "ephemeralcontainers", code: 403, message: "service account \"default\" is not authorized to `use` " +
				"GMSA cred spec \"db\""},
		{name: "ephemeral, changed", object: fmt.Sprintf(onEphemeral, web), old: fmt.Sprintf(onEphemeral, ""),
			sub: "ephemeralcontainers", code: 403, message: changed("name and contents", `container "e"`)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			resp, err := Validate(Config{Cluster: &fakeCluster{}})(t.Context(), request(t, tc.object, tc.old, tc.sub))
			if err != nil {
				t.Fatal(err)
			}
			if resp.Allowed != (tc.code == 0) || resp.Refusal.Code != tc.code || resp.Refusal.Message != tc.message {
				t.Errorf("%+v; want %d %s", resp, tc.code, tc.message)
			}
			if strings.Contains(resp.Refusal.Message, "hunter2") {
				t.Error("the contents are said")
			}
		})
	}
}

// TestDown: when the API server cannot be reached, no pod gets an account.
func TestDown(t *testing.T) {
	r := request(t, fmt.Sprintf(onPod, "gmsaCredentialSpecName: web"), "", "")
	c := Config{Cluster: &fakeCluster{down: true}}
	resp, err := Mutate(c)(t.Context(), r)
	if err != nil || resp.Allowed || resp.Refusal.Code != 500 ||
		!strings.HasPrefix(resp.Refusal.Message, "unable to retrieve the contents of cred spec web") {
		t.Errorf("mutate: %v %+v", err, resp)
	}
	resp, err = Validate(c)(t.Context(), r)
	if err != nil || resp.Allowed || resp.Refusal.Code != 403 ||
		!strings.Contains(resp.Refusal.Message, `reason: "error when checking authz access: the API server is down"`) {
		t.Errorf("validate: %v %+v", err, resp)
	}
}

// TestAsksOnce: ten containers with one account cost one question.
func TestAsksOnce(t *testing.T) {
	const contents = `{"CmsPlugins":["ActiveDirectory"],"Name":"web"}`
	var containers []any
	for i := range 10 {
		containers = append(containers,
			map[string]any{"name": fmt.Sprint("c", i),
				"securityContext": map[string]any{"windowsOptions": map[string]any{"gmsaCredentialSpecName": "web",
					"gmsaCredentialSpec": contents}}})
	}
	r := request(t, none, "", "")
	r.Object["spec"] = map[string]any{"containers": containers}
	f := &fakeCluster{}
	if resp, err := Validate(Config{Cluster: f})(t.Context(), r); err != nil || !resp.Allowed {
		t.Fatal(err, resp)
	}
	for _, c := range containers {
		delete(c.(map[string]any)["securityContext"].(map[string]any)["windowsOptions"].(map[string]any),
			"gmsaCredentialSpec")
	}
	if resp, err := Mutate(Config{Cluster: f})(t.Context(), r); err != nil || len(resp.Edits) != 10 {
		t.Fatal(err, resp)
	}
	if want := []string{"may ns/default use web", "read web", "read web"}; !slices.Equal(f.asked, want) {
		t.Errorf("asked %v; want %v", f.asked, want)
	}
}

// TestThen: one question does both; who opted out of GMSA is only placed; what
// fails is refused, not let through.
func TestThen(t *testing.T) {
	next := func(_ context.Context, _ *webhook.Request) (webhook.Response, error) {
		r := webhook.Allow()
		r.Edits = []tree.Edit{{Op: tree.Add, Path: tree.Keys("spec", "nodeSelector"), Value: map[string]any{}}}
		r.Audit = map[string]string{"placed": "windows"}
		return r, nil
	}
	for _, tc := range []struct {
		name, object, namespace string
		down                    bool
		patches, audits, asked  int
		code                    int32
	}{
		{name: "no GMSA", object: none, patches: 1, audits: 1},
		{name: "a GMSA", object: fmt.Sprintf(onInit, "gmsaCredentialSpecName: web"), patches: 2, audits: 2, asked: 2},
		{name: "preset", object: fmt.Sprintf(onPod, "gmsaCredentialSpecName: web, gmsaCredentialSpec: x"), patches: 1,
			audits: 1, asked: 1},
		{name: "opted out", object: fmt.Sprintf(onPod, "gmsaCredentialSpecName: web"), namespace: "others", patches: 1,
			audits: 1, asked: 1},
		{name: "not there", object: fmt.Sprintf(onPod, "gmsaCredentialSpecName: nowhere"), asked: 2, code: 404},
		{name: "down", object: fmt.Sprintf(onPod, "gmsaCredentialSpecName: web"), down: true, asked: 1, code: 500},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := &fakeCluster{down: tc.down}
			r := request(t, tc.object, "", "")
			if tc.namespace != "" {
				r.Namespace = tc.namespace
			}
			resp, err := MutateThen(Config{Cluster: f}, next)(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			if resp.Refusal.Code != tc.code || len(resp.Edits) != tc.patches || len(resp.Audit) != tc.audits ||
				len(f.asked) != tc.asked {
				t.Errorf("%+v, asked %v", resp, f.asked)
			}
		})
	}
}

// TestMutatedValidates: what the one webhook fills in the other one takes, and
// Mutate is idempotent.
func TestMutatedValidates(t *testing.T) {
	for _, object := range []string{onPod, onContainer, onInit} {
		r := request(t, fmt.Sprintf(object, "gmsaCredentialSpecName: web"), "", "")
		c := Config{Cluster: &fakeCluster{}, RandomHostname: true}
		resp, err := Mutate(c)(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		if r.Object, _, err = tree.Apply(r.Object, resp.Edits); err != nil {
			t.Fatal(err)
		}
		if again, err := Mutate(c)(t.Context(), r); err != nil || len(again.Edits) > 0 {
			t.Errorf("again: %v %v", err, again.Edits)
		}
		if resp, err := Validate(c)(t.Context(), r); err != nil || !resp.Allowed {
			t.Errorf("%v %+v", err, resp)
		}
	}
}

func TestWrongKindAndOperation(t *testing.T) {
	r := request(t, none, "", "")
	r.Kind.Kind = "Service"
	for _, h := range []webhook.Handler{Mutate(Config{}), Validate(Config{})} {
		if resp, err := h(t.Context(), r); err != nil || resp.Allowed || resp.Refusal.Code != 400 {
			t.Errorf("%v %+v", err, resp)
		}
	}
	r.Kind.Kind, r.Operation = "Pod", "CONNECT"
	if resp, err := Validate(Config{})(t.Context(), r); err != nil || resp.Allowed || resp.Refusal.Code != 400 {
		t.Errorf("%v %+v", err, resp)
	}
}

// FuzzSettings: no tree makes the webhooks panic, and what they write applies.
func FuzzSettings(f *testing.F) {
	for _, s := range []string{onPod, onContainer, onInit, onEphemeral} {
		f.Add(fmt.Sprintf(s, "gmsaCredentialSpecName: web"), fmt.Sprintf(s, "gmsaCredentialSpec: x"))
	}
	f.Add(`{spec: {containers: [null, 1, {name: 2, securityContext: {windowsOptions: []}}]}}`, `{spec: 1}`)
	f.Fuzz(func(t *testing.T, object, old string) {
		var o, was map[string]any
		if yaml.Unmarshal([]byte(object), &o) != nil || yaml.Unmarshal([]byte(old), &was) != nil || o == nil ||
			was == nil {
			return
		}
		for _, op := range []string{webhook.Create, webhook.Update} {
			r := &webhook.Request{
				UID:         "u",
				Namespace:   "ns",
				Operation:   op,
				SubResource: "ephemeralcontainers",
				Object:      o,
				OldObject:   was,
			}
			r.Kind.Kind = "Pod"
			for _, h := range []webhook.Handler{Mutate(Config{Cluster: &fakeCluster{}, RandomHostname: true}),
				Validate(Config{Cluster: &fakeCluster{}})} {
				if resp, err := h(t.Context(), r); err == nil && !resp.Allowed && resp.Refusal.Message == "" {
					t.Error("refused without a reason")
				}
			}
		}
	})
}

// FuzzSameJSON: texts that differ after encoding them again are not the same.
func FuzzSameJSON(f *testing.F) {
	const want = `{"CmsPlugins":["ActiveDirectory"],"Config":{"Name":"web"}}`
	for _, text := range []string{want, ` {"Config":{"Name":"web"},"CmsPlugins":["ActiveDirectory"]}`,
		`{"Config":{"Name":"db","Name":"web"},"CmsPlugins":["ActiveDirectory"]}`, want + want, "null", "{"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		same, err := sameJSON(text, want)
		if same && (err != nil || strings.Count(text, `"`) != strings.Count(want, `"`)) {
			t.Errorf("%q is the same, %v", text, err)
		}
	})
}
