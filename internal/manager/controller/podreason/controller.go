// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package podreason

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/mullion-k8s/mullion/internal/logkey"
	"github.com/mullion-k8s/mullion/internal/manager/controller"
	"github.com/mullion-k8s/mullion/internal/manager/inventory"
	"github.com/mullion-k8s/mullion/internal/policy"
	"github.com/mullion-k8s/mullion/internal/policy/rule"
)

const (
	// settle is how long nodes and RuntimeClasses may go on changing before the
	// waiting pods are judged again.
	settle = 3 * time.Second
	// Judgements per second, and how many may come at once: with 200 nodes one
	// takes about 0.7 ms of a processor, so that however many pods wait and
	// however often nodes change, a third of one is the most.
	judgements, judgedAtOnce = 500, 500
	// again is the interval at which a waiting pod is judged again without an
	// event: a registry's answer may have changed.
	again = 2 * time.Minute
	// repeat is how old an event may become: the API server forgets them after an
	// hour (kube-apiserver --event-ttl), and then kubectl describe is silent.
	repeat = 45 * time.Minute
	// Pods that get an event per second, and the burst; each takes two writes to
	// the API server. 10,000 pods that cannot run get theirs within eight minutes;
	// the scheduler may make 50 writes a second (KubeSchedulerConfiguration,
	// clientConnection.qps).
	eventsPerSecond, burst = 20, 40
	// workers judge at the same time: some may wait for a registry.
	workers = 4
	// everything is the key for all waiting pods.
	everything = ""
)

// Facts provides the facts that the rules need besides the pod.
type Facts interface {
	// Facts returns the known facts for judging object, which is in namespace.
	// It may be called concurrently, and must answer before the context's
	// deadline.
	Facts(ctx context.Context, namespace string, object *policy.Parsed) (facts policy.Facts, warnings []string)
}

// factsLimit bounds one call of Facts, which may query registries.
const factsLimit = 5 * time.Second

// Config configures a Controller. Log and Facts must be set.
type Config struct {
	Log   *slog.Logger
	Facts Facts
	// Informers of nodes and RuntimeClasses may be shared with others. The controller watches pods by
	// itself, because it keeps only waiting ones.
	Informers informers.SharedInformerFactory
}

// Controller judges the waiting pods of a cluster.
type Controller struct {
	client kubernetes.Interface
	cfg    Config
	judged flowcontrol.RateLimiter
	writes flowcontrol.RateLimiter
	now    func() time.Time

	pods  cache.SharedIndexInformer
	nodes cache.SharedIndexInformer
	queue controller.Queue

	mu         sync.Mutex
	evaluators map[policy.Version]*rule.Set // guarded by mu
	seen       string                       // guarded by mu; the nodes of the last judgement of all
}

// New makes a controller. Its client needs the rights of Rules.
func New(client kubernetes.Interface, cfg Config) *Controller {
	return &Controller{
		client:     client,
		cfg:        cfg,
		now:        time.Now,
		evaluators: map[policy.Version]*rule.Set{},
		judged:     flowcontrol.NewTokenBucketRateLimiter(judgements, judgedAtOnce),
		writes:     flowcontrol.NewTokenBucketRateLimiter(eventsPerSecond, burst),
	}
}

// Run works until the context is cancelled, and then returns nil.
func (c *Controller) Run(ctx context.Context) error {
	c.queue = controller.NewQueue()
	alive := fields.ParseSelectorOrDie("status.phase!=Succeeded,status.phase!=Failed").String()
	own := informers.NewSharedInformerFactoryWithOptions(c.client, 0,
		informers.WithTransform(controller.Strip(needsReason)),
		informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.FieldSelector = alive }))
	defer own.Shutdown()
	c.pods, c.nodes = own.Core().V1().Pods().Informer(), c.cfg.Informers.Core().V1().Nodes().Informer()
	return controller.Watch{Log: c.cfg.Log, Queue: c.queue, Workers: workers, Handle: c.handle}.Run(ctx,
		[]controller.Source{
			{Informer: c.pods, Handlers: controller.Changes(nil, c.put)},
			{Informer: c.nodes, Handlers: controller.Changes(
				func(old, now *corev1.Node) bool { return summary(old) == summary(now) },
				func(*corev1.Node) { c.queue.AddAfter(everything, settle) })},
			{Informer: c.cfg.Informers.Node().V1().RuntimeClasses().Informer(), Handlers: controller.Changes(
				func(old, now *nodev1.RuntimeClass) bool {
					return equality.Semantic.DeepEqual(old.Scheduling, now.Scheduling)
				}, c.classes)},
		}, own, c.cfg.Informers)
}

// put queues a pod that waits.
func (c *Controller) put(p *corev1.Pod) {
	if needsReason(p) {
		c.queue.Add(p.Namespace + "/" + p.Name)
	}
}

// classes makes all pods that wait be judged, though no node has changed.
func (c *Controller) classes(*nodev1.RuntimeClass) {
	c.mu.Lock()
	c.seen = ""
	c.mu.Unlock()
	c.queue.AddAfter(everything, settle)
}

// summary holds the properties of a node that may change a verdict. Its name is
// not one, so the hundredth node of a kind has no effect.
func summary(n *corev1.Node) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s %s %s", n.Labels[corev1.LabelOSStable], n.Labels[corev1.LabelWindowsBuild],
		n.Status.NodeInfo.OperatingSystem, n.Status.NodeInfo.KernelVersion)
	for _, t := range n.Spec.Taints {
		fmt.Fprintf(&b, " %s=%s:%s", t.Key, t.Value, t.Effect)
	}
	for _, h := range n.Status.RuntimeHandlers {
		b.WriteString(" " + h.Name)
	}
	return b.String()
}

// changed reports whether the nodes differ from the nodes at the last call.
func (c *Controller) changed() bool {
	var kinds []string
	for _, n := range controller.All[corev1.Node](c.nodes) {
		kinds = append(kinds, summary(n))
	}
	slices.Sort(kinds)
	now := "nodes:\n" + strings.Join(slices.Compact(kinds), "\n")
	c.mu.Lock()
	defer c.mu.Unlock()
	changed := c.seen != now
	c.seen = now
	return changed
}

// handle judges one pod, or queues all that wait.
func (c *Controller) handle(ctx context.Context, key string) error {
	if key == everything {
		if c.changed() {
			for _, p := range controller.All[corev1.Pod](c.pods) {
				c.put(p)
			}
		}
		return nil
	}
	pod := controller.Find[corev1.Pod](c.pods, key)
	if pod == nil || !needsReason(pod) {
		return nil
	}
	if err := c.judged.Wait(ctx); err != nil {
		return nil // the context ends
	}
	v, err := c.evaluate(ctx, pod)
	if err != nil {
		return err
	}
	if v != (verdict{}) {
		c.queue.AddAfter(key, again)
	}
	return c.record(ctx, pod, v)
}

func (c *Controller) evaluate(ctx context.Context, pod *corev1.Pod) (verdict, error) {
	object, err := decode(pod)
	if err != nil {
		return verdict{}, fmt.Errorf("read pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	ctx, cancel := context.WithTimeout(ctx, factsLimit)
	defer cancel()
	facts, _ := c.cfg.Facts.Facts(ctx, pod.Namespace, policy.Parse(object)) // unknown facts are not reported
	return judge(c.evaluator(facts.Kubernetes), pod, object, facts), nil
}

// decode returns a pod as encoding/json decodes it, the form that the rules
// need.
func decode(pod *corev1.Pod) (map[string]any, error) {
	p := *pod
	p.APIVersion, p.Kind = "v1", "Pod"
	data, err := json.Marshal(&p)
	if err != nil {
		return nil, err
	}
	var object map[string]any
	err = json.Unmarshal(data, &object)
	return object, err
}

func (c *Controller) evaluator(v policy.Version) *rule.Set {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.evaluators[v]
	if e == nil {
		e = rule.New(policy.Facts{Kubernetes: v})
		c.evaluators[v] = e
	}
	return e
}

// record writes a verdict into the pod, if it differs.
func (c *Controller) record(ctx context.Context, pod *corev1.Pod, v verdict) error {
	patch, event, err := statusPatch(pod, v, c.now())
	if err != nil || patch == nil {
		return err
	}
	if err := c.writes.Wait(ctx); err != nil {
		return nil // the context ends
	}
	// The event first: after a failure, the retry makes the same event.
	if event {
		if err := controller.Apply(ctx, c.client, newEvent(pod, v, c.now())); err != nil {
			return err
		}
	}
	_, err = c.client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, patch,
		metav1.PatchOptions{FieldManager: inventory.Owner}, "status")
	switch {
	// gone; or another pod of the name, which is seen as such
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return nil
	case err != nil:
		return fmt.Errorf("write condition of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	c.cfg.Log.Debug("recorded on a pod whether it fits", logkey.Namespace, pod.Namespace, logkey.Pod, pod.Name,
		logkey.Reason, v.Reason)
	return nil
}

// newEvent is the event of a verdict: one for each pod and reason, which a later one of the same reason replaces.
func newEvent(pod *corev1.Pod, v verdict, now time.Time) *applycorev1.EventApplyConfiguration {
	e := controller.PodEvent(pod, "", v.Reason, v.Message, metav1.NewTime(now.UTC().Truncate(time.Second)))
	e.InvolvedObject.WithResourceVersion(pod.ResourceVersion)
	return e
}

// condition is a PodCondition with all fields: a field missing in a patch would
// keep its old value.
type condition struct {
	Type               corev1.PodConditionType `json:"type"`
	Status             corev1.ConditionStatus  `json:"status"`
	Reason             string                  `json:"reason"`
	Message            string                  `json:"message"`
	LastProbeTime      metav1.Time             `json:"lastProbeTime"`      // when the event was made or repeated
	LastTransitionTime metav1.Time             `json:"lastTransitionTime"` // of Status
}

// statusPatch returns the strategic merge patch that writes a verdict into a
// pod's status, or nil if the status has it. event reports whether to emit an
// event.
func statusPatch(pod *corev1.Pod, v verdict, now time.Time) (data []byte, event bool, err error) {
	want := condition{Type: Condition, Status: corev1.ConditionFalse, Reason: v.Reason, Message: v.Message}
	if v == (verdict{}) {
		want.Status, want.Reason = corev1.ConditionTrue, reasonFits
	}
	at := metav1.NewTime(now.UTC().Truncate(time.Second))
	want.LastProbeTime, want.LastTransitionTime = at, at
	if have := reasonCondition(pod); have != nil {
		if have.Status == want.Status {
			want.LastTransitionTime = have.LastTransitionTime
		}
		old := want.Status == corev1.ConditionFalse && now.Sub(have.LastProbeTime.Time) >= repeat
		if have.Status == want.Status && have.Reason == want.Reason && have.Message == want.Message && !old {
			return nil, false, nil
		}
	} else if want.Status == corev1.ConditionTrue {
		return nil, false, nil // never had a reason
	}
	var p struct {
		Metadata struct {
			UID types.UID `json:"uid"` // another pod of the name must not get it
		} `json:"metadata"`
		Status struct {
			Conditions []condition `json:"conditions"`
		} `json:"status"`
	}
	p.Metadata.UID = pod.UID
	p.Status.Conditions = []condition{want}
	if data, err = json.Marshal(p); err != nil {
		return nil, false, fmt.Errorf("write condition of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return data, want.Status == corev1.ConditionFalse, nil
}
