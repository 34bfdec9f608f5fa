// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package podreason

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
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
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/mullion-k8s/mullion/internal/logkey"
	"github.com/mullion-k8s/mullion/internal/manager/controller"
	"github.com/mullion-k8s/mullion/internal/manager/inventory"
	"github.com/mullion-k8s/mullion/internal/policy"
)

const (
	// settle is how long nodes and RuntimeClasses may go on changing before the
	// waiting pods are judged again.
	settle = 3 * time.Second
	// Judgements per second, and how many may come at once: with 200 nodes one
	// takes about 0.7 ms of a processor, so that however many pods wait and
	// however often nodes change, a third of one is the most.
	judgements, judgedAtOnce = 500, 500
	// again is when a waiting pod is judged again without an event: what a
	// registry says may have changed.
	again = 2 * time.Minute
	// repeat is how old an event may become: the API server forgets them after an
	// hour (kube-apiserver --event-ttl), and then kubectl describe is silent.
	repeat = 45 * time.Minute
	// Pods told per second, and how many may be at once; each takes two writes to
	// the API server. 10,000 that all cannot run are told within eight minutes; the
	// scheduler may make 50 writes a second (KubeSchedulerConfiguration,
	// clientConnection.qps).
	tells, burst = 20, 40
	// workers judge at the same time: some may wait for a registry.
	workers = 4
	// everything is the key for all waiting pods.
	everything = ""
)

// Facts provides what the rules need to know besides the pod.
type Facts interface {
	// Facts returns what is known for judging object, which is in namespace. It
	// may be called concurrently, and must answer before the context's deadline.
	Facts(ctx context.Context, namespace string, object *policy.Parsed) (facts policy.Facts, warnings []string)
}

// factsLimit bounds one call of Facts, which may ask registries.
const factsLimit = 5 * time.Second

// Config configures a Controller. Log and Facts must be set.
type Config struct {
	Log   *slog.Logger
	Facts Facts
	// Informers of nodes and RuntimeClasses may be shared with others; nil makes
	// the controller watch by itself. It always watches pods by itself, because
	// it keeps only waiting ones.
	Informers informers.SharedInformerFactory
}

// Controller judges the waiting pods of a cluster.
type Controller struct {
	client kubernetes.Interface
	cfg    Config
	judged flowcontrol.RateLimiter
	writes flowcontrol.RateLimiter
	now    func() time.Time

	pods  corelisters.PodLister
	nodes corelisters.NodeLister
	queue controller.Queue

	mu         sync.Mutex
	evaluators map[policy.Version]*policy.Evaluator // guarded by mu
	seen       string                               // guarded by mu; the nodes of the last judgement of all
}

// New makes a controller. Its client needs the rights of Rules.
func New(client kubernetes.Interface, cfg Config) *Controller {
	return &Controller{
		client:     client,
		cfg:        cfg,
		now:        time.Now,
		evaluators: map[policy.Version]*policy.Evaluator{},
		judged:     flowcontrol.NewTokenBucketRateLimiter(judgements, judgedAtOnce),
		writes:     flowcontrol.NewTokenBucketRateLimiter(tells, burst),
	}
}

// Run works until the context is cancelled, and then returns nil.
func (c *Controller) Run(ctx context.Context) error {
	c.queue = controller.NewQueue()
	alive := fields.ParseSelectorOrDie("status.phase!=Succeeded,status.phase!=Failed").String()
	own := informers.NewSharedInformerFactoryWithOptions(c.client, 0, informers.WithTransform(strip),
		informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.FieldSelector = alive }))
	defer own.Shutdown()
	factory, stop := controller.Informers(c.cfg.Informers, c.client)
	defer stop()
	pods, nodes, classes := own.Core().V1().Pods(), factory.Core().V1().Nodes(), factory.Node().V1().RuntimeClasses()
	c.pods, c.nodes = pods.Lister(), nodes.Lister()

	put := func(obj any) {
		if p, ok := obj.(*corev1.Pod); ok && needsReason(p) {
			c.queue.Add(p.Namespace + "/" + p.Name)
		}
	}
	all := func(any) { c.queue.AddAfter(everything, settle) }
	synced := []cache.InformerSynced{}
	for _, w := range []struct {
		what     string
		informer cache.SharedIndexInformer
		handler  cache.ResourceEventHandlerFuncs
	}{
		{"pods", pods.Informer(), cache.ResourceEventHandlerFuncs{AddFunc: put, UpdateFunc: func(_, o any) { put(o) }}},
		{"nodes", nodes.Informer(), cache.ResourceEventHandlerFuncs{AddFunc: all, DeleteFunc: all,
			UpdateFunc: func(old, now any) {
				if o, n := old.(*corev1.Node), now.(*corev1.Node); summary(o) != summary(n) {
					all(nil)
				}
			}}},
		{"RuntimeClasses", classes.Informer(), cache.ResourceEventHandlerFuncs{AddFunc: c.classes,
			DeleteFunc: c.classes, UpdateFunc: func(old, now any) {
				if o, n := old.(*nodev1.RuntimeClass),
					now.(*nodev1.RuntimeClass); !equality.Semantic.DeepEqual(o.Scheduling, n.Scheduling) {
					c.classes(nil)
				}
			}}},
	} {
		reg, err := w.informer.AddEventHandler(w.handler)
		if err != nil {
			return fmt.Errorf("watch %s: %w", w.what, err)
		}
		synced = append(synced, reg.HasSynced)
	}
	own.Start(ctx.Done())
	factory.Start(ctx.Done())
	return controller.Work(ctx, c.cfg.Log, c.queue, synced, workers, c.handle)
}

// classes makes all pods that wait be judged, though no node has changed.
func (c *Controller) classes(any) {
	c.mu.Lock()
	c.seen = ""
	c.mu.Unlock()
	c.queue.AddAfter(everything, settle)
}

// strip reduces a pod that needs no explanation to its identity: the cache
// holds all pods of the cluster that have not ended.
func strip(obj any) (any, error) {
	p, ok := obj.(*corev1.Pod)
	if !ok {
		return obj, nil
	}
	if needsReason(p) {
		p.ManagedFields = nil
		return p, nil
	}
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace:       p.Namespace,
		Name:            p.Name,
		UID:             p.UID,
		ResourceVersion: p.ResourceVersion,
	}}, nil
}

// summary holds the properties of a node that may change a verdict. Its name is
// not one, so the hundredth node of a kind changes nothing.
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

// changed reports whether the nodes differ from those of the last call.
func (c *Controller) changed() (bool, error) {
	nodes, err := c.nodes.List(labels.Everything())
	if err != nil {
		return false, fmt.Errorf("list nodes: %w", err)
	}
	kinds := make([]string, len(nodes))
	for i, n := range nodes {
		kinds[i] = summary(n)
	}
	slices.Sort(kinds)
	now := "nodes:\n" + strings.Join(slices.Compact(kinds), "\n")
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.seen == now {
		return false, nil
	}
	c.seen = now
	return true, nil
}

// handle judges one pod, or queues all that wait.
func (c *Controller) handle(ctx context.Context, key string) error {
	if key == everything {
		changed, err := c.changed()
		if err != nil || !changed {
			return err
		}
		pods, err := c.pods.List(labels.Everything())
		if err != nil {
			return fmt.Errorf("list pods: %w", err)
		}
		for _, p := range pods {
			if needsReason(p) {
				c.queue.Add(p.Namespace + "/" + p.Name)
			}
		}
		return nil
	}
	namespace, name, err := cache.SplitMetaNamespaceKey(key)
	if err != nil {
		return fmt.Errorf("read key %q: %w", key, err)
	}
	pod, err := c.pods.Pods(namespace).Get(name)
	if apierrors.IsNotFound(err) || err == nil && !needsReason(pod) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read pod %s: %w", key, err)
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

func (c *Controller) evaluator(v policy.Version) *policy.Evaluator {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.evaluators[v]
	if e == nil {
		e = policy.New(policy.Facts{Kubernetes: v})
		c.evaluators[v] = e
	}
	return e
}

// record writes a verdict into the pod, if it says something else.
func (c *Controller) record(ctx context.Context, pod *corev1.Pod, v verdict) error {
	patch, event, err := statusPatch(pod, v, c.now())
	if err != nil || patch == nil {
		return err
	}
	if err := c.writes.Wait(ctx); err != nil {
		return nil // the context ends
	}
	// The event first: what fails after it is done again, and then makes the same
	// event.
	if event {
		if err := c.say(ctx, pod, v); err != nil {
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
	c.cfg.Log.Debug("told a pod whether it fits", logkey.Namespace, pod.Namespace, logkey.Pod, pod.Name,
		logkey.Reason, v.Reason)
	return nil
}

// say applies the event of a verdict. A recorder would drop events when there
// are many; this one waits, and says the same thing of the same pod in one
// event.
func (c *Controller) say(ctx context.Context, pod *corev1.Pod, v verdict) error {
	_, err := c.client.CoreV1().Events(pod.Namespace).Apply(ctx, newEvent(pod, v, c.now()),
		metav1.ApplyOptions{FieldManager: inventory.Owner, Force: true})
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("write event of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}

// newEvent is the Warning event of a verdict: one for each pod and reason, which a
// later one of the same reason replaces.
func newEvent(pod *corev1.Pod, v verdict, now time.Time) *applycorev1.EventApplyConfiguration {
	h := fnv.New64a()
	fmt.Fprintf(h, "%s %s", pod.UID, v.Reason)
	at := metav1.NewTime(now.UTC().Truncate(time.Second))
	// A name has at most 253 bytes (a DNS subdomain), as that of the pod may have.
	name := fmt.Sprintf("%s.%016x", strings.TrimRight(pod.Name[:min(len(pod.Name), 200)], ".-"), h.Sum64())
	return applycorev1.Event(name, pod.Namespace).
		WithInvolvedObject(applycorev1.ObjectReference().WithAPIVersion("v1").WithKind("Pod").WithNamespace(
			pod.Namespace).WithName(pod.Name).
			WithUID(pod.UID).WithResourceVersion(pod.ResourceVersion)).
		WithType(corev1.EventTypeWarning).WithReason(v.Reason).WithMessage(v.Message).
		WithSource(applycorev1.EventSource().WithComponent(inventory.Owner)).WithReportingController(inventory.Owner).
		WithFirstTimestamp(at).WithLastTimestamp(at).WithCount(1)
}

// condition is a PodCondition of which nothing is left out: a field that a
// patch does not have would keep its old value.
type condition struct {
	Type               corev1.PodConditionType `json:"type"`
	Status             corev1.ConditionStatus  `json:"status"`
	Reason             string                  `json:"reason"`
	Message            string                  `json:"message"`
	LastProbeTime      metav1.Time             `json:"lastProbeTime"`      // when the event was made or repeated
	LastTransitionTime metav1.Time             `json:"lastTransitionTime"` // of Status
}

// statusPatch is the strategic merge patch of a pod's status that makes it say a
// verdict; nil if it does. event reports whether users should be told.
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
