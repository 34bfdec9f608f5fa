// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package lookup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/distribution/reference"
	"github.com/google/go-containerregistry/pkg/authn"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/lru"

	"github.com/mullion-k8s/mullion/internal/logkey"
	"github.com/mullion-k8s/mullion/internal/policy"
	"github.com/mullion-k8s/mullion/internal/registry"
)

const (
	// budget is how long one answer waits by default. The webhooks have 2 s, of
	// which admission gives some 1.4 s to facts.
	budget = time.Second
	// margin is left of the caller's time for the way back.
	margin = 50 * time.Millisecond
	// lookupLimit bounds a lookup that continues in the background.
	lookupLimit = 10 * time.Second

	// MaxPods and maxImages bound the lookups for one object. A pod has a handful
	// of images.
	MaxPods   = 16
	maxImages = 32
	// maxRunning and maxPerNamespace bound the lookups at any time: 64 of them hold
	// at most 128 MB of answers, and no namespace takes all of them.
	maxRunning      = 64
	maxPerNamespace = 16

	// maxKept bounds the answers that are kept; one has some 100 bytes, at most 20 kB
	// (256 platforms).
	maxKept = 4096
	// maxDown bounds the registries that are known not to answer.
	maxDown = 256

	// How long answers are cached. A tag may be moved at any time; a digest
	// never changes, so only its removal would be missed. Results obtained with
	// credentials are cached for privateAge, so revoked credentials work at
	// most that long.
	tagAge     = 5 * time.Minute
	digestAge  = 24 * time.Hour
	privateAge = 5 * time.Minute
	problemAge = 30 * time.Second
)

// question is one image and the puller that may get the answer: a result
// obtained with credentials is only for the same puller. The zero puller means
// everyone.
type question struct {
	ref string // normalised
	as  puller
}

// result is the answer to a question.
type result struct {
	image   policy.Image
	problem string // for users; "" if the image is known
	until   time.Time
}

// flight is a lookup in progress.
type flight struct {
	began  time.Time
	cancel context.CancelFunc
	done   chan struct{}
	got    result // set before done is closed
}

// Images looks up the platforms of images in registries. It runs only one
// lookup per question at a time and caches the answers. It may be used
// concurrently.
type Images struct {
	client kubernetes.Interface
	cfg    Config
	refs   registry.Parser
	log    *slog.Logger
	count  func(Outcome)
	reader *reader

	pending sync.WaitGroup
	mu      sync.Mutex
	closed  bool                 // guarded by mu
	flights map[question]*flight // guarded by mu
	running map[string]int       // guarded by mu; flights by namespace
	kept    *lru.Cache           // of result by question
	down    *lru.Cache           // of result by host: registries that do not answer
}

// New returns Images; it sends no request. The client reads credentials, with
// the rights of Rules; count is called with the outcome of each lookup, and may
// be nil.
func New(client kubernetes.Interface, cfg Config, refs registry.Parser, log *slog.Logger, count func(Outcome)) *Images {
	cfg.Budget = cmp.Or(cfg.Budget, budget)
	if count == nil {
		count = func(Outcome) {}
	}
	return &Images{
		client:  client,
		cfg:     cfg,
		refs:    refs,
		log:     log,
		count:   count,
		reader:  newReader(cfg),
		flights: map[question]*flight{},
		running: map[string]int{},
		kept:    lru.New(maxKept),
		down:    lru.New(maxDown),
	}
}

// Rules returns the rights that the client needs. Without them registries are
// queried without credentials.
func Rules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"secrets", "serviceaccounts"}, Verbs: []string{"get"}},
	}
}

// Close ends all lookups and waits for them.
func (l *Images) Close() {
	l.mu.Lock()
	l.closed = true
	for _, fl := range l.flights {
		fl.cancel()
	}
	l.mu.Unlock()
	l.pending.Wait()
	l.reader.close()
}

// Find looks up the images of pods in a namespace. unclear lists the images,
// with the pods in the order of refs. It returns the images found, by the
// references in the pods, and warnings for users about the others.
func (l *Images) Find(ctx context.Context, namespace string, refs []policy.References,
	unclear [][]string) (found map[string]policy.Image, warnings []string) {
	w := waiting{asked: map[string]bool{}, found: map[string]policy.Image{}}
	for i, images := range unclear[:min(len(unclear), MaxPods)] {
		as := newPuller(namespace, refs[i].ServiceAccount, refs[i].PullSecrets)
		for _, image := range images {
			if !w.asked[image] && len(w.asked) < maxImages {
				w.asked[image] = true
				l.find(ctx, image, as, &w)
			}
		}
	}
	if len(w.flights) == 0 {
		return w.found, w.warnings()
	}
	limit := l.cfg.Budget
	if at, ok := ctx.Deadline(); ok {
		limit = min(limit, time.Until(at)-margin)
	}
	timer := time.NewTimer(max(limit, 0))
	defer timer.Stop()
	over := false
	for _, p := range w.flights {
		if !over {
			select {
			case <-p.flight.done:
			case <-timer.C:
				over = true
			case <-ctx.Done():
				over = true
			}
		}
		select {
		case <-p.flight.done:
			w.take(p.image, p.ref, p.flight.got)
		default:
			w.warn(p.image, p.ref, "has not answered yet")
		}
	}
	return w.found, w.warnings()
}

// waiting is the state of one answer.
type waiting struct {
	asked    map[string]bool
	flights  []pending
	found    map[string]policy.Image
	troubles []trouble
}

// trouble describes why a registry gave no answer, and lists the images that are
// unknown for it.
type trouble struct {
	domain, problem string
	images          []string
}

type pending struct {
	image  string // as the pod has it
	ref    reference.Named
	flight *flight
}

func (w *waiting) take(image string, ref reference.Named, r result) {
	if r.problem != "" {
		w.warn(image, ref, r.problem)
		return
	}
	w.found[image] = r.image
}

func (w *waiting) warn(image string, ref reference.Named, problem string) {
	domain := reference.Domain(ref)
	i := slices.IndexFunc(w.troubles, func(t trouble) bool { return t.domain == domain && t.problem == problem })
	if i < 0 {
		i = len(w.troubles)
		w.troubles = append(w.troubles, trouble{domain: domain, problem: problem})
	}
	w.troubles[i].images = append(w.troubles[i].images, image)
}

// warnings returns one warning for each trouble, however many images it concerns.
func (w *waiting) warnings() []string {
	var out []string
	for _, t := range w.troubles {
		images, what := "image "+clip(t.images[0], 256), "its operating system and build were"
		if n := len(t.images) - 1; n > 0 {
			images, what = fmt.Sprintf("%s and %d more", images, n), "their operating systems and builds were"
		}
		out = append(out, fmt.Sprintf("%s: the registry %s %s: %s not compared with the nodes", images,
			clip(t.domain, 128), t.problem, what))
	}
	return out
}

// find answers from the cache, or starts or joins a lookup.
func (l *Images) find(ctx context.Context, image string, as puller, w *waiting) {
	p, ok := l.refs.Parse(image)
	if !ok {
		return // the API server or the kubelet reports the error
	}
	ref, domain := p.Named, reference.Domain(p.Named)
	if l.cfg.NoLoopback && registry.Loopback(hostname(domain)) {
		return
	}
	q := question{p.Text, as}
	if r, ok := l.cached(q); ok {
		w.take(image, ref, r)
		return
	}
	if r, ok := fresh(l.down, domain); ok {
		w.warn(image, ref, r.problem)
		return
	}
	fl, problem := l.start(ctx, q, ref)
	switch {
	case fl == nil:
		w.warn(image, ref, problem)
	case time.Since(fl.began) > l.cfg.Budget:
		w.warn(image, ref, "has not answered yet") // another answer has already waited for it
	default:
		w.flights = append(w.flights, pending{image, ref, fl})
	}
}

// cached returns the cached result for everyone, or for this puller.
func (l *Images) cached(q question) (result, bool) {
	if r, ok := fresh(l.kept, question{ref: q.ref}); ok {
		return r, true
	}
	return fresh(l.kept, q)
}

func fresh(c *lru.Cache, key any) (result, bool) {
	v, ok := c.Get(key)
	if !ok || time.Now().After(v.(result).until) {
		return result{}, false
	}
	return v.(result), true
}

// start starts a lookup, or joins the one that is under way. It outlives the
// caller's context.
func (l *Images) start(ctx context.Context, q question, ref reference.Named) (fl *flight, problem string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if fl := l.flights[q]; fl != nil {
		return fl, ""
	}
	if l.closed || len(l.flights) >= maxRunning || l.running[q.as.namespace] >= maxPerNamespace {
		return nil, "was not queried, because too many queries are pending"
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookupLimit)
	fl = &flight{began: time.Now(), cancel: cancel, done: make(chan struct{})}
	l.flights[q] = fl
	l.running[q.as.namespace]++
	l.pending.Go(func() {
		defer cancel()
		fl.got = l.lookUp(ctx, q, ref)
		l.mu.Lock()
		delete(l.flights, q)
		if l.running[q.as.namespace]--; l.running[q.as.namespace] == 0 {
			delete(l.running, q.as.namespace)
		}
		l.mu.Unlock()
		close(fl.done)
	})
	return fl, ""
}

// lookUp queries the registry and caches the answer.
func (l *Images) lookUp(ctx context.Context, q question, ref reference.Named) result {
	credentials := q.as.keyring(ctx, l.client).find(ref.Name())
	image, err := l.safeRead(ctx, ref, credentials)
	if err != nil {
		p := explain(err)
		r := result{problem: p.text, until: time.Now().Add(problemAge)}
		if errors.Is(ctx.Err(), context.Canceled) {
			return r // it will not be requested again
		}
		if p.unreachable {
			l.down.Add(reference.Domain(ref), r)
		}
		l.count(p.outcome())
		l.kept.Add(q, r)
		l.log.Info("an image is unknown",
			logkey.Image, q.ref, logkey.Namespace, q.as.namespace, logkey.Error, clip(err.Error(), 500))
		return r
	}
	l.count(Found)
	r := result{image: image, until: time.Now().Add(tagAge)}
	if len(credentials) > 0 {
		r.until = time.Now().Add(privateAge)
		l.kept.Add(q, r)
		return r
	}
	if _, ok := ref.(reference.Digested); ok {
		r.until = time.Now().Add(digestAge)
	}
	l.kept.Add(question{ref: q.ref}, r)
	return r
}

var errDefect = errors.New("a defect of the reader")

// safeRead recovers from panics: for any response of a registry, other lookups
// continue.
func (l *Images) safeRead(ctx context.Context, ref reference.Named,
	credentials []authn.AuthConfig) (image policy.Image, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("read image %s: %w: %v", ref, errDefect, p)
		}
	}()
	return l.reader.read(ctx, ref, credentials)
}
