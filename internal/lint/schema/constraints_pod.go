// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package schema

import (
	"cmp"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/mullion-k8s/mullion/internal/policy/tree"
)

// podConstraints returns the API server's checks of the types within pods.
// k8s.io/kubernetes/pkg/apis/core/validation.
func podConstraints() map[reflect.Type]func(*walk, tree.Value) {
	const most = 1 << 32
	fileMode := between("defaultMode", 0, 0o777)
	return map[reflect.Type]func(*walk, tree.Value){
		reflect.TypeFor[corev1.PodSpec](): all((*walk).podParts, words("preemptionPolicy", "Never",
			"PreemptLowerPriority"), format(validation.IsDNS1123Label, "subdomain")),
		reflect.TypeFor[corev1.PodReadinessGate]():   labelKey("conditionType"),
		reflect.TypeFor[corev1.PodSchedulingGate]():  all(needs("name"), labelKey("name")),
		reflect.TypeFor[corev1.PodDNSConfigOption](): needs("name"),
		reflect.TypeFor[corev1.PodDNSConfig]():       (*walk).dnsConfig,
		reflect.TypeFor[corev1.HostAlias]():          formats(validation.IsDNS1123Subdomain, "hostnames"),
		reflect.TypeFor[corev1.Container](): all((*walk).hookPorts,
			words("restartPolicy", "Always", "OnFailure", "Never")),
		reflect.TypeFor[corev1.ContainerResizePolicy](): all(words("resourceName", "cpu", "memory"),
			words("restartPolicy", "NotRequired", "RestartContainer")),

		reflect.TypeFor[corev1.EnvVarSource](): all((*walk).variableField, oneOfFields("valueFrom", "fieldRef",
			"resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")),
		reflect.TypeFor[corev1.EnvFromSource]():         format(validation.IsRelaxedEnvVarName, "prefix"),
		reflect.TypeFor[corev1.ConfigMapEnvSource]():    needs("name"),
		reflect.TypeFor[corev1.SecretEnvSource]():       needs("name"),
		reflect.TypeFor[corev1.ConfigMapKeySelector]():  all(needs("name"), format(validation.IsConfigMapKey, "key")),
		reflect.TypeFor[corev1.SecretKeySelector]():     all(needs("name"), format(validation.IsConfigMapKey, "key")),
		reflect.TypeFor[corev1.ResourceFieldSelector](): (*walk).resourceField,

		reflect.TypeFor[corev1.Probe](): all((*walk).probeGrace,
			between("terminationGracePeriodSeconds", 1, most)),
		reflect.TypeFor[corev1.ExecAction](): fills("command"),
		reflect.TypeFor[corev1.GRPCAction](): all(needs("port"), between("port", 1, 65535)),
		reflect.TypeFor[corev1.HTTPHeader](): format(validation.IsHTTPHeaderName, "name"),

		reflect.TypeFor[corev1.ConfigMapVolumeSource]():   fileMode,
		reflect.TypeFor[corev1.SecretVolumeSource]():      fileMode,
		reflect.TypeFor[corev1.ProjectedVolumeSource]():   fileMode,
		reflect.TypeFor[corev1.DownwardAPIVolumeSource](): fileMode,
		reflect.TypeFor[corev1.KeyToPath]():               all(format(localPath, "path"), between("mode", 0, 0o777)),
		reflect.TypeFor[corev1.DownwardAPIVolumeFile](): all(needs("path"), format(localPath, "path"),
			oneOfFields("an item of downwardAPI", "fieldRef", "resourceFieldRef"), (*walk).downwardField),
		reflect.TypeFor[corev1.VolumeProjection](): atMostOne("secret", "configMap", "downwardAPI",
			"serviceAccountToken", "clusterTrustBundle", "podCertificate"),
		reflect.TypeFor[corev1.ServiceAccountTokenProjection](): all(needs("path"), format(localPath, "path"),
			between("expirationSeconds", 600, most)),
		reflect.TypeFor[corev1.HostPathVolumeSource](): words("type", "DirectoryOrCreate", "Directory", "FileOrCreate",
			"File", "Socket", "CharDevice", "BlockDevice"),
		reflect.TypeFor[corev1.EmptyDirVolumeSource]():  (*walk).emptyDir,
		reflect.TypeFor[corev1.NFSVolumeSource]():       needs("server", "path"),
		reflect.TypeFor[corev1.CSIVolumeSource]():       needs("driver"),
		reflect.TypeFor[corev1.AzureFileVolumeSource](): needs("secretName", "shareName"),
		reflect.TypeFor[corev1.GitRepoVolumeSource]():   needs("repository"),
		reflect.TypeFor[corev1.EphemeralVolumeSource](): needs("volumeClaimTemplate"),

		reflect.TypeFor[corev1.Toleration]():   format(validation.IsValidLabelValue, "value"),
		reflect.TypeFor[corev1.NodeSelector](): fills("nodeSelectorTerms"),
		reflect.TypeFor[corev1.NodeSelectorTerm](): func(w *walk, v tree.Value) {
			for _, f := range v.Find("matchFields").Items() {
				w.oneOf(f.Get("key"), "metadata.name")
			}
		},
		reflect.TypeFor[corev1.NodeSelectorRequirement](): all(labelKey("key"), (*walk).nodeValues),
		reflect.TypeFor[corev1.PodAffinityTerm]():         labelKey("topologyKey"),
		reflect.TypeFor[corev1.TopologySpreadConstraint](): all(labelKey("topologyKey"), atLeast(1, "minDomains"),
			words("nodeAffinityPolicy", "Honor", "Ignore"), words("nodeTaintsPolicy", "Honor", "Ignore"),
			without("only with whenUnsatisfiable: DoNotSchedule", func(v tree.Value) bool {
				return v.Find("whenUnsatisfiable").Str() == "DoNotSchedule"
			}, "minDomains")),
	}
}

// atMostOne allows at most one of some fields.
func atMostOne(fields ...string) constraint {
	return func(w *walk, v tree.Value) {
		if there := some(v, fields...); len(there) > 1 {
			w.report(codeExclusive, v.Get(there[1]), "write a separate item for each",
				"%s has one source, and not %s", v.Path(), strings.Join(there, " and "))
		}
	}
}

func (w *walk) emptyDir(v tree.Value) { notBelowZero(w, v.Find("sizeLimit")) }

func notBelowZero(w *walk, v tree.Value) {
	if q, ok := quantity(v); ok && q.Sign() < 0 {
		w.invalid(v, "write 0 or more", "%s is negative", q.String())
	}
}

// podParts checks that parts of a pod are consistent.
func (w *walk) podParts(v tree.Value) {
	if at := v.Find("ephemeralContainers"); at.Len() > 0 {
		w.report(codeExclusive, at, "remove them, and use kubectl debug",
			"ephemeral containers are added to a pod that runs, and not written in it")
	}
	if at := v.Find("priority"); at.Set() && !isZero(at) && v.Find("priorityClassName").Str() == "" {
		w.invalid(at, "write priorityClassName", "the API server sets the priority, from the PriorityClass")
	}
	claims := map[string]bool{}
	for _, c := range v.Find("resourceClaims").Items() {
		claims[c.Find("name").Str()] = true
	}
	host := map[string]bool{}
	grace := 30.0 // the API server's default
	if n, ok := number(v.Find("terminationGracePeriodSeconds").Raw()); ok {
		grace = n
	}
	for _, c := range v.Find("containers").Items() {
		for _, p := range c.Find("ports").Items() {
			w.hostPort(host, p)
		}
		for _, claim := range c.Find("resources", "claims").Items() {
			if name := claim.Get("name"); !claims[name.Str()] && !template(name.Str()) {
				w.report(codeReference, name, "add it to resourceClaims, or correct the name",
					"the pod has no resource claim %q", clip(name.Str()))
			}
		}
		for _, hook := range []string{"postStart", "preStop"} {
			at := c.Find("lifecycle", hook, "sleep", "seconds")
			if n, ok := number(at.Raw()); ok && grace >= 0 && (n < 0 || n > grace) {
				w.invalid(at, "write less, or raise terminationGracePeriodSeconds",
					"%v is not in 0 to terminationGracePeriodSeconds, %v", n, grace)
			}
		}
		w.stopSignal(v.Find("os", "name").Str(), c.Find("lifecycle", "stopSignal"))
	}
	w.spreadTwice(v.Find("topologySpreadConstraints").Items())
}

// hostPort reports a port of the host that two containers request.
func (w *walk) hostPort(seen map[string]bool, p tree.Value) {
	n, ok := number(p.Find("hostPort").Raw())
	if !ok || n == 0 {
		return
	}
	protocol := cmp.Or(p.Find("protocol").Str(), "TCP")
	key := fmt.Sprint(n, "/", protocol, " ", p.Find("hostIP").Str())
	if seen[key] {
		w.report(codeTwice, p.Get("hostPort"), "give each its own", "the host's port %v/%s is there twice", n, protocol)
	}
	seen[key] = true
}

func (w *walk) spreadTwice(constraints []tree.Value) {
	seen := map[string]bool{}
	for _, c := range constraints {
		key := c.Find("topologyKey").Str() + " " + c.Find("whenUnsatisfiable").Str()
		if seen[key] {
			w.report(codeTwice, c.Get("topologyKey"), "remove one",
				"topologyKey and whenUnsatisfiable %s are there twice", clip(key))
		}
		seen[key] = true
	}
}

// stopSignal checks the signal that stops a container, which depends on its operating
// system.
func (w *walk) stopSignal(os string, v tree.Value) {
	switch {
	case !v.Set():
	case os == "":
		w.report(codeMissing, v, "write os.name, or remove it", "%s needs spec.os.name", v.Path())
	case os == "windows":
		w.oneOf(v, "SIGTERM", "SIGKILL")
	}
}

// hookPorts checks that hooks name ports of their container: the kubelet looks for no
// others. The container is killed if its postStart hook fails.
func (w *walk) hookPorts(v tree.Value) {
	port := v.Find("lifecycle", "postStart", "httpGet", "port")
	s, ok := port.Raw().(string)
	if !ok || s == "" || template(s) || len(validation.IsValidPortName(s)) > 0 {
		return
	}
	named := func(p tree.Value) bool { return p.Find("name").Str() == s }
	if !slices.ContainsFunc(v.Find("ports").Items(), named) {
		w.report(codeReference, port, "name the port, or write its number", "the container has no port %q", s)
	}
}

// probeGrace: only probes that end a container have a grace period.
func (w *walk) probeGrace(v tree.Value) {
	if at := v.Find("terminationGracePeriodSeconds"); at.Set() && v.Key() == "readinessProbe" {
		w.report(codeExclusive, at, "remove it", "a readinessProbe has no terminationGracePeriodSeconds")
	}
}

// dnsConfig checks the limits of resolvers.
func (w *walk) dnsConfig(v tree.Value) {
	const maxServers, maxSearches = 3, 32
	if at := v.Find("nameservers"); at.Len() > maxServers {
		w.invalid(at, "remove some", "%d nameservers are more than %d", at.Len(), maxServers)
	}
	if at := v.Find("searches"); at.Len() > maxSearches {
		w.invalid(at, "remove some", "%d domains are more than %d", at.Len(), maxSearches)
	}
	for _, s := range v.Find("searches").Items() {
		w.format(s, func(s string) []string {
			if s == "." {
				return nil
			}
			return validation.IsDNS1123SubdomainWithUnderscore(strings.TrimSuffix(s, "."))
		})
	}
}

// nodeValues checks the values that an expression compares the label of a node with.
func (w *walk) nodeValues(v tree.Value) {
	operator, values := v.Find("operator").Str(), v.Find("values")
	if (operator == "Gt" || operator == "Lt") && values.Len() != 1 {
		w.report(codeMissing, values, "write one", "the operator %s needs one value", operator)
	}
	// Preferred terms, and volumes, may compare with anything.
	required := func(s tree.Step) bool { return s.Key == "requiredDuringSchedulingIgnoredDuringExecution" }
	if w.checker.version != 0 && w.checker.version < current || !slices.ContainsFunc(v.Path(), required) {
		return
	}
	for _, value := range values.Items() {
		w.format(value, validation.IsValidLabelValue)
	}
}

// resourceField checks which resource of a container is selected.
func (w *walk) resourceField(v tree.Value) {
	w.missing(v, "resource")
	name := v.Find("resource").Str()
	kind, resource, _ := strings.Cut(name, ".")
	if name != "" && !template(name) && (kind != "limits" && kind != "requests" ||
		!slices.Contains([]string{"cpu", "memory", "ephemeral-storage"}, resource) &&
			!strings.HasPrefix(resource, "hugepages-")) {
		w.invalid(v.Get("resource"), "write limits.cpu, limits.memory, requests.cpu or requests.memory",
			"%q is not a resource of a container", clip(name))
	}
}

// variableField: a variable shows one label or annotation, a volume all of them.
func (w *walk) variableField(v tree.Value) {
	at := v.Find("fieldRef", "fieldPath")
	if path := at.Str(); path == "metadata.labels" || path == "metadata.annotations" {
		w.invalid(at, "name one of them, as "+path+"['KEY'], or use a volume", "a variable cannot show %s", path)
	}
}

// downwardField: a volume shows fewer fields than variables do.
func (w *walk) downwardField(v tree.Value) {
	at := v.Find("fieldRef", "fieldPath")
	for _, prefix := range []string{"status.", "spec."} {
		if strings.HasPrefix(at.Str(), prefix) {
			w.invalid(at, "use a variable of the container", "a volume cannot show %s", at.Str())
		}
	}
}

// notLoopback rejects addresses that no other machine reaches.
func notLoopback(s string) []string {
	ip, err := netip.ParseAddr(s)
	switch {
	case err != nil:
		return []string{"not an IP address"}
	case ip.IsUnspecified() || ip.IsLoopback() || ip.IsLinkLocalUnicast() || ip.IsLinkLocalMulticast():
		return []string{"other machines cannot use this address"}
	}
	return nil
}
