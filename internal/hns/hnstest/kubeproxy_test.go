// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package hnstest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mullion-k8s/mullion/internal/hns"
	"github.com/mullion-k8s/mullion/internal/hns/emul"
	"github.com/mullion-k8s/mullion/internal/hns/schema"
	"github.com/mullion-k8s/mullion/internal/testenv"
)

// object is a Kubernetes object, or a part of one.
type object = map[string]any

// apiServer answers list and watch of a few collections: as much of an API
// server as kube-proxy needs.
type apiServer struct {
	mu       sync.Mutex
	version  int                            // guarded by mu
	objects  map[string]map[string]object   // guarded by mu; by path, by name
	watchers map[string]map[chan []byte]int // guarded by mu
}

func newAPIServer() *apiServer {
	return &apiServer{version: 1, objects: map[string]map[string]object{}, watchers: map[string]map[chan []byte]int{}}
}

// set adds, changes, or with a nil object removes an object.
func (a *apiServer) set(t *testing.T, path, name string, o object) {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.objects[path] == nil {
		a.objects[path] = map[string]object{}
	}
	a.version++
	event := "ADDED"
	old, exists := a.objects[path][name]
	switch {
	case o == nil:
		event, o = "DELETED", old
		delete(a.objects[path], name)
	case exists:
		event = "MODIFIED"
		fallthrough
	default:
		a.objects[path][name] = o
	}
	o["metadata"].(object)["resourceVersion"] = fmt.Sprint(a.version)
	line, err := json.Marshal(object{"type": event, "object": o})
	if err != nil {
		t.Fatal(err)
	}
	for w := range a.watchers[path] {
		w <- line
	}
}

func (a *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	a.mu.Lock()
	objects, known := a.objects[r.URL.Path]
	if !known {
		a.mu.Unlock()
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`)
		return
	}
	items := []object{}
	for _, o := range objects {
		items = append(items, o)
	}
	if r.URL.Query().Get("watch") == "" {
		body, _ := json.Marshal(object{"kind": "List", "apiVersion": "v1",
			"metadata": object{"resourceVersion": fmt.Sprint(a.version)}, "items": items})
		a.mu.Unlock()
		_, _ = w.Write(body)
		return
	}
	events := make(chan []byte, 100)
	if r.URL.Query().Get("sendInitialEvents") == "true" {
		var last object
		for _, o := range items {
			line, _ := json.Marshal(object{"type": "ADDED", "object": o})
			events <- line
			last = o
		}
		end := object{"metadata": object{"resourceVersion": fmt.Sprint(a.version),
			"annotations": object{"k8s.io/initial-events-end": "true"}}}
		for _, key := range []string{"kind", "apiVersion"} {
			end[key] = last[key]
		}
		line, _ := json.Marshal(object{"type": "BOOKMARK", "object": end})
		events <- line
	}
	if a.watchers[r.URL.Path] == nil {
		a.watchers[r.URL.Path] = map[chan []byte]int{}
	}
	a.watchers[r.URL.Path][events] = 1
	a.mu.Unlock()
	defer func() {
		a.mu.Lock()
		delete(a.watchers[r.URL.Path], events)
		a.mu.Unlock()
	}()
	for {
		select {
		case <-r.Context().Done():
			return
		case line := <-events:
			if _, err := w.Write(append(line, '\n')); err != nil {
				return
			}
			w.(http.Flusher).Flush()
		}
	}
}

const (
	servicesPath = "/api/v1/services"
	slicesPath   = "/apis/discovery.k8s.io/v1/endpointslices"
	nodesPath    = "/api/v1/nodes"
)

func sliceObject(addresses map[string]string) object {
	endpoints := []object{}
	for address, node := range addresses {
		endpoints = append(endpoints, object{"addresses": []string{address}, "nodeName": node,
			"conditions": object{"ready": true, "serving": true}})
	}
	return object{
		"kind": "EndpointSlice", "apiVersion": "discovery.k8s.io/v1", "addressType": "IPv4",
		"metadata": object{"name": "web-1", "namespace": "default", "uid": "2",
			"labels": object{"kubernetes.io/service-name": "web"}},
		"endpoints": endpoints, "ports": []object{{"name": "", "port": 8080, "protocol": "TCP"}},
	}
}

// testKubeProxy runs the unmodified kube-proxy.exe: a service comes, changes and
// goes, and the load balancers follow.
func testKubeProxy(t *testing.T, p *prefixed) {
	exe := testenv.Bin("windows", "kube-proxy.exe")
	if _, err := os.Stat(exe); err != nil {
		testenv.Need(t, testenv.Built)
		t.Fatal(err)
	}
	for name, v := range map[string]schema.Version{"2019": emul.VersionOf(17763), "2025": emul.VersionOf(26100)} {
		t.Run(name, func(t *testing.T) { kubeProxy(t, p, exe, v) })
	}
}

// startKubeProxy runs kube-proxy.exe with the API server at a URL and the HNS
// server that serve returned. The channel is closed when it ends.
func startKubeProxy(t *testing.T, p *prefixed, exe, api, hns string) <-chan struct{} {
	t.Helper()
	config := filepath.Join(p.dir, "drive_c", "kubeconfig-"+filepath.Base(t.TempDir()))
	content := `{"apiVersion":"v1","kind":"Config","current-context":"c",
	  "contexts":[{"name":"c","context":{"cluster":"c","user":"u"}}],
		"clusters":[{"name":"c","cluster":{"server":"` + api + `"}}],"users":[{"name":"u","user":{}}]}`
	if err := os.WriteFile(config, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := p.command(t.Context(), hns, exe, "--proxy-mode=kernelspace", `--kubeconfig=C:\`+
		filepath.Base(config), "--hostname-override=win-1",
		"--network-name=cbr0", "--bind-address=10.89.0.11", "--cluster-cidr=198.18.0.0/16",
		"--healthz-bind-address="+freeAddress(t), "--metrics-bind-address="+freeAddress(t), "-v=2")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { defer close(ended); _ = cmd.Wait() }() // killed in the end
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
		if t.Failed() || strings.Contains(out.String(), "panic") {
			t.Errorf("%s", tail(out.Bytes()))
		}
	})
	return ended
}

func kubeProxy(t *testing.T, p *prefixed, exe string, v schema.Version) {
	api := newAPIServer()
	api.set(t, nodesPath, "win-1", object{
		"kind": "Node", "apiVersion": "v1", "metadata": object{"name": "win-1", "uid": "1"},
		"status": object{"addresses": []object{{"type": "InternalIP", "address": "10.89.0.11"}}},
	})
	api.set(t, slicesPath, "web-1", sliceObject(map[string]string{"198.18.1.5": "win-1", "192.0.2.7": "win-2"}))
	api.set(t, servicesPath, "web", object{
		"kind": "Service", "apiVersion": "v1", "metadata": object{"name": "web", "namespace": "default", "uid": "3"},
		"spec": object{
			"type": "NodePort", "clusterIP": "198.18.9.10", "clusterIPs": []string{"198.18.9.10"},
			"ipFamilies": []string{"IPv4"}, "sessionAffinity": "None", "internalTrafficPolicy": "Cluster",
			"externalTrafficPolicy": "Cluster",
			"ports": []object{{"name": "", "protocol": "TCP", "port": 80, "targetPort": 8080,
				"nodePort": 30080}},
		},
	})
	server := httptest.NewServer(api)
	t.Cleanup(server.Close)
	s := open(t, v)
	c := &client{T: t, api: s}
	n := c.create(hns.Network, schema.GUID{}, `{"Name":"cbr0","Type":"L2Bridge","SchemaVersion":{"Major":2,"Minor":0},
		"Ipams":[{"Type":"Static","Subnets":[{"IpAddressPrefix":"198.18.1.0/24",
		  "Routes":[{"NextHop":"198.18.1.1","DestinationPrefix":"0.0.0.0/0"}]}]}]}`)
	local := c.endpoint(n, "198.18.1.5", 0)
	// Left over from an earlier life: kube-proxy removes all when it starts.
	c.create(hns.LoadBalancer, schema.GUID{}, balancerDoc("198.18.9.99", 80, local))
	ended := startKubeProxy(t, p, exe, server.URL, serve(t, s))
	ids := func() map[string]string { // front end to id, with the number of endpoints
		found := map[string]string{}
		for _, id := range c.enumerate(hns.LoadBalancer, "") {
			var lb schema.LoadBalancer
			c.query(hns.LoadBalancer, c.parse(id), &lb)
			found[fmt.Sprintf("%v %d to %d", lb.FrontendVIPs, lb.PortMappings[0].ExternalPort,
				len(lb.HostComputeEndpoints))] = id
		}
		return found
	}
	wait := func(what string, want ...string) (found map[string]string) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); ; {
			found = ids()
			if len(found) == len(want) && !slices.ContainsFunc(want, func(w string) bool { return found[w] == "" }) {
				return found
			}
			select {
			case <-ended:
				t.Fatalf("%s: kube-proxy ended", what)
			case <-time.After(50 * time.Millisecond):
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s: load balancers %v, want %v", what, found, want)
			}
		}
	}
	before := wait("at first", "[198.18.9.10] 80 to 2", "[] 30080 to 2")
	api.set(t, slicesPath, "web-1",
		sliceObject(map[string]string{"198.18.1.5": "win-1", "192.0.2.7": "win-2", "192.0.2.8": "win-2"}))
	after := wait("one endpoint more", "[198.18.9.10] 80 to 3", "[] 30080 to 3")
	if same := before["[198.18.9.10] 80 to 2"] == after["[198.18.9.10] 80 to 3"]; same != v.AtLeast(15, 5) {
		t.Errorf("load balancer changed in place: %v, in HNS %d.%d", same, v.Major, v.Minor)
	}
	api.set(t, servicesPath, "web", nil)
	wait("service deleted")
	// Its own remote endpoints go with it, the pod's stays.
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		if left := c.enumerate(hns.Endpoint, ""); slices.Equal(left, []string{local.String()}) {
			break
		} else if time.Now().After(deadline) {
			t.Fatalf("endpoints %v, want the pod's only", left)
		}
	}
}

// freeAddress returns an address without a listener. kube-proxy does not accept
// port 0.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}
