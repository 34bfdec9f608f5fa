// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package facts

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"

	"github.com/mullion-k8s/mullion/internal/logkey"
	"github.com/mullion-k8s/mullion/internal/manager/inventory"
	"github.com/mullion-k8s/mullion/internal/policy"
	"github.com/mullion-k8s/mullion/internal/policy/place"
	"github.com/mullion-k8s/mullion/internal/registry"
	"github.com/mullion-k8s/mullion/internal/registry/lookup"
)

// Config configures a Source. Log must be set.
type Config struct {
	Log *slog.Logger
	// Namespace has the ConfigMap of loaded images; "" means DefaultNamespace.
	Namespace string
	// DefaultOS is the operating system of pods that do not indicate one, in
	// namespaces that do not either; "" if it is not configured.
	DefaultOS string
	// NoPrivileged: the API server runs with --allow-privileged=false.
	NoPrivileged bool
	// Registry configures how registries are queried.
	Registry lookup.Config
	// Looked is called with the outcome of each lookup in a registry; it may be
	// nil.
	Looked func(lookup.Outcome)
}

const (
	// askLimit is for one question to the API server in the course of an answer:
	// a server under load answers a get in some 10 ms.
	askLimit = 300 * time.Millisecond
	// versionEvery: a control plane is upgraded some times a year, and rules of the
	// old version hold for some minutes more.
	versionEvery = 5 * time.Minute
	// versionRetry after the server did not answer.
	versionRetry = 2 * time.Second
)

// Source holds the facts of a cluster. It implements webhook.Facts; Run must be
// running.
type Source struct {
	client kubernetes.Interface
	cfg    Config

	nodes   *nodes
	classes *classes
	spaces  *spaces
	loaded  atomic.Pointer[map[string]policy.Image] // by normalised reference
	version atomic.Int64                            // minor version; 0 if not known
	asked   atomic.Bool                             // the version is known, or cannot be

	// The watched kinds.
	nodeKind, classKind, spaceKind, loadedKind kind

	refs   registry.Parser
	images *lookup.Images // nil: registries are not queried
}

// New returns a Source. It sends no request before Run. Its client needs the
// rights of Rules and NamespaceRules.
func New(client kubernetes.Interface, cfg Config) *Source {
	cfg.Namespace = cmp.Or(cfg.Namespace, inventory.Namespace)
	s := &Source{
		client:  client,
		cfg:     cfg,
		nodes:   newNodes(),
		classes: newClasses(),
		spaces:  newSpaces(),
		refs:    registry.NewParser(),
	}
	if !cfg.Registry.Off {
		s.images = lookup.New(client, cfg.Registry, s.refs, cfg.Log, cfg.Looked)
	}
	return s
}

// Run keeps the facts until the context is cancelled, and then returns nil.
// Objects that may not be listed are logged, and stay unknown.
func (s *Source) Run(ctx context.Context) error {
	shared := informers.NewSharedInformerFactoryWithOptions(s.client, 0, informers.WithTransform(slim))
	defer shared.Shutdown()
	// Rights to read ConfigMaps are for this one only.
	own := informers.NewSharedInformerFactoryWithOptions(s.client, 0, informers.WithNamespace(s.cfg.Namespace),
		informers.WithTweakListOptions(func(o *metav1.ListOptions) {
			o.FieldSelector = "metadata.name=" + inventory.LoadedImages
		}))
	defer own.Shutdown()
	if err := s.watch(shared, own); err != nil {
		return err
	}
	shared.Start(ctx.Done())
	own.Start(ctx.Done())
	var background sync.WaitGroup
	background.Go(func() { s.followVersion(ctx) })
	<-ctx.Done()
	background.Wait()
	if s.images != nil {
		s.images.Close()
	}
	return nil
}

// Synced reports whether the caches hold all existing objects that may be read.
func (s *Source) Synced() bool {
	return s.asked.Load() && s.nodeKind.final() && s.classKind.final() && s.spaceKind.final() &&
		s.loadedKind.final()
}

// Facts returns the known facts for judging an object which is, or is to be, in
// the namespace. It may be called concurrently; the result is shared and must
// not be changed. The warnings are for users.
func (s *Source) Facts(ctx context.Context, namespace string, object *policy.Parsed) (policy.Facts, []string) {
	var warnings []string
	if !s.Synced() {
		warnings = append(warnings, "the webhook is still reading the state of the cluster: this object was checked "+
			"against its state so far")
	}
	f := policy.Facts{Kubernetes: policy.Version(s.version.Load()), DefaultOS: s.cfg.DefaultOS,
		NoPrivileged: s.cfg.NoPrivileged}
	if s.nodeKind.known() {
		f.Nodes, f.Platform = s.nodes.all()
	}
	if s.classKind.known() {
		f.RuntimeClasses = s.classes.all()
	}
	if n, ok := s.namespace(ctx, namespace); ok {
		f.Namespaces = map[string]policy.Namespace{namespace: n}
	}
	refs := object.References()
	s.classesOf(ctx, &f, refs)
	s.imagesOf(&f, refs)
	if s.images != nil {
		found, missing := s.images.Find(ctx, namespace, refs, s.withoutPresent(place.Unclear(object, f)))
		for image, i := range found {
			set(&f.Images, image, i)
		}
		warnings = append(warnings, missing...)
	}
	return f, warnings
}

// Labels returns the labels of a namespace. ok is false if they are not known.
func (s *Source) Labels(ctx context.Context, namespace string) (labels map[string]string, ok bool) {
	n, ok := s.namespace(ctx, namespace)
	return n.Labels, ok
}

// namespace returns a namespace from the cache. If it is newer than the cache, it is requested from the API
// server: a namespace and its pods often come in one file.
func (s *Source) namespace(ctx context.Context, namespace string) (n policy.Namespace, ok bool) {
	if n, ok := s.spaces.get(namespace); ok || namespace == "" {
		return n, ok
	}
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	ns, err := s.client.CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{})
	if err != nil {
		return policy.Namespace{}, false // not known, which rules can live with
	}
	return describeSpace(ns), true
}

// classesOf adds RuntimeClasses that are newer than the cache.
func (s *Source) classesOf(ctx context.Context, f *policy.Facts, refs []policy.References) {
	for i, r := range refs {
		if _, ok := f.RuntimeClasses[r.RuntimeClass]; ok || r.RuntimeClass == "" || i == lookup.MaxPods {
			continue
		}
		ctx, cancel := context.WithTimeout(ctx, askLimit)
		c, err := s.client.NodeV1().RuntimeClasses().Get(ctx, r.RuntimeClass, metav1.GetOptions{})
		cancel()
		if err != nil {
			continue // it does not exist, or is not known
		}
		with := maps.Clone(f.RuntimeClasses)
		if with == nil {
			with, f.SomeClasses = map[string]policy.RuntimeClass{}, true
		}
		with[c.Name] = describeClass(c)
		f.RuntimeClasses = with
	}
}

// withoutPresent removes images that all Windows nodes have: the stand-ins of
// emulated hosts, which are not downloaded, and preloaded images.
func (s *Source) withoutPresent(unclear [][]string) [][]string {
	for i, images := range unclear {
		unclear[i] = slices.DeleteFunc(images, func(image string) bool {
			ref, ok := s.refs.Parse(image)
			return ok && s.nodes.everywhere(ref.Text)
		})
	}
	return unclear
}

// imagesOf adds the cluster's own data about the images.
func (s *Source) imagesOf(f *policy.Facts, refs []policy.References) {
	var loaded map[string]policy.Image
	if p := s.loaded.Load(); p != nil {
		loaded = *p
	}
	for _, r := range refs {
		for _, image := range r.Images {
			ref, ok := s.refs.Parse(image)
			if !ok {
				continue // the API server or the kubelet reports the error
			}
			if i, ok := loaded[ref.Text]; ok {
				set(&f.Images, image, i)
			}
			if oses := s.nodes.where(ref.Text); len(oses) > 0 {
				set(&f.PresentImages, image, oses)
			}
		}
	}
}

func set[V any](m *map[string]V, key string, v V) {
	if *m == nil {
		*m = map[string]V{}
	}
	(*m)[key] = v
}

// followVersion keeps the version of the API server.
func (s *Source) followVersion(ctx context.Context) {
	for {
		wait := versionEvery
		v, err := s.client.Discovery().ServerVersion()
		if err == nil {
			var minor policy.Version
			if minor, err = policy.ParseVersion(v.GitVersion); err == nil {
				s.version.Store(int64(minor))
			}
			s.asked.Store(true)
		} else {
			wait = versionRetry
		}
		if err != nil && ctx.Err() == nil {
			s.cfg.Log.Warn("the version of the API server is not known", logkey.Error, err)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}
