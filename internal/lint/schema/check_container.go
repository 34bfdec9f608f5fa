// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package schema

import (
	"strings"

	"github.com/distribution/reference"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/mullion-k8s/mullion/internal/policy/tree"
)

func (w *walk) container(v tree.Value) {
	w.missing(v, "name", "image")
	w.format(v.Find("name"), validation.IsDNS1123Label)
	w.oneOf(v.Find("imagePullPolicy"), "Always", "IfNotPresent", "Never", "")
	w.oneOf(v.Find("terminationMessagePolicy"), "File", "FallbackToLogsOnError", "")
	w.format(v.Find("image"), func(s string) []string {
		if _, err := reference.ParseNormalizedNamed(s); err != nil && !placeholder(s) {
			return []string{"not the name of an image: " + err.Error()}
		}
		return nil
	})
	w.probePorts(v)
	var names, paths []tree.Value
	for _, p := range v.Find("ports").Items() {
		names = append(names, p.Get("name"))
	}
	w.unique("the port", names)
	for _, m := range v.Find("volumeMounts").Items() {
		paths = append(paths, m.Get("mountPath"))
	}
	w.unique("the mount path", paths)
}

// probePorts checks that probes name ports of their container: the kubelet looks
// for no others.
func (w *walk) probePorts(v tree.Value) {
	known := map[string]bool{}
	for _, p := range v.Find("ports").Items() {
		known[p.Find("name").Str()] = true
	}
	for _, probe := range []string{"livenessProbe", "readinessProbe", "startupProbe"} {
		for _, handler := range []string{"httpGet", "tcpSocket"} {
			port := v.Get(probe, handler, "port")
			if s, ok := port.Raw().(string); ok && s != "" && !known[s] && !template(s) &&
				len(validation.IsValidPortName(s)) == 0 {
				w.report(codeReference, port, "name the port, or write its number", "the container has no port %q", s)
			}
		}
	}
}

// placeholder reports whether a text has a part to fill in before it is applied:
// <version>, ${IMAGE}, {{ .Image }}, PROJECT_ID, and images that ko builds.
// https://ko.build/features/k8s/
func placeholder(s string) bool {
	return strings.ContainsAny(s, "<>${}") || strings.HasPrefix(s, "ko://") || token(s)
}

func (w *walk) containerPort(v tree.Value) {
	w.missing(v, "containerPort")
	w.port(v.Find("containerPort"))
	w.optionalPort(v.Find("hostPort"))
	w.oneOf(v.Find("protocol"), "TCP", "UDP", "SCTP", "")
	w.format(v.Find("name"), validation.IsValidPortName)
}

// port checks the number of a port, or its name where that is allowed.
func (w *walk) port(v tree.Value) {
	if n, ok := number(v.Raw()); ok && (n < 1 || n > 65535) {
		w.invalid(v, "write 1 to 65535", "%v is not a port", n)
	}
}

// optionalPort checks a port for which 0 means unset: the API server's types do
// not distinguish it from a missing field.
func (w *walk) optionalPort(v tree.Value) {
	if !isZero(v) {
		w.port(v)
	}
}

// isZero reports whether a field is the number 0.
func isZero(v tree.Value) bool {
	n, ok := number(v.Raw())
	return ok && n == 0
}

func (w *walk) portOrName(v tree.Value) {
	w.port(v)
	w.format(v, validation.IsValidPortName)
}

func (w *walk) variable(v tree.Value) {
	w.missing(v, "name")
	w.format(v.Find("name"), validation.IsRelaxedEnvVarName)
	if v.Find("value").Str() != "" && v.Find("valueFrom").Set() {
		w.report(codeExclusive, v.Get("valueFrom"), "remove one", "a variable has value or valueFrom, and not both")
	}
	sources := []string{"fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef"}
	if from := v.Get("valueFrom"); from.Set() && len(some(from, sources...)) > 1 {
		w.report(codeExclusive, from, "remove all but one", "valueFrom has one source")
	}
}

// variables checks a source of several variables.
func (w *walk) variables(v tree.Value) {
	if len(some(v, "configMapRef", "secretRef")) != 1 {
		w.report(codeMissing, v.Get("configMapRef"), "name one source",
			"envFrom has one source: configMapRef or secretRef")
	}
}

// keyOf checks a reference to a key of a ConfigMap or a Secret.
func (w *walk) keyOf(v tree.Value) { w.missing(v, "key") }

// hook checks the action after the start or before the end of a container.
func (w *walk) hook(v tree.Value) {
	if len(some(v, "exec", "httpGet", "tcpSocket", "sleep")) != 1 {
		w.report(codeMissing, v.Get("exec"), "name one of exec, httpGet and sleep", "%s does one thing", v.Path())
	}
}

func (w *walk) probe(v tree.Value) {
	switch handlers := some(v, "exec", "httpGet", "tcpSocket", "grpc"); len(handlers) {
	case 0:
		w.report(codeMissing, v.Get("httpGet"), "add exec, httpGet, tcpSocket or grpc", "%s has no action",
			v.Path())
	case 1:
	default:
		w.report(codeExclusive, v.Get(handlers[1]), "remove all but one", "a probe does one thing, and not %s and %s",
			handlers[0], handlers[1])
	}
	for _, name := range []string{"initialDelaySeconds", "periodSeconds", "timeoutSeconds", "successThreshold",
		"failureThreshold"} {
		w.notNegative(v.Find(name))
	}
	if key := v.Key(); key == "livenessProbe" || key == "startupProbe" {
		if n, ok := number(v.Find("successThreshold").Raw()); ok && n > 1 {
			w.invalid(v.Get("successThreshold"), "remove it", "%v: a %s has 1", n, key)
		}
	}
}

func (w *walk) probePort(v tree.Value) {
	w.missing(v, "port")
	w.portOrName(v.Find("port"))
	w.oneOf(v.Find("scheme"), "HTTP", "HTTPS", "")
}

// resources checks that no request exceeds its limit.
func (w *walk) resources(v tree.Value) {
	for _, name := range v.Find("limits").Keys() {
		limit, ok := quantity(v.Get("limits", name))
		request, asked := quantity(v.Get("requests", name))
		if ok && asked && request.Cmp(limit) > 0 {
			w.report(codeExclusive, v.Get("requests", name), "raise the limit, or lower the request",
				"the request of %s %s is above the limit %s", name, request.String(), limit.String())
		}
	}
	for _, list := range []string{"limits", "requests"} {
		for _, name := range v.Find(list).Keys() {
			if q, ok := quantity(v.Get(list, name)); ok && q.Sign() < 0 {
				w.invalid(v.Get(list, name), "write 0 or more", "%s is negative", q.String())
			}
			if name != "cpu" && name != "memory" && !standardResource(name) {
				w.invalid(v.Get(list, name), "write cpu, memory, ephemeral-storage or DOMAIN/NAME",
					"%q is not a resource of containers", clip(name))
			}
			if q, ok := quantity(v.Get(list, name)); ok && strings.Contains(name, "/") && q.MilliValue()%1000 != 0 {
				w.invalid(v.Get(list, name), "write a whole number", "%s is not a whole number", q.String())
			}
			if domain, _, ok := strings.Cut(name, "/"); ok && list == "requests" && !v.Get("limits", name).Set() &&
				!strings.HasSuffix(domain, "kubernetes.io") {
				w.report(codeMissing, v.Get("limits", name), "add the same limit", "%s needs a limit: it is not shared",
					clip(name))
			}
		}
	}
}

// standardResource reports whether containers may have a resource.
// k8s.io/kubernetes/pkg/apis/core/validation, ValidateContainerResourceName.
func standardResource(name string) bool {
	size, huge := strings.CutPrefix(name, "hugepages-")
	return name == "ephemeral-storage" || template(name) || huge && size != "" || strings.Contains(name, "/")
}

func quantity(v tree.Value) (resource.Quantity, bool) {
	if s, ok := v.Raw().(string); ok {
		q, err := resource.ParseQuantity(s)
		return q, err == nil
	}
	if n, ok := number(v.Raw()); ok {
		return *resource.NewMilliQuantity(int64(n*1000), resource.DecimalSI), true
	}
	return resource.Quantity{}, false
}

func (w *walk) mount(v tree.Value) {
	w.missing(v, "name", "mountPath")
	w.oneOf(v.Find("mountPropagation"), "None", "HostToContainer", "Bidirectional")
	if v.Find("subPath").Str() != "" && v.Find("subPathExpr").Str() != "" {
		w.report(codeExclusive, v.Get("subPathExpr"), "remove one", "a mount has subPath or subPathExpr, and not both")
	}
}
