// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package webhook

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	"sigs.k8s.io/yaml"

	"github.com/mullion-k8s/mullion/internal/policy"
	"github.com/mullion-k8s/mullion/internal/testenv"
	"github.com/mullion-k8s/mullion/internal/winsys/winver"
)

// factsFunc makes Facts of a function.
type factsFunc func(ctx context.Context, namespace string, object *policy.Parsed) (policy.Facts, []string)

func (f factsFunc) Facts(ctx context.Context, namespace string, object *policy.Parsed) (policy.Facts, []string) {
	return f(ctx, namespace, object)
}

// mixed is a cluster with Linux and Windows Server 2019 and 2022.
func mixed(t testing.TB) policy.Facts {
	t.Helper()
	f := policy.Facts{Kubernetes: 36, RuntimeClasses: map[string]policy.RuntimeClass{},
		Nodes: []policy.Node{{Name: "linux-1", OS: "linux"}}}
	for name, build := range map[string]string{"win-1": "2019", "win-2": "2022"} {
		b, err := winver.Parse(build)
		if err != nil {
			t.Fatal(err)
		}
		f.Nodes = append(f.Nodes, policy.Node{Name: name, OS: "windows", Build: b})
	}
	return f
}

func fixed(f policy.Facts, warnings ...string) Facts {
	return factsFunc(func(context.Context, string, *policy.Parsed) (policy.Facts, []string) { return f, warnings })
}

func handlers(facts Facts) map[string]Handler {
	log := slog.New(slog.DiscardHandler)
	place, validate := Place(facts, log), Validate(facts, ValidateConfig{}, log)
	is := func(alone bool) func(context.Context, string) bool {
		return func(context.Context, string) bool { return alone }
	}
	return map[string]Handler{
		"/placement":    place,
		"/rules":        validate,
		"/alone":        PlaceThenValidate(place, validate, is(true)),
		"/among-others": PlaceThenValidate(place, validate, is(false)),
	}
}

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

// post sends a body to a webhook.
func post(h http.Handler, path string, body []byte, edit ...func(*http.Request)) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, path+"?timeout=2s", bytes.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	for _, e := range edit {
		e(r)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// review is an AdmissionReview about objects written in YAML.
func review(t testing.TB, object, old, request string) []byte {
	t.Helper()
	req := map[string]any{"uid": "u", "operation": "CREATE", "namespace": "default"}
	for _, x := range []struct{ key, text string }{{"object", object}, {"oldObject", old}} {
		if x.text == "" {
			continue
		}
		var tree map[string]any
		if err := yaml.Unmarshal([]byte(x.text), &tree); err != nil {
			t.Fatal(err)
		}
		req[x.key] = tree
		if x.key == "object" {
			kind, _ := tree["kind"].(string)
			meta, _ := tree["metadata"].(map[string]any)
			req["kind"], req["name"] = map[string]any{"group": "", "version": "v1", "kind": kind}, meta["name"]
		} else {
			req["operation"] = "UPDATE"
		}
	}
	if err := yaml.Unmarshal([]byte(request), &req); err != nil {
		t.Fatal(err)
	}
	body, err := json.Marshal(map[string]any{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
		"request": req})
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// TestReviews holds each testdata/reviews/*.txtar: what goes in and what comes
// out, in one file.
func TestReviews(t *testing.T) {
	for name, a := range testenv.Archives(t, "testdata/reviews/*.txtar") {
		t.Run(name, func(t *testing.T) {
			part := map[string]string{}
			for _, f := range a.Files {
				part[f.Name] = string(f.Data)
			}
			facts := fixed(mixed(t))
			if part["warning"] != "" {
				facts = fixed(mixed(t), strings.TrimSpace(part["warning"]))
			}
			w := post(NewServer(handlers(facts), discard()), "/"+strings.TrimSpace(part["webhook"]),
				review(t, part["object.yaml"], part["old.yaml"], part["request.yaml"]))
			var out bytes.Buffer
			for _, f := range a.Files {
				if f.Name != "response" {
					out.WriteString("-- " + f.Name + " --\n" + string(f.Data))
				}
			}
			out.WriteString("-- response --\n" + show(t, w))
			testenv.Golden(t, "reviews/"+name+".txtar", append(a.Comment, out.Bytes()...))
		})
	}
}

// show writes an answer for people: the patch is not base64 here.
func show(t *testing.T, w *httptest.ResponseRecorder) string {
	t.Helper()
	if w.Code != http.StatusOK {
		return http.StatusText(w.Code) + ": " + w.Body.String()
	}
	var got struct {
		Response map[string]any `json:"response"`
	}
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	var r admissionv1.AdmissionReview
	if err := json.Unmarshal(w.Body.Bytes(), &r); err != nil {
		t.Fatal(err)
	}
	if len(r.Response.Patch) > 0 {
		got.Response["patch"] = json.RawMessage(r.Response.Patch)
	}
	text, err := json.MarshalIndent(got.Response, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return string(text) + "\n"
}

const silentPod = "{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: [{name: c, image: app}]}}"

// TestBadRequests: each gets its status code and a line that says what is
// wrong; none is a panic or an answer that allows or refuses.
func TestBadRequests(t *testing.T) {
	s := NewServer(handlers(fixed(mixed(t))), discard())
	good := string(review(t, silentPod, "", ""))
	deep := strings.Replace(good, `"app"`, strings.Repeat("[", 5000)+strings.Repeat("]", 5000), 1)
	header := func(k, v string) func(*http.Request) { return func(r *http.Request) { r.Header.Set(k, v) } }
	for _, tc := range []struct {
		name, path, body string
		edit             func(*http.Request)
		code             int
		want             string
	}{
		{"unknown path", "/x", good, nil, 404, "no webhook"},
		{"root", "/", good, nil, 404, "no webhook"},
		{"GET", "/rules", "", func(r *http.Request) { r.Method = http.MethodGet }, 405, "want POST"},
		{"no media type", "/rules", good, header("Content-Type", ""), 415, "application/json"},
		{"other media type", "/rules", good, header("Content-Type", "text/plain"), 415, "application/json"},
		{"protobuf", "/rules", good, header("Content-Type", "application/vnd.kubernetes.protobuf"), 415,
			"application/json"},
		{"empty", "/rules", "", nil, 400, "empty"},
		{"no JSON", "/rules", "x", nil, 400, "decode AdmissionReview"},
		{"half", "/rules", good[:len(good)/2], nil, 400, "decode AdmissionReview"},
		{"trailing data", "/rules", good + "{}", nil, 400, "decode AdmissionReview"},
		{"null", "/rules", "null", nil, 400, "want an AdmissionReview"},
		{"a list", "/rules", "[]", nil, 400, "decode AdmissionReview"},
		{"another kind", "/rules", strings.Replace(good, "AdmissionReview", "Pod", 1), nil, 400, `it is a "Pod"`},
		{"another version", "/rules", strings.Replace(good, "k8s.io/v1\"", "k8s.io/v1beta1\"", 1), nil, 400,
			"admission.k8s.io/v1"},
		{"no request", "/rules", `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}`, nil, 400,
			"no request"},
		{"null request", "/rules", `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":null}`, nil,
			400, "no request"},
		{"no uid", "/rules", strings.Replace(good, `"uid":"u"`, `"uid":""`, 1), nil, 400, "no uid"},
		{"no object", "/rules", `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u",` +
			`"operation":"CREATE"}}`, nil, 400, "no object"},
		{"no old object", "/rules", strings.Replace(good, "CREATE", "UPDATE", 1), nil, 400, "no oldObject"},
		{"object is a list", "/rules", `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview",` +
			`"request":{"uid":"u","operation":"CREATE","object":[1]}}`, nil, 400, "decode AdmissionReview"},
		{"duplicate field", "/rules", strings.Replace(good, `"name":"c"`, `"name":"c","name":"d"`, 1), nil, 400,
			"duplicate field"},
		{"duplicate request", "/rules", strings.Replace(good, `"request":`, `"request":{},"request":`, 1), nil, 400,
			"duplicate field"},
		{"too deep", "/rules", deep, nil, 400, "nested more than 200 deep"},
		{"too large, said", "/rules", good, func(r *http.Request) { r.ContentLength = maxBody + 1 }, 413, "at most"},
		{"too large, not said", "/rules", good + strings.Repeat(" ", maxBody), func(r *http.Request) {
			r.ContentLength = -1
		}, 413, "more than"},
		{"placement of another kind", "/placement",
			strings.Replace(good, `"kind":"Pod","version"`, `"kind":"Service","version"`, 1), nil, 400,
			"not for Service"},
		{"not UTF-8", "/rules", strings.Replace(good, `"app"`, "\"\xff\xfe\"", 1), nil, 200, ""},
		{"unknown fields", "/rules", strings.Replace(good, `"request":`, `"new":{"a":1},"request":`, 1), nil, 200, ""},
		{"charset", "/rules", good, header("Content-Type", "application/json; charset=utf-8"), 200, ""},
		{"null object of a delete", "/rules", `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview",` +
			`"request":{"uid":"u","operation":"DELETE","object":null}}`, nil, 200, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var edits []func(*http.Request)
			if tc.edit != nil {
				edits = append(edits, tc.edit)
			}
			w := post(s, tc.path, []byte(tc.body), edits...)
			if w.Code != tc.code || !strings.Contains(w.Body.String(), tc.want) {
				t.Errorf("%d %s; want %d %s", w.Code, w.Body, tc.code, tc.want)
			}
			if len(w.Body.String()) > 2000 {
				t.Errorf("%d bytes of an error", w.Body.Len())
			}
		})
	}
}

// TestNewFieldsSurvive: what this program does not know is not in the patch.
func TestNewFieldsSurvive(t *testing.T) {
	object := `{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {brandNew: {of: 1.40}, containers: [{name: c, ` +
		`image: app, newer: [1]}]}}`
	w := post(NewServer(handlers(fixed(mixed(t))), discard()), "/placement", review(t, object, "", ""))
	var r admissionv1.AdmissionReview
	if err := json.Unmarshal(w.Body.Bytes(), &r); err != nil || r.Response == nil || len(r.Response.Patch) == 0 {
		t.Fatal(err, w.Body)
	}
	var ops []struct{ Op, Path string }
	if err := json.Unmarshal(r.Response.Patch, &ops); err != nil {
		t.Fatal(err)
	}
	for _, op := range ops {
		if op.Op != "add" || op.Path == "/spec" || strings.HasPrefix(op.Path, "/spec/containers") {
			t.Errorf("%s %s", op.Op, op.Path)
		}
	}
}

// TestPanic: a defect fails this one call, says nothing of the pod, and the
// next call works.
func TestPanic(t *testing.T) {
	var log bytes.Buffer
	var fail atomic.Bool
	fail.Store(true)
	h := map[string]Handler{"/x": func(context.Context, *Request) (Response, error) {
		if fail.Load() {
			panic("password=hunter2")
		}
		return Allow(), nil
	}}
	s := NewServer(h, slog.New(slog.NewTextHandler(&log, nil)))
	body := review(t, silentPod, "", "")
	w := post(s, "/x", body)
	if w.Code != http.StatusInternalServerError || strings.Contains(w.Body.String(), "hunter2") ||
		!strings.Contains(w.Body.String(), "defect") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if !strings.Contains(log.String(), "panic") || !strings.Contains(log.String(), "level=ERROR") {
		t.Errorf("the log: %s", &log)
	}
	fail.Store(false)
	if w := post(s, "/x", body); w.Code != http.StatusOK {
		t.Errorf("afterwards: %d", w.Code)
	}
}

// TestSlowFacts: facts that hang, fail or lie cost a warning, not the pod.
func TestSlowFacts(t *testing.T) {
	for name, facts := range map[string]factsFunc{
		"hang": func(context.Context, string, *policy.Parsed) (policy.Facts, []string) { select {} },
		"obey": func(ctx context.Context, _ string, _ *policy.Parsed) (policy.Facts, []string) {
			<-ctx.Done()
			return policy.Facts{}, []string{"in time: the registry does not answer"}
		},
		"panic": func(context.Context, string, *policy.Parsed) (policy.Facts, []string) { panic("x") },
	} {
		s := NewServer(handlers(facts), discard())
		begin := time.Now()
		w := post(s, "/rules", review(t, silentPod, "", ""), func(r *http.Request) { r.URL.RawQuery = "timeout=200ms" })
		// The promise is an answer before the caller's own deadline, which a busy
		// machine may miss; but it certainly does not wait forever.
		if took := time.Since(begin); took > 20*time.Second {
			t.Errorf("%s: %s", name, took)
		}
		var r admissionv1.AdmissionReview
		if err := json.Unmarshal(w.Body.Bytes(), &r); err != nil || !r.Response.Allowed ||
			len(r.Response.Warnings) == 0 ||
			!strings.Contains(strings.Join(r.Response.Warnings, " "),
				map[string]string{"hang": "did not arrive in time", "obey": "does not answer",
					"panic": "failed"}[name]) {
			t.Errorf("%s: %v %s", name, err, w.Body)
		}
	}
}

// TestHangingFactsAreBounded: what is left behind does not grow without end.
func TestHangingFactsAreBounded(t *testing.T) {
	var calls atomic.Int32
	a := factsClient{log: discard(),
		facts: factsFunc(func(context.Context, string, *policy.Parsed) (policy.Facts, []string) {
			calls.Add(1)
			select {}
		})}
	for range maxQueries + 10 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		a.get(ctx, &Request{})
		cancel()
	}
	if n := calls.Load(); n > maxQueries {
		t.Errorf("%d calls hang", n)
	}
}

// TestInFlight: bodies wait for room, and are refused when there is none in
// time.
func TestInFlight(t *testing.T) {
	s := NewServer(handlers(fixed(mixed(t))), discard())
	if err := s.inFlight.Acquire(t.Context(), maxInFlight); err != nil {
		t.Fatal(err)
	}
	body := review(t, silentPod, "", "")
	w := post(s, "/rules", body, func(r *http.Request) { r.URL.RawQuery = "timeout=20ms" })
	if w.Code != http.StatusServiceUnavailable {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	s.inFlight.Release(maxInFlight)
	if w := post(s, "/rules", body); w.Code != http.StatusOK {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// TestBrokenBody: a caller that goes away is not a defect.
func TestBrokenBody(t *testing.T) {
	s := NewServer(handlers(fixed(mixed(t))), discard())
	r := httptest.NewRequest(http.MethodPost, "/rules", io.MultiReader(strings.NewReader("{"), brokenReader{}))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	if w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), "read the body") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// TestSecretsAreNotSaid: whatever is wrong with a pod, what its variables and
// arguments hold is in no answer and in no log.
func TestSecretsAreNotSaid(t *testing.T) {
	const secret = "hunter2-correct-horse"
	objects, err := filepath.Glob("testdata/secrets/*.yaml")
	if err != nil || len(objects) == 0 {
		t.Fatal("no objects", err)
	}
	for _, file := range objects {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), secret) {
			t.Fatalf("%s holds no secret", file)
		}
		var log bytes.Buffer
		s := NewServer(handlers(fixed(mixed(t))),
			slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})))
		for _, path := range []string{"/placement", "/rules"} {
			w := post(s, path, review(t, string(text), "", ""))
			if strings.Contains(w.Body.String(), secret) || strings.Contains(log.String(), secret) {
				t.Errorf("%s, %s: the secret is in\n%s\n%s", file, path, w.Body, &log)
			}
		}
	}
}
