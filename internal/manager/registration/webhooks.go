// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package registration

import (
	"cmp"
	"fmt"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mullion-k8s/mullion/internal/manager/gmsa"
	"github.com/mullion-k8s/mullion/internal/manager/inventory"
	"github.com/mullion-k8s/mullion/internal/manager/webhook"
	"github.com/mullion-k8s/mullion/internal/policy/place"
)

// How long the API server waits, in seconds. Pods wait as long when a webhook
// hangs. Upstream's advice is "a small timeout"; 2 s hold one question to a
// registry. A GMSA costs two questions to the API server itself.
const (
	timeoutSeconds     int32 = 2
	gmsaTimeoutSeconds int32 = 5
)

// Mutating is the configuration of the mutating webhooks.
func (c Config) Mutating() *admissionregistrationv1.MutatingWebhookConfiguration {
	again := admissionregistrationv1.IfNeededReinvocationPolicy
	hooks := []admissionregistrationv1.MutatingWebhook{{
		// No match conditions: nearly every pod is reviewed, and each set of
		// conditions costs the API server a copy of the pod, twice if a webhook
		// changes it. The handler skips the pods to be left alone.
		Name: PlacementWebhook, ClientConfig: c.client(PlacementPath),
		Rules: []admissionregistrationv1.RuleWithOperations{rule("", []string{"pods"},
			admissionregistrationv1.Create)},
		NamespaceSelector: c.namespaces(),
		FailurePolicy:     new(admissionregistrationv1.Ignore), TimeoutSeconds: new(timeoutSeconds),
		// Sidecars and Linux-only defaults of other webhooks may come later.
		ReinvocationPolicy: &again,
	}, {
		// Their controller gives each pod its node before any webhook sees it.
		Name: DaemonSetsWebhook, ClientConfig: c.client(PlacementPath),
		Rules: []admissionregistrationv1.RuleWithOperations{
			rule("apps", []string{"daemonsets"}, admissionregistrationv1.Create, admissionregistrationv1.Update),
		},
		NamespaceSelector: c.namespaces(), MatchConditions: daemonSetConditions(),
		FailurePolicy: new(admissionregistrationv1.Ignore), TimeoutSeconds: new(timeoutSeconds),
		ReinvocationPolicy: &again,
	}, {
		Name: ClassesWebhook, ClientConfig: c.client(ClassesPath),
		Rules: []admissionregistrationv1.RuleWithOperations{clusterRule("node.k8s.io", "runtimeclasses",
			admissionregistrationv1.Create, admissionregistrationv1.Update)}, MatchConditions: classesConditions(),
		FailurePolicy: new(admissionregistrationv1.Ignore), TimeoutSeconds: new(timeoutSeconds),
		// It may delete a class of the controller, so that a user's finds the name free.
		SideEffects: new(admissionregistrationv1.SideEffectClassNoneOnDryRun),
	}}
	if !c.NoGMSA {
		// New pods are filled in at the path of placement: another webhook for them
		// would cost the API server two more copies of every pod. Where placement
		// does not answer, the validating webhook refuses.
		hooks = append(hooks, admissionregistrationv1.MutatingWebhook{
			Name: GMSAWebhook, ClientConfig: c.client(MutateGMSAPath),
			Rules: []admissionregistrationv1.RuleWithOperations{rule("",
				[]string{"pods/ephemeralcontainers"}, admissionregistrationv1.Update)},
			NamespaceSelector: c.gmsaNamespaces(), MatchConditions: gmsaConditions(),
			FailurePolicy: new(admissionregistrationv1.Fail), TimeoutSeconds: new(gmsaTimeoutSeconds),
			ReinvocationPolicy: &again,
		})
	}
	for i := range hooks {
		hooks[i].AdmissionReviewVersions = []string{"v1"}
		if hooks[i].SideEffects == nil {
			hooks[i].SideEffects = new(admissionregistrationv1.SideEffectClassNone)
		}
		hooks[i].MatchPolicy = new(admissionregistrationv1.Equivalent)
	}
	return &admissionregistrationv1.MutatingWebhookConfiguration{
		TypeMeta: metav1.TypeMeta{APIVersion: "admissionregistration.k8s.io/v1",
			Kind: "MutatingWebhookConfiguration"},
		ObjectMeta: c.meta(), Webhooks: hooks,
	}
}

// Validating is the configuration of the validating webhooks.
func (c Config) Validating() *admissionregistrationv1.ValidatingWebhookConfiguration {
	policy := cmp.Or(c.RulesFailurePolicy, admissionregistrationv1.Ignore)
	both := []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update}
	hooks := []admissionregistrationv1.ValidatingWebhook{{
		Name: PodRulesWebhook, ClientConfig: c.client(RulesPath),
		Rules: []admissionregistrationv1.RuleWithOperations{rule("", []string{"pods"},
			admissionregistrationv1.Create)},
		NamespaceSelector: c.namespaces(), ObjectSelector: c.judgedLater(),
		MatchConditions: []admissionregistrationv1.MatchCondition{notMirror(), notOnLinux()}, FailurePolicy: &policy,
		TimeoutSeconds: new(timeoutSeconds),
	}, {
		Name: RulesWebhook, ClientConfig: c.client(RulesPath),
		Rules: []admissionregistrationv1.RuleWithOperations{ // as in Judges
			rule("", []string{"podtemplates", "replicationcontrollers", "services"}, both...),
			rule("", []string{"pods", "pods/ephemeralcontainers", "pods/resize"}, admissionregistrationv1.Update),
			rule("apps", []string{"daemonsets", "deployments", "replicasets", "statefulsets"}, both...),
			rule("batch", []string{"cronjobs", "jobs"}, both...),
			clusterRule("storage.k8s.io", "storageclasses", admissionregistrationv1.Create),
		},
		NamespaceSelector: c.namespaces(), MatchConditions: rulesConditions(),
		FailurePolicy: &policy, TimeoutSeconds: new(timeoutSeconds),
	}}
	if !c.NoGMSA {
		hooks = append(hooks, admissionregistrationv1.ValidatingWebhook{
			Name: GMSAWebhook, ClientConfig: c.client(ValidateGMSAPath),
			Rules: []admissionregistrationv1.RuleWithOperations{
				rule("", []string{"pods"}, both...),
				rule("", []string{"pods/ephemeralcontainers"}, admissionregistrationv1.Update),
			},
			NamespaceSelector: c.gmsaNamespaces(), MatchConditions: gmsaConditions(),
			FailurePolicy: new(admissionregistrationv1.Fail), TimeoutSeconds: new(gmsaTimeoutSeconds),
		})
	}
	for i := range hooks {
		hooks[i].AdmissionReviewVersions = []string{"v1"}
		hooks[i].SideEffects = new(admissionregistrationv1.SideEffectClassNone)
		hooks[i].MatchPolicy = new(admissionregistrationv1.Equivalent)
	}
	return &admissionregistrationv1.ValidatingWebhookConfiguration{
		TypeMeta: metav1.TypeMeta{APIVersion: "admissionregistration.k8s.io/v1",
			Kind: "ValidatingWebhookConfiguration"},
		ObjectMeta: c.meta(), Webhooks: hooks,
	}
}

// ValidatesWithPlacement reports whether new pods are validated in the answer of
// placement, where no other webhook changes them afterwards. They are not where
// no pod may be made without a verdict: placement fails open.
func (c Config) ValidatesWithPlacement() bool {
	return c.RulesFailurePolicy != admissionregistrationv1.Fail
}

// judgedLater selects the new pods that placement has not judged. A label
// selector is free for the API server; nil selects all.
func (c Config) judgedLater() *metav1.LabelSelector {
	if !c.ValidatesWithPlacement() {
		return nil
	}
	return &metav1.LabelSelector{MatchLabels: map[string]string{webhook.JudgedLabel: webhook.JudgedLater}}
}

func (c Config) meta() metav1.ObjectMeta {
	m := metav1.ObjectMeta{Name: Name, Labels: inventory.Labels()}
	if c.Owner != nil {
		m.OwnerReferences = []metav1.OwnerReference{*c.Owner}
	}
	return m
}

func (c Config) namespaces() *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
		{Key: "kubernetes.io/metadata.name", Operator: metav1.LabelSelectorOpNotIn,
			Values: []string{"kube-system", c.Namespace}},
		{Key: disabledLabel, Operator: metav1.LabelSelectorOpNotIn, Values: []string{"true"}},
	}}
}

// Exempts reports whether the webhooks leave out a namespace with labels.
func (c Config) Exempts(namespace string, labels map[string]string) bool {
	return namespace == "kube-system" || namespace == c.Namespace || labels[disabledLabel] == "true"
}

// Judges reports whether the webhooks judge objects of a kind.
func Judges(kind string) bool {
	switch kind {
	case "Pod", "PodTemplate", "ReplicationController", "Service", "DaemonSet", "Deployment", "ReplicaSet",
		"StatefulSet", "CronJob", "Job", "StorageClass":
		return true
	}
	return false
}

// gmsaNamespaces also excludes the namespaces that upstream's webhook excludes.
func (c Config) gmsaNamespaces() *metav1.LabelSelector {
	s := c.namespaces()
	for _, l := range gmsa.OptOut() {
		s.MatchExpressions = append(s.MatchExpressions,
			metav1.LabelSelectorRequirement{Key: l.Key, Operator: metav1.LabelSelectorOpNotIn,
				Values: []string{l.Value}})
	}
	return s
}

func rule(group string, resources []string,
	ops ...admissionregistrationv1.OperationType) admissionregistrationv1.RuleWithOperations {
	return admissionregistrationv1.RuleWithOperations{Operations: ops, Rule: admissionregistrationv1.Rule{
		APIGroups:   []string{group},
		APIVersions: []string{"v1"},
		Resources:   resources,
		Scope:       new(admissionregistrationv1.NamespacedScope),
	}}
}

// clusterRule is a rule for objects without a namespace.
func clusterRule(group, resource string,
	ops ...admissionregistrationv1.OperationType) admissionregistrationv1.RuleWithOperations {
	r := rule(group, []string{resource}, ops...)
	r.Scope = new(admissionregistrationv1.ClusterScope)
	return r
}

// classesConditions select users' RuntimeClasses that have a name of one of the
// controller's.
func classesConditions() []admissionregistrationv1.MatchCondition {
	return []admissionregistrationv1.MatchCondition{
		{Name: "name-of-a-build", Expression: `object.metadata.?name.orValue('').startsWith('windows-')`},
		{
			Name: "not-ours",
			Expression: `request.operation == 'CREATE' ? ` +
				`object.metadata.?labels[?'app.kubernetes.io/managed-by'].orValue('') != 'mullion' : object.handler ` +
				`!= oldObject.handler`,
		},
	}
}

// notMirror: a mirror pod only shows a pod that a kubelet runs from a file,
// independently of the API.
func notMirror() admissionregistrationv1.MatchCondition {
	return admissionregistrationv1.MatchCondition{
		Name: "not-a-mirror-pod",
		Expression: `!has(object.metadata.annotations) || !('kubernetes.io/config.mirror' in ` +
			`object.metadata.annotations)`,
	}
}

// notDeleted: objects being deleted must not be delayed.
func notDeleted() admissionregistrationv1.MatchCondition {
	return admissionregistrationv1.MatchCondition{
		Name:       "not-being-deleted",
		Expression: `!has(object.metadata.deletionTimestamp)`,
	}
}

func daemonSetConditions() []admissionregistrationv1.MatchCondition {
	return []admissionregistrationv1.MatchCondition{
		notDeleted(),
		{
			// Else a change of a label would roll all pods of an old DaemonSet out.
			Name:       "template-is-new",
			Expression: `request.operation == 'CREATE' || object.spec.template != oldObject.spec.template`,
		},
	}
}

func rulesConditions() []admissionregistrationv1.MatchCondition {
	return []admissionregistrationv1.MatchCondition{
		notMirror(), notDeleted(),
		{
			// A Deployment has been judged; its ReplicaSets have the same template.
			Name: "not-made-by-a-controller-that-was-judged",
			Expression: `request.kind.kind == 'Pod' || !has(object.metadata.ownerReferences) || ` +
				`!object.metadata.ownerReferences.exists(o, has(o.controller) && o.controller && o.kind in ` +
				`['Deployment', 'CronJob'])`,
		},
		notOnLinux(),
		{
			Name: "spec-is-new",
			Expression: `request.operation == 'CREATE' || object.?spec != oldObject.?spec || object.?template != ` +
				`oldObject.?template`,
		},
	}
}

// notOnLinux: placement has found no sign of Windows in a pod and put it on
// Linux nodes: no rule applies. This is the one review that would needlessly
// delay every ordinary pod of the cluster.
func notOnLinux() admissionregistrationv1.MatchCondition {
	return admissionregistrationv1.MatchCondition{
		Name: "not-placed-on-linux",
		Expression: fmt.Sprintf(`request.kind.kind != 'Pod' || `+
			`!object.metadata.?annotations[?'%s'].orValue('').startsWith('linux:') || `+
			`object.spec.?nodeSelector[?'kubernetes.io/os'].orValue('') != 'linux'`,
			place.ReasonAnnotation),
	}
}

// gmsaConditions let pods through that have a GMSA anywhere.
func gmsaConditions() []admissionregistrationv1.MatchCondition {
	// has() and not optionals: for a pod without Windows options, which nearly all
	// are, each term ends at its second step.
	set := func(of string) string {
		w := of + `.securityContext.windowsOptions`
		return fmt.Sprintf(`has(%[1]s.securityContext) && has(%[2]s) && (has(%[2]s.gmsaCredentialSpecName) || `+
			`has(%[2]s.gmsaCredentialSpec))`, of, w)
	}
	anywhere := func(object string) string {
		terms := []string{set(object + ".spec")}
		for _, list := range []string{"containers", "initContainers", "ephemeralContainers"} {
			terms = append(terms, fmt.Sprintf(`has(%[1]s.spec.%[2]s) && %[1]s.spec.%[2]s.exists(c, %[3]s)`, object,
				list, set("c")))
		}
		return strings.Join(terms, " || ")
	}
	// Mirror pods are not exempt here: anyone who may create pods may write that
	// annotation.
	return []admissionregistrationv1.MatchCondition{
		{Name: "uses-a-gmsa", Expression: anywhere("object") + ` || (oldObject != null && (` +
			anywhere("oldObject") + `))`},
	}
}
