// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package schema

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // not every machine has the names of time zones

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	nodev1 "k8s.io/api/node/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/mullion-k8s/mullion/internal/policy"
	"github.com/mullion-k8s/mullion/internal/policy/tree"
)

// constraints returns the API server's checks of workloads and of the core types around pods.
// k8s.io/kubernetes/pkg/apis/*/validation.
func constraints() map[reflect.Type]func(*walk, tree.Value) {
	long := (*walk).longLived
	return map[reflect.Type]func(*walk, tree.Value){
		reflect.TypeFor[metav1.OwnerReference]():           needs("apiVersion", "kind", "name", "uid"),
		reflect.TypeFor[metav1.LabelSelector]():            (*walk).matchLabels,
		reflect.TypeFor[metav1.LabelSelectorRequirement](): labelKey("key"),

		reflect.TypeFor[appsv1.DeploymentSpec]():  long,
		reflect.TypeFor[appsv1.ReplicaSetSpec]():  long,
		reflect.TypeFor[appsv1.DaemonSetSpec]():   long,
		reflect.TypeFor[appsv1.StatefulSetSpec](): all(long, words("podManagementPolicy", "OrderedReady", "Parallel")),
		reflect.TypeFor[appsv1.RollingUpdateDeployment](): all(percentages("maxSurge", "maxUnavailable"),
			notAll("maxUnavailable")),
		reflect.TypeFor[appsv1.DaemonSetUpdateStrategy](): words("type", "RollingUpdate", "OnDelete"),
		reflect.TypeFor[appsv1.RollingUpdateDaemonSet](): all(percentages("maxSurge", "maxUnavailable"),
			notAll("maxSurge", "maxUnavailable"), (*walk).daemonRollout),
		reflect.TypeFor[appsv1.StatefulSetUpdateStrategy](): words("type", "RollingUpdate", "OnDelete"),
		reflect.TypeFor[appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy](): all(
			words("whenDeleted", "Retain", "Delete"), words("whenScaled", "Retain", "Delete")),

		reflect.TypeFor[batchv1.JobSpec](): all((*walk).jobParts, atLeast(0, "activeDeadlineSeconds",
			"ttlSecondsAfterFinished", "backoffLimitPerIndex", "maxFailedIndexes"),
			words("podReplacementPolicy", "TerminatingOrFailed", "Failed")),
		reflect.TypeFor[batchv1.PodFailurePolicyRule](): words("action", "FailJob", "FailIndex", "Ignore", "Count"),
		reflect.TypeFor[batchv1.PodFailurePolicyOnExitCodesRequirement](): all((*walk).exitCodes,
			words("operator", "In", "NotIn")),
		reflect.TypeFor[batchv1.CronJobSpec](): all((*walk).timing, atLeast(0, "startingDeadlineSeconds",
			"successfulJobsHistoryLimit", "failedJobsHistoryLimit")),

		reflect.TypeFor[corev1.ServiceSpec](): all((*walk).serviceParts, formats(notLoopback, "externalIPs"),
			format(hostName, "externalName"), listed("ipFamilies", "IPv4", "IPv6"),
			words("ipFamilyPolicy", "SingleStack", "PreferDualStack", "RequireDualStack"),
			words("trafficDistribution", "PreferClose", "PreferSameZone", "PreferSameNode")),
		reflect.TypeFor[corev1.ServicePort]():    labelKey("appProtocol"),
		reflect.TypeFor[corev1.ClientIPConfig](): between("timeoutSeconds", 1, 86400),
		reflect.TypeFor[corev1.ConfigMap]():      (*walk).configMap,
		reflect.TypeFor[corev1.Secret]():         (*walk).secretKeys,
		reflect.TypeFor[corev1.PersistentVolumeClaimSpec](): all((*walk).accessModes, (*walk).claimSize,
			words("volumeMode", "Filesystem", "Block"), format(validation.IsDNS1123Subdomain, "storageClassName")),
		reflect.TypeFor[corev1.PersistentVolumeSpec](): all((*walk).accessModes, (*walk).volumeParts,
			words("persistentVolumeReclaimPolicy", "Retain", "Delete", "Recycle"),
			words("volumeMode", "Filesystem", "Block")),
		reflect.TypeFor[corev1.ResourceQuotaSpec](): (*walk).quota,
		reflect.TypeFor[corev1.LimitRangeItem]():    (*walk).limitRange,
		reflect.TypeFor[corev1.Taint](): all(needs("key"),
			words("effect", "NoSchedule", "PreferNoSchedule", "NoExecute")),
	}
}

// groupConstraints returns the API server's checks of the types in the other groups.
func groupConstraints() map[reflect.Type]func(*walk, tree.Value) {
	webhook := all(needs("name", "sideEffects"), fills("admissionReviewVersions"), format(domainName, "name"),
		words("sideEffects", "None", "NoneOnDryRun"), words("failurePolicy", "Ignore", "Fail"),
		words("matchPolicy", "Exact", "Equivalent"))
	return map[reflect.Type]func(*walk, tree.Value){
		reflect.TypeFor[storagev1.StorageClass](): all(needs("provisioner"), words("reclaimPolicy", "Retain", "Delete"),
			words("volumeBindingMode", "Immediate", "WaitForFirstConsumer")),
		reflect.TypeFor[nodev1.RuntimeClass](): all(needs("handler"), format(validation.IsDNS1123Label, "handler")),
		reflect.TypeFor[schedulingv1.PriorityClass](): all((*walk).priorityClass,
			words("preemptionPolicy", "Never", "PreemptLowerPriority")),

		reflect.TypeFor[autoscalingv2.HorizontalPodAutoscalerSpec](): all((*walk).scaleToZero,
			atLeast(1, "maxReplicas")),
		reflect.TypeFor[autoscalingv2.CrossVersionObjectReference](): needs("kind", "name"),
		reflect.TypeFor[autoscalingv2.MetricSpec]():                  (*walk).metric,
		reflect.TypeFor[autoscalingv2.ResourceMetricSource]():        all(needs("name"), (*walk).resourceTarget),
		reflect.TypeFor[autoscalingv2.MetricTarget](): words("type", "Utilization", "Value",
			"AverageValue"),

		reflect.TypeFor[networkingv1.IngressSpec]():          (*walk).ingress,
		reflect.TypeFor[networkingv1.IngressRule]():          format(ingressHost, "host"),
		reflect.TypeFor[networkingv1.IngressTLS]():           formats(hostOrWildcard, "hosts"),
		reflect.TypeFor[networkingv1.HTTPIngressRuleValue](): fills("paths"),
		reflect.TypeFor[networkingv1.HTTPIngressPath]():      (*walk).ingressPath,
		reflect.TypeFor[networkingv1.IngressBackend]():       oneOfFields("a backend", "service", "resource"),
		reflect.TypeFor[networkingv1.NetworkPolicySpec]():    listed("policyTypes", "Ingress", "Egress"),
		reflect.TypeFor[networkingv1.NetworkPolicyPeer]():    (*walk).peer,
		reflect.TypeFor[networkingv1.NetworkPolicyPort]():    (*walk).policyPort,
		reflect.TypeFor[networkingv1.IPBlock]():              (*walk).ipBlock,

		reflect.TypeFor[policyv1.PodDisruptionBudgetSpec](): all(percentages("minAvailable", "maxUnavailable"),
			notAll("minAvailable", "maxUnavailable"),
			words("unhealthyPodEvictionPolicy", "IfHealthyBudget", "AlwaysAllow")),

		reflect.TypeFor[rbacv1.PolicyRule]():         (*walk).policyRule,
		reflect.TypeFor[rbacv1.Subject]():            words("kind", "User", "Group", "ServiceAccount"),
		reflect.TypeFor[rbacv1.RoleBinding]():        needs("roleRef"),
		reflect.TypeFor[rbacv1.ClusterRoleBinding](): needs("roleRef"),
		reflect.TypeFor[rbacv1.RoleRef]():            (*walk).roleRef,

		reflect.TypeFor[admissionv1.ValidatingWebhook](): webhook,
		reflect.TypeFor[admissionv1.MutatingWebhook]():   webhook,

		reflect.TypeFor[discoveryv1.EndpointSlice](): all(needs("addressType"),
			words("addressType", "IPv4", "IPv6", "FQDN")),
		reflect.TypeFor[corev1.EndpointAddress](): all(needs("ip"), format(notLoopback, "ip")),
	}
}

func (w *walk) matchLabels(v tree.Value) { w.labels(v.Find("matchLabels")) }

// longLived checks the fields common to all workloads whose pods are kept running.
func (w *walk) longLived(v tree.Value) {
	atLeast(0, "minReadySeconds", "revisionHistoryLimit")(w, v)
	if at := v.Find("template", "spec", "activeDeadlineSeconds"); at.Set() {
		w.report(codeExclusive, at, "remove it, or write a Job", "pods that are kept running have no deadline")
	}
	labels := v.Find("template", "metadata", "labels").Strings()
	for _, e := range v.Find("selector", "matchExpressions").Items() {
		key, values := e.Find("key").Str(), []string{}
		for _, value := range e.Find("values").Items() {
			values = append(values, value.Str())
		}
		has, ok := labels[key]
		if template(key) || template(has) || slices.ContainsFunc(values, template) {
			continue
		}
		fits := true
		switch e.Find("operator").Str() {
		case "In":
			fits = ok && slices.Contains(values, has)
		case "NotIn":
			fits = !ok || !slices.Contains(values, has)
		case "Exists":
			fits = ok
		case "DoesNotExist":
			fits = !ok
		}
		if !fits {
			w.report(codeSelector, e, "give the template labels that the selector selects",
				"the selector does not select the template, which has %s", described(labels, key))
		}
	}
}

// notAll requires percentages that are not above 100 %.
func notAll(fields ...string) constraint {
	return func(w *walk, v tree.Value) {
		for _, field := range fields {
			at := v.Find(field)
			digits, ok := strings.CutSuffix(at.Str(), "%")
			if n, err := strconv.Atoi(digits); ok && err == nil && n > 100 {
				w.invalid(at, "write 100% or less", "%s is more than 100%%", at.Str())
			}
		}
	}
}

// daemonRollout: maxUnavailable defaults to 1, maxSurge to 0.
func (w *walk) daemonRollout(v tree.Value) {
	surge, unavailable := v.Get("maxSurge"), v.Get("maxUnavailable")
	none := func(at tree.Value) bool { return zero(at) }
	switch {
	case unavailable.Set() && none(unavailable) && (!surge.Set() || none(surge)):
		w.report(codeExclusive, unavailable, "raise one of them",
			"maxSurge and maxUnavailable are 0: no pod could be replaced")
	case surge.Set() && !none(surge) && (!unavailable.Set() || !none(unavailable)):
		w.report(codeExclusive, surge, "write maxUnavailable: 0, or remove it",
			"maxSurge needs maxUnavailable: 0, whose default is 1")
	}
}

// jobParts checks that the fields of a Job are consistent.
func (w *walk) jobParts(v tree.Value) {
	if v.Find("completionMode").Str() == "Indexed" {
		if v.Get("parallelism").Set() { // the default of both is 1
			w.missing(v, "completions")
		}
	} else if !template(v.Find("completionMode").Str()) {
		for _, name := range some(v, "backoffLimitPerIndex", "maxFailedIndexes", "successPolicy") {
			w.report(codeExclusive, v.Get(name), "write completionMode: Indexed, or remove it",
				"%s needs completionMode: Indexed", name)
		}
	}
	if at := v.Find("template", "spec", "restartPolicy"); v.Get("podFailurePolicy").Set() && at.Str() == "OnFailure" {
		w.report(codeExclusive, at, "write Never", "podFailurePolicy needs restartPolicy: Never")
	}
	if at := v.Find("selector"); at.Set() && v.Find("manualSelector").Raw() != true {
		w.report(codeExclusive, at, "remove it", "a Job makes its selector itself, without manualSelector: true")
	}
}

func (w *walk) exitCodes(v tree.Value) {
	fills("values")(w, v)
	for _, n := range v.Find("values").Items() {
		if isZero(n) && v.Find("operator").Str() == "In" {
			w.invalid(n, "remove it", "0 is not a failure")
		}
	}
}

// timing checks when a CronJob runs. It accepts the names of days and months, steps
// and ranges of github.com/robfig/cron, which the API server uses.
func (w *walk) timing(v tree.Value) {
	at := v.Get("schedule")
	s := at.Str()
	switch {
	case template(s) || s == "":
	case strings.Contains(s, "TZ="):
		w.invalid(at, "write timeZone", "a schedule has no time zone")
	case strings.HasPrefix(s, "@"):
		known := []string{"@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"}
		if !slices.Contains(known, s) && !strings.HasPrefix(s, "@every ") {
			w.invalid(at, "write one of "+strings.Join(known, ", "), "%q is not a schedule", clip(s))
		}
	default:
		if fields := strings.Fields(s); len(fields) == 5 {
			w.scheduleFields(at, fields)
		}
	}
	zone := v.Get("timeZone")
	_, err := time.LoadLocation(zone.Str()) // as the API server does
	if strings.EqualFold(zone.Str(), "Local") || err != nil {
		w.invalid(zone, "write a name such as Europe/Berlin", "%q is not a name of the IANA time zones",
			clip(zone.Str()))
	}
}

// scheduleFields reports invalid words, steps and ranges.
func (w *walk) scheduleFields(at tree.Value, fields []string) {
	names := []string{"", "", "", "jan feb mar apr may jun jul aug sep oct nov dec", "sun mon tue wed thu fri sat"}
	least := []int{0, 0, 1, 1, 0}
	for i, field := range fields {
		for part := range strings.SplitSeq(field, ",") {
			if why := partOfSchedule(part, strings.Fields(names[i]), least[i]); why != "" {
				w.invalid(at, "correct the field", "%q in %q: %s", clip(part), clip(at.Str()), why)
			}
		}
	}
}

// partOfSchedule describes the error in one of the comma-separated parts of a field.
func partOfSchedule(part string, names []string, least int) string {
	span, step, stepped := strings.Cut(part, "/")
	if n, err := strconv.Atoi(step); stepped && (err != nil || n < 1) {
		return "a step is a number above 0"
	}
	from, to, ranged := strings.Cut(span, "-")
	if from == "*" || from == "?" {
		return ""
	}
	var ends []int
	for _, s := range []string{from, to} {
		if n := slices.Index(names, strings.ToLower(s)); n >= 0 {
			ends = append(ends, n+least)
		} else if n, err := strconv.Atoi(s); err == nil {
			ends = append(ends, n)
		} else {
			return "neither a number nor a name"
		}
		if !ranged {
			break
		}
	}
	switch {
	case ends[0] < least:
		return fmt.Sprintf("%d is below %d", ends[0], least)
	case ranged && ends[1] < ends[0]:
		return "the range ends before it begins"
	}
	return ""
}

// serviceParts checks that the fields of a Service are consistent.
func (w *walk) serviceParts(v tree.Value) {
	kind := v.Find("type").Str()
	balanced := func(tree.Value) bool { return kind == "LoadBalancer" || template(kind) }
	without("only for Services of type LoadBalancer", balanced, "loadBalancerClass")(w, v)
	if at := v.Find("loadBalancerSourceRanges"); at.Len() > 0 && !balanced(v) {
		w.report(codeExclusive, at, "remove it", "%s: only for Services of type LoadBalancer", at.Path())
	}
	if n := v.Find("healthCheckNodePort"); n.Set() && !isZero(n) &&
		(!balanced(v) || v.Find("externalTrafficPolicy").Str() != "Local") {
		w.report(codeExclusive, n, "remove it",
			"healthCheckNodePort needs type: LoadBalancer and externalTrafficPolicy: Local")
	}
	if ip := v.Find("clusterIP"); ip.Str() == "None" && (kind == "NodePort" || kind == "LoadBalancer") {
		w.report(codeExclusive, ip, "remove it, or write type: ClusterIP", "a Service of type %s is not headless", kind)
	}
	w.serviceAddresses(v, kind)
	w.unique("the address family", v.Find("ipFamilies").Items())
	seen := map[string]bool{}
	for _, p := range v.Find("ports").Items() {
		n, ok := number(p.Find("nodePort").Raw())
		key := fmt.Sprint(n, p.Find("protocol").Str())
		if ok && n != 0 && seen[key] {
			w.report(codeTwice, p.Get("nodePort"), "give each its own", "the node port %v is there twice", n)
		}
		seen[key] = true
	}
}

// serviceAddresses checks the addresses that a Service requests.
func (w *walk) serviceAddresses(v tree.Value, kind string) {
	ip, ips := v.Get("clusterIP"), v.Find("clusterIPs").Items()
	switch {
	case ip.Str() == "" && len(ips) > 0:
		w.report(codeExclusive, ips[0], "write the first one as clusterIP, too", "clusterIPs needs clusterIP")
	case len(ips) > 0 && ip.Str() != ips[0].Str() && !template(ip.Str()) && !template(ips[0].Str()):
		w.report(codeExclusive, ips[0], "write the same address first", "the first of clusterIPs is %s, and clusterIP "+
			"%s", clip(ips[0].Str()), clip(ip.Str()))
	case ip.Str() != "" && kind == "ExternalName":
		w.report(codeExclusive, ip, "remove it, or the type", "a Service of type ExternalName has no address")
	case ip.Str() != "None" && special(ip.Str()):
		w.invalid(ip, "remove it, or write an address of the cluster's range", "%s can be no address of a Service",
			ip.Str())
	}
	if at := v.Get("loadBalancerIP"); at.Str() != "" && !template(at.Str()) &&
		(len(address(at.Str())) > 0 || special(at.Str())) {
		w.add(policy.Warning, codeValue, at, "write an address of the load balancers, or remove it",
			"%q can be no address of a load balancer", clip(at.Str()))
	}
}

// special reports whether an address cannot belong to another machine.
func special(s string) bool {
	a, err := netip.ParseAddr(s)
	return err == nil && (a.IsUnspecified() || a.IsLoopback() || a.IsMulticast() || a.IsLinkLocalUnicast())
}

// definition checks a CustomResourceDefinition, which is not among the client
// types. Tools patch parts of definitions, so missing fields are not reported.
// k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation.
func (w *walk) definition(object tree.Value) {
	plural, group := object.Find("spec", "names", "plural").Str(), object.Find("spec", "group").Str()
	name := object.Get("metadata", "name")
	if want := plural + "." + group; plural != "" && group != "" && name.Str() != want && !template(want) {
		w.invalid(name, "write "+want, "%q is not %s: the name consists of spec.names.plural and spec.group",
			clip(name.Str()), clip(want))
	}
	w.oneOf(object.Find("spec", "scope"), "Namespaced", "Cluster")
	versions, stored := object.Find("spec", "versions"), 0
	for _, v := range versions.Items() {
		if v.Find("storage").True() {
			stored++
		}
	}
	if versions.Len() > 0 && stored != 1 {
		w.report(codeExclusive, versions, "write storage: true for one version, and false for the others",
			"%d versions have storage: true, and one must", stored)
	}
}

// domainName rejects names that do not have three parts.
func domainName(s string) []string {
	if strings.Count(s, ".") < 2 {
		return []string{"not a domain name of three parts, such as check.example.com"}
	}
	return validation.IsDNS1123Subdomain(s)
}

func hostName(s string) []string {
	return validation.IsDNS1123Subdomain(strings.TrimSuffix(s, "."))
}

func hostOrWildcard(s string) []string {
	if strings.Contains(s, "*") {
		return validation.IsWildcardDNS1123Subdomain(s)
	}
	return validation.IsDNS1123Subdomain(s)
}

func ingressHost(s string) []string {
	if _, err := netip.ParseAddr(s); err == nil {
		return []string{"an address, and not a name"}
	}
	return hostOrWildcard(s)
}

// configMap checks the keys of a ConfigMap.
func (w *walk) configMap(v tree.Value) {
	for _, list := range []string{"data", "binaryData"} {
		w.dataKeys(v.Find(list))
	}
	for _, key := range v.Find("binaryData").Keys() {
		if at := v.Get("data", key); at.Set() {
			w.report(codeTwice, at, "remove one", "%s is in data and in binaryData", clip(key))
		}
	}
}

// dataKeys checks keys that become names of files.
func (w *walk) dataKeys(v tree.Value) {
	for _, key := range v.Keys() {
		if why := validation.IsConfigMapKey(key); len(why) > 0 && !template(key) {
			text, _, _ := strings.Cut(why[0], " (e.g.")
			w.report(codeValue, v.Get(key), "write letters, digits, - _ and .", "the key %q: %s", clip(key), text)
		}
	}
}

// secretKeys checks the keys of a Secret, and that it has the keys that its type needs.
func (w *walk) secretKeys(v tree.Value) {
	w.dataKeys(v.Find("data"))
	w.dataKeys(v.Find("stringData"))
	has := func(key string) bool { return v.Find("data", key).Set() || v.Find("stringData", key).Set() }
	need := func(key string) {
		if !has(key) {
			w.report(codeMissing, v.Get("data", key), "add it", "a Secret of type %s needs %s",
				v.Find("type").Str(), key)
		}
	}
	switch v.Find("type").Str() {
	case "kubernetes.io/dockerconfigjson":
		need(".dockerconfigjson")
		w.jsonText(v.Find("stringData", ".dockerconfigjson"))
	case "kubernetes.io/dockercfg":
		need(".dockercfg")
		w.jsonText(v.Find("stringData", ".dockercfg"))
	case "kubernetes.io/basic-auth":
		if !has("password") {
			need("username")
		}
	case "kubernetes.io/ssh-auth":
		need("ssh-privatekey")
	case "kubernetes.io/service-account-token":
		if at := v.Get("metadata", "annotations", "kubernetes.io/service-account.name"); at.Str() == "" {
			w.report(codeMissing, at, "add it", "a Secret of type kubernetes.io/service-account-token needs the "+
				"annotation kubernetes.io/service-account.name")
		}
	}
}

func (w *walk) jsonText(v tree.Value) {
	var out map[string]any
	if s := v.Str(); s != "" && !placeholder(strings.Trim(s, "{} \n")) && json.Unmarshal([]byte(s), &out) != nil {
		w.invalid(v, "write a mapping in JSON", "not JSON")
	}
}

// accessModes: the mode for one pod stands alone.
func (w *walk) accessModes(v tree.Value) {
	modes := v.Find("accessModes").Items()
	for _, mode := range modes {
		if mode.Str() == "ReadWriteOncePod" && len(modes) > 1 {
			w.report(codeExclusive, mode, "remove the others", "ReadWriteOncePod has no other modes beside it")
		}
	}
}

func (w *walk) claimSize(v tree.Value) { positive(w, v.Find("resources", "requests", "storage")) }

// volumeParts checks the size and the source of a PersistentVolume.
func (w *walk) volumeParts(v tree.Value) {
	fills("accessModes")(w, v)
	for _, mode := range v.Find("accessModes").Items() {
		w.oneOf(mode, "ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod")
	}
	if at := v.Find("capacity", "storage"); at.Set() {
		positive(w, at)
	} else {
		w.report(codeMissing, v.Get("capacity", "storage"), "add it", "a volume needs capacity.storage")
	}
	if v.Find("local").Set() && !v.Find("nodeAffinity", "required").Set() {
		w.report(codeMissing, v.Get("nodeAffinity"), "name the node that has it", "a local volume needs nodeAffinity")
	}
	others := []string{"accessModes", "capacity", "claimRef", "mountOptions", "nodeAffinity",
		"persistentVolumeReclaimPolicy", "storageClassName", "volumeAttributesClassName", "volumeMode"}
	sources := slices.DeleteFunc(slices.Sorted(slices.Values(v.Keys())), func(key string) bool {
		return slices.Contains(others, key) || !v.Get(key).Set()
	})
	switch {
	case len(sources) == 0:
		w.report(codeMissing, v, "add one, such as csi", "a volume needs a source")
	case len(sources) > 1:
		w.report(codeExclusive, v.Get(sources[1]), "remove all but one", "a volume has one source, and not %s",
			strings.Join(sources, " and "))
	}
}

// quota checks the names of the resources that a ResourceQuota counts.
func (w *walk) quota(v tree.Value) {
	known := []string{"cpu", "memory", "ephemeral-storage", "requests.cpu", "requests.memory", "requests.storage",
		"requests.ephemeral-storage", "limits.cpu", "limits.memory", "limits.ephemeral-storage", "pods",
		"resourcequotas", "services", "replicationcontrollers", "secrets", "persistentvolumeclaims", "configmaps",
		"services.nodeports", "services.loadbalancers"}
	for _, name := range v.Find("hard").Keys() {
		at := v.Get("hard", name)
		if !slices.Contains(known, name) && !strings.Contains(name, "/") && !strings.Contains(name, "hugepages-") &&
			!template(name) {
			fix := "write a resource, or count/RESOURCE.GROUP"
			if near := nearest(name, known); near != "" {
				fix = "write " + near
			}
			w.report(codeValue, at, fix, "%q is not a resource of quotas", clip(name))
		}
		notBelowZero(w, at)
	}
}

// limitRange checks that limits do not contradict each other.
func (w *walk) limitRange(v tree.Value) {
	w.missing(v, "type")
	if v.Find("type").Str() == "Pod" {
		for _, name := range some(v, "default", "defaultRequest") {
			w.report(codeExclusive, v.Get(name), "remove it", "limits of type Pod have no %s", name)
		}
		return
	}
	for _, pair := range [][2]string{{"min", "max"}, {"min", "defaultRequest"}, {"defaultRequest", "default"},
		{"default", "max"}, {"min", "default"}, {"defaultRequest", "max"}} {
		for _, name := range v.Find(pair[0]).Keys() {
			low, lok := quantity(v.Find(pair[0], name))
			high, hok := quantity(v.Find(pair[1], name))
			if lok && hok && low.Cmp(high) > 0 {
				w.report(codeExclusive, v.Get(pair[0], name), "lower it", "%s of %s, %s, is above %s, %s", pair[0],
					name, low.String(), pair[1], high.String())
			}
		}
	}
}

// highestPriority is the highest that a user may give. Names that begin with system-
// are Kubernetes' own. k8s.io/kubernetes/pkg/apis/scheduling.
const highestPriority = 1_000_000_000

func (w *walk) priorityClass(v tree.Value) {
	name := v.Get("metadata", "name")
	n, ok := number(v.Find("value").Raw())
	switch {
	case name.Str() == "system-cluster-critical" || name.Str() == "system-node-critical":
	case strings.HasPrefix(name.Str(), "system-"):
		w.invalid(name, "write another", "names that begin with system- are Kubernetes' own")
	case ok && n > highestPriority:
		w.invalid(v.Get("value"), "write 1000000000 or less", "%v is above 1000000000", n)
	}
}

// metric checks that a metric has the source of its type.
func (w *walk) metric(v tree.Value) {
	sources := map[string]string{"Resource": "resource", "Pods": "pods", "Object": "object", "External": "external",
		"ContainerResource": "containerResource"}
	w.missing(v, "type")
	w.oneOf(v.Get("type"), "Resource", "Pods", "Object", "External", "ContainerResource")
	if source := sources[v.Find("type").Str()]; source != "" {
		w.missing(v, source)
	}
}

// scaleToZero: only metrics that exist without pods can wake a workload up again.
func (w *walk) scaleToZero(v tree.Value) {
	for _, m := range v.Find("metrics").Items() {
		if kind := m.Find("type").Str(); kind == "Object" || kind == "External" || template(kind) {
			return
		}
	}
	atLeast(1, "minReplicas")(w, v)
}

func (w *walk) resourceTarget(v tree.Value) {
	if v.Find("target").Set() && len(some(v.Get("target"), "averageUtilization", "averageValue")) == 0 {
		w.report(codeMissing, v.Get("target", "averageUtilization"), "add it, or averageValue",
			"a target needs averageUtilization or averageValue")
	}
}

func (w *walk) ingress(v tree.Value) {
	if !v.Get("defaultBackend").Set() {
		fills("rules")(w, v)
	}
}

// ingressPath reports parts of a path that have no meaning.
func (w *walk) ingressPath(v tree.Value) {
	at := v.Get("path")
	if kind := v.Find("pathType").Str(); kind != "Exact" && kind != "Prefix" {
		return
	}
	for _, part := range []string{"//", "/./", "/../", "%2f", "%2F"} {
		if strings.Contains(at.Str(), part) {
			w.invalid(at, "remove it", "%q has %s in it", clip(at.Str()), part)
		}
	}
}

func (w *walk) peer(v tree.Value) {
	there := some(v, "podSelector", "namespaceSelector", "ipBlock")
	switch {
	case len(there) == 0:
		w.report(codeMissing, v, "write podSelector, namespaceSelector or ipBlock", "%s names no peer", v.Path())
	case len(there) > 1 && slices.Contains(there, "ipBlock"):
		w.report(codeExclusive, v.Get("ipBlock"), "write a separate item for it", "ipBlock stands alone")
	}
}

func (w *walk) policyPort(v tree.Value) {
	w.oneOf(v.Get("protocol"), "TCP", "UDP", "SCTP", "")
	w.portOrName(v.Get("port"))
	end, ok := number(v.Find("endPort").Raw())
	from, numeric := number(v.Find("port").Raw())
	switch {
	case ok && !numeric && !template(v.Find("port").Str()):
		w.report(codeExclusive, v.Get("endPort"), "write port as a number, or remove it",
			"endPort needs a number as port")
	case ok && numeric && end < from:
		w.invalid(v.Get("endPort"), "raise it", "%v is less than port %v", end, from)
	}
}

func (w *walk) ipBlock(v tree.Value) {
	w.missing(v, "cidr")
	format(network, "cidr")(w, v)
	formats(network, "except")(w, v)
	whole, err := netip.ParsePrefix(v.Find("cidr").Str())
	if err != nil {
		return
	}
	for _, e := range v.Find("except").Items() {
		part, err := netip.ParsePrefix(e.Str())
		if err == nil && (!whole.Contains(part.Addr()) || part.Bits() <= whole.Bits()) {
			w.invalid(e, "write a part of it", "%s is not a part of %s", part, whole)
		}
	}
}

// policyRule checks a rule of a Role or a ClusterRole.
func (w *walk) policyRule(v tree.Value) {
	fills("verbs")(w, v)
	urls := v.Find("nonResourceURLs")
	switch {
	case urls.Len() == 0:
		fills("apiGroups")(w, v)
		fills("resources")(w, v)
	case w.root.Find("kind").Str() == "Role":
		w.report(codeExclusive, urls, "write a ClusterRole", "a Role has no nonResourceURLs")
	case v.Find("resources").Len() > 0 || v.Find("apiGroups").Len() > 0:
		w.report(codeExclusive, urls, "write a separate rule for them",
			"a rule has resources or nonResourceURLs, and not both")
	}
}

func (w *walk) roleRef(v tree.Value) {
	w.missing(v, "kind", "name")
	w.oneOf(v.Get("apiGroup"), "rbac.authorization.k8s.io", "")
	if w.root.Find("kind").Str() == "ClusterRoleBinding" {
		w.oneOf(v.Get("kind"), "ClusterRole")
	} else {
		w.oneOf(v.Get("kind"), "Role", "ClusterRole")
	}
}
