// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package kubeapitest is as much of an API server as kube-proxy needs, for tests and benchmarks that run it without a
// cluster: it serves list and watch of collections.
package kubeapitest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"testing"
)

// The paths of collections.
const (
	Services = "/api/v1/services"
	Slices   = "/apis/discovery.k8s.io/v1/endpointslices"
	Nodes    = "/api/v1/nodes"
)

// Object is a Kubernetes object, or a part of one.
type Object = map[string]any

// Server is an http.Handler. It has only the collections that have had an object.
type Server struct {
	mu       sync.Mutex
	version  int                             // guarded by mu
	objects  map[string]map[string]Object    // guarded by mu; by path, by name
	watchers map[string]map[chan []byte]bool // guarded by mu
}

// maxPending is the maximum number of events that wait for a watcher. Set waits if there
// are more.
const maxPending = 1 << 14

// New returns a server without objects.
func New() *Server {
	return &Server{version: 1, objects: map[string]map[string]Object{}, watchers: map[string]map[chan []byte]bool{}}
}

// Set adds an object to a collection, changes it, or, with nil, removes it.
func (s *Server) Set(t testing.TB, path, name string, o Object) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.objects[path] == nil {
		s.objects[path] = map[string]Object{}
	}
	s.version++
	event := "ADDED"
	old, exists := s.objects[path][name]
	switch {
	case o == nil:
		event, o = "DELETED", old
		delete(s.objects[path], name)
	case exists:
		event = "MODIFIED"
		fallthrough
	default:
		s.objects[path][name] = o
	}
	o["metadata"].(Object)["resourceVersion"] = fmt.Sprint(s.version)
	line, err := json.Marshal(Object{"type": event, "object": o})
	if err != nil {
		t.Fatal(err)
	}
	for w := range s.watchers[path] {
		w <- line
	}
}

// ServeHTTP handles one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	s.mu.Lock()
	objects, known := s.objects[r.URL.Path]
	if !known {
		s.mu.Unlock()
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`)
		return
	}
	if r.URL.Query().Get("watch") == "" {
		body := s.list(objects)
		s.mu.Unlock()
		_, _ = w.Write(body)
		return
	}
	var first []byte
	if r.URL.Query().Get("sendInitialEvents") == "true" {
		first = s.initialEvents(objects)
	}
	events := make(chan []byte, maxPending)
	if s.watchers[r.URL.Path] == nil {
		s.watchers[r.URL.Path] = map[chan []byte]bool{}
	}
	s.watchers[r.URL.Path][events] = true
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.watchers[r.URL.Path], events)
	}()
	for line := first; ; {
		if _, err := w.Write(line); err != nil {
			return
		}
		w.(http.Flusher).Flush()
		select {
		case <-r.Context().Done():
			return
		case event := <-events:
			line = append(event, '\n')
		}
	}
}

// list returns the response to a list. Preconditions: mu is held.
func (s *Server) list(objects map[string]Object) []byte {
	items := []Object{}
	for _, o := range objects {
		items = append(items, o)
	}
	body, _ := json.Marshal(Object{"kind": "List", "apiVersion": "v1",
		"metadata": Object{"resourceVersion": fmt.Sprint(s.version)}, "items": items})
	return body
}

// initialEvents returns the first events of a watch that is also a list
// (https://kubernetes.io/docs/reference/using-api/api-concepts/#streaming-lists).
// Preconditions: mu is held.
func (s *Server) initialEvents(objects map[string]Object) (lines []byte) {
	end := Object{"metadata": Object{"resourceVersion": fmt.Sprint(s.version),
		"annotations": Object{"k8s.io/initial-events-end": "true"}}}
	for _, o := range objects {
		line, _ := json.Marshal(Object{"type": "ADDED", "object": o})
		lines = append(append(lines, line...), '\n')
		end["kind"], end["apiVersion"] = o["kind"], o["apiVersion"]
	}
	line, _ := json.Marshal(Object{"type": "BOOKMARK", "object": end})
	return append(append(lines, line...), '\n')
}

// Kubeconfig returns a kubeconfig, in JSON, for the server at a URL.
func Kubeconfig(url string) []byte {
	return []byte(`{"apiVersion":"v1","kind":"Config","current-context":"c",
  "contexts":[{"name":"c","context":{"cluster":"c","user":"u"}}],
  "clusters":[{"name":"c","cluster":{"server":"` + url + `"}}],"users":[{"name":"u","user":{}}]}
`)
}

// Node is a node with an address.
func Node(name, address string) Object {
	return Object{
		"kind": "Node", "apiVersion": "v1", "metadata": Object{"name": name, "uid": "node-" + name},
		"status": Object{"addresses": []Object{{"type": "InternalIP", "address": address}}},
	}
}

// Service is a Service of IPv4 with one TCP port, in the namespace default. A node port makes it one of that type.
func Service(name, clusterIP string, port, targetPort, nodePort int) Object {
	p := Object{"name": "", "protocol": "TCP", "port": port, "targetPort": targetPort}
	kind := "ClusterIP"
	if nodePort != 0 {
		kind, p["nodePort"] = "NodePort", nodePort
	}
	return Object{
		"kind": "Service", "apiVersion": "v1",
		"metadata": Object{"name": name, "namespace": "default", "uid": "service-" + name},
		"spec": Object{
			"type": kind, "clusterIP": clusterIP, "clusterIPs": []string{clusterIP}, "ipFamilies": []string{"IPv4"},
			"sessionAffinity": "None", "internalTrafficPolicy": "Cluster", "externalTrafficPolicy": "Cluster",
			"ports": []Object{p},
		},
	}
}

// Slice is the EndpointSlice of a Service of IPv4, with the nodes of the addresses; a node may
// be "".
func Slice(service string, port int, nodes map[string]string) Object {
	endpoints := []Object{}
	for address, node := range nodes {
		e := Object{"addresses": []string{address}, "conditions": Object{"ready": true, "serving": true}}
		if node != "" {
			e["nodeName"] = node
		}
		endpoints = append(endpoints, e)
	}
	return Object{
		"kind": "EndpointSlice", "apiVersion": "discovery.k8s.io/v1", "addressType": "IPv4",
		"metadata": Object{"name": service + "-1", "namespace": "default", "uid": "slice-" + service,
			"labels": Object{"kubernetes.io/service-name": service}},
		"endpoints": endpoints, "ports": []Object{{"name": "", "port": port, "protocol": "TCP"}},
	}
}
