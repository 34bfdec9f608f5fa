// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package watch keeps the last known state of the objects that NetworkPolicies depend on.
//
// It lists and watches with plain HTTPS, as the whole agent does: client-go would make
// the programs of a node several times as large. Of each object it keeps only the fields
// that netpolicy.Compile reads. While the API server is away, the last known state stays.
package watch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/mullion-k8s/mullion/internal/agent/netpolicy"
	"github.com/mullion-k8s/mullion/internal/logkey"
)

// Doer is the part of http.Client that Watcher uses. It must not have a timeout: a watch
// is a long response.
type Doer interface {
	Do(req *http.Request) (*http.Response, error)
}

// Watcher follows a cluster. Its methods are safe for concurrent use.
type Watcher struct {
	server string
	client Doer
	log    *slog.Logger

	changed chan struct{} // has room for one

	mu     sync.Mutex
	kinds  map[string]map[string]any // objects of each kind, by namespace/name; guarded by mu
	synced map[string]bool           // kinds that were listed once; guarded by mu
	failed map[string]error          // why a kind is not followed; guarded by mu
}

// New returns a Watcher of the API server at the URL. Run starts it.
func New(server string, client Doer, log *slog.Logger) *Watcher {
	w := &Watcher{server: server, client: client, log: log, changed: make(chan struct{}, 1),
		kinds: map[string]map[string]any{}, synced: map[string]bool{}, failed: map[string]error{}}
	for _, k := range kinds() {
		w.kinds[k.name] = map[string]any{}
	}
	return w
}

// Changed yields after each change, once for several that come together.
func (w *Watcher) Changed() <-chan struct{} { return w.changed }

// Cluster returns the current state, or false before the first complete read.
func (w *Watcher) Cluster() (*netpolicy.Cluster, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := &netpolicy.Cluster{}
	for _, k := range kinds() {
		if !w.synced[k.name] {
			return nil, false
		}
		objects := w.kinds[k.name]
		for _, name := range slices.Sorted(maps.Keys(objects)) {
			switch o := objects[name].(type) {
			case netpolicy.Policy:
				c.Policies = append(c.Policies, o)
			case netpolicy.Namespace:
				c.Namespaces = append(c.Namespaces, o)
			case netpolicy.Pod:
				c.Pods = append(c.Pods, o)
			case []netpolicy.Pod:
				c.Pods = append(c.Pods, o...)
			}
		}
	}
	return c, true
}

// Err returns why the cluster is not followed at the moment, nil if it is.
func (w *Watcher) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, k := range kinds() {
		if err := w.failed[k.name]; err != nil {
			return fmt.Errorf("follow %s for NetworkPolicies: %w", k.name, err)
		}
	}
	return nil
}

// Run follows the cluster until the context ends.
func (w *Watcher) Run(ctx context.Context) {
	var all sync.WaitGroup
	for _, k := range kinds() {
		all.Go(func() { w.follow(ctx, k) })
	}
	all.Wait()
}

// Delays between attempts to reach an API server that is away. They are short because
// a policy that was made meanwhile is not enforced yet.
const (
	firstDelay = 200 * time.Millisecond
	lastDelay  = 5 * time.Second
)

func (w *Watcher) follow(ctx context.Context, k kind) {
	delay := firstDelay
	for ctx.Err() == nil {
		version, err := w.list(ctx, k)
		for err == nil && ctx.Err() == nil {
			delay = firstDelay
			version, err = w.watch(ctx, k, version)
			wait(ctx, firstDelay) // pause before the next request to a server that ends watches immediately
		}
		if ctx.Err() != nil {
			return
		}
		if !errors.Is(err, errExpired) {
			w.fail(k, err)
		}
		wait(ctx, delay)
		delay = min(2*delay, lastDelay)
	}
}

func wait(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// fail remembers why a kind is not followed, and logs it when the reason changes.
func (w *Watcher) fail(k kind, err error) {
	w.mu.Lock()
	old := w.failed[k.name]
	w.failed[k.name] = err
	w.mu.Unlock()
	if err != nil && (old == nil || old.Error() != err.Error()) {
		w.log.Warn("NetworkPolicies stay as they were last known", logkey.Name, k.name, logkey.Error, err)
	}
}

// pageSize is the maximum number of objects in a response: a page of large pods is a few
// MB.
const pageSize = 500

// documentLimit is the maximum size of a response, in bytes.
const documentLimit = 64 << 20

// listLimit is the time limit of a page.
const listLimit = 30 * time.Second

type page struct {
	Metadata struct {
		ResourceVersion string `json:"resourceVersion"`
		Continue        string `json:"continue"`
	} `json:"metadata"`
	Items []json.RawMessage `json:"items"`
}

// list replaces the state of a kind and returns its resource version.
func (w *Watcher) list(ctx context.Context, k kind) (version string, err error) {
	objects := map[string]any{}
	query := url.Values{"limit": {fmt.Sprint(pageSize)}}
	for {
		var p page
		if err := w.page(ctx, k, query, &p); err != nil {
			return "", err
		}
		for _, item := range p.Items {
			name, o, err := k.read(item)
			if err != nil {
				return "", err
			}
			objects[name] = o
		}
		if p.Metadata.Continue == "" {
			version = p.Metadata.ResourceVersion
			break
		}
		query.Set("continue", p.Metadata.Continue)
	}
	w.mu.Lock()
	w.kinds[k.name], w.synced[k.name] = objects, true
	w.mu.Unlock()
	w.fail(k, nil)
	w.notify()
	return version, nil
}

func (w *Watcher) page(ctx context.Context, k kind, query url.Values, p *page) error {
	ctx, cancel := context.WithTimeout(ctx, listLimit)
	defer cancel()
	body, err := w.get(ctx, k, query)
	if err != nil {
		return err
	}
	defer body.Close()
	return json.NewDecoder(io.LimitReader(body, documentLimit)).Decode(p)
}

func (w *Watcher) notify() {
	select {
	case w.changed <- struct{}{}:
	default: // the reader has not yet seen the last one
	}
}

// statusError is a response with a status other than 200.
type statusError struct {
	code    int
	message string
}

func (e *statusError) Error() string { return fmt.Sprintf("%s (%d)", e.message, e.code) }

// errExpired: the API server no longer has the changes since the version.
var errExpired = errors.New("the version is too old")

func (w *Watcher) get(ctx context.Context, k kind, query url.Values) (io.ReadCloser, error) {
	query = maps.Clone(query)
	if k.selector != "" {
		query.Set("labelSelector", k.selector)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, w.server+k.path+"?"+query.Encode(), nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "mullion-netpolicy")
	res, err := w.client.Do(req)
	if err != nil {
		return nil, err
	}
	if res.StatusCode == http.StatusOK {
		return res.Body, nil
	}
	defer res.Body.Close()
	if res.StatusCode == http.StatusGone {
		return nil, errExpired
	}
	var status struct {
		Message string `json:"message"`
	}
	if json.NewDecoder(io.LimitReader(res.Body, 64<<10)).Decode(&status) != nil || status.Message == "" {
		status.Message = http.StatusText(res.StatusCode)
	}
	return nil, &statusError{res.StatusCode, status.Message}
}

// watchLimit ends a watch that the server does not end: a connection whose other end
// vanished would otherwise be waited for until the kernel gives it up.
const watchLimit = 5 * time.Minute

type event struct {
	Type   string          `json:"type"`
	Object json.RawMessage `json:"object"`
}

// watch applies changes until the server ends the watch, and returns the version it
// came to.
func (w *Watcher) watch(ctx context.Context, k kind, version string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, watchLimit+listLimit)
	defer cancel()
	body, err := w.get(ctx, k, url.Values{"watch": {"true"}, "allowWatchBookmarks": {"true"},
		"resourceVersion": {version}, "timeoutSeconds": {fmt.Sprint(int(watchLimit.Seconds()))}})
	if err != nil {
		return version, err
	}
	defer body.Close()
	w.fail(k, nil)
	events := json.NewDecoder(body)
	for {
		var e event
		err := events.Decode(&e)
		if errors.Is(err, io.EOF) {
			return version, nil
		}
		if err != nil {
			return version, fmt.Errorf("watch: %w", err)
		}
		if version, err = w.apply(k, e, version); err != nil {
			return version, err
		}
	}
}

// apply carries out one event and returns the version after it.
func (w *Watcher) apply(k kind, e event, version string) (string, error) {
	if e.Type == "ERROR" {
		var s struct {
			Code    int    `json:"code"`
			Message string `json:"message"`
		}
		if err := json.Unmarshal(e.Object, &s); err != nil {
			return version, err
		}
		if s.Code == http.StatusGone {
			return version, errExpired
		}
		return version, &statusError{s.Code, s.Message}
	}
	var meta struct {
		Metadata struct {
			ResourceVersion string `json:"resourceVersion"`
		} `json:"metadata"`
	}
	if err := json.Unmarshal(e.Object, &meta); err != nil {
		return version, fmt.Errorf("watch: %w", err)
	}
	version = meta.Metadata.ResourceVersion
	if e.Type == "BOOKMARK" {
		return version, nil
	}
	name, o, err := k.read(e.Object)
	if err != nil {
		return version, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	objects := w.kinds[k.name]
	if e.Type == "DELETED" {
		delete(objects, name)
	} else if old, ok := objects[name]; ok && same(old, o) {
		return version, nil // kubelets write the status of pods all the time
	} else {
		objects[name] = o
	}
	w.notify()
	return version, nil
}
