// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package netlab

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/mullion-k8s/mullion/internal/hns"
	"github.com/mullion-k8s/mullion/internal/hns/emul"
	"github.com/mullion-k8s/mullion/internal/hns/schema"
)

// TestFlannelStartsAgain: whenever flanneld starts, it removes and adds the route to every other host. A pod that
// sends meanwhile loses nothing.
func TestFlannelStartsAgain(t *testing.T) {
	l := newLab(t)
	a, b := l.host(), l.host()
	a.overlay(l)
	b.overlay(l)
	there := b.overlayPod(5)
	s, err := emul.Open(t.Context(), emul.Config{Dir: t.TempDir(), DataPlane: a.Plane, Log: StrictLog(t)})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }() // nothing is left to be written
	must := func(id schema.GUID, err error) schema.GUID {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	network := must(s.Create(t.Context(), hns.Network, schema.GUID{}, schema.GUID{}, fmt.Sprintf(`{
	  "Name":"flannel.4096","Type":"Overlay","Flags":8,"SchemaVersion":{"Major":2},"Ipams":[{"Subnets":[{
	  "IpAddressPrefix":%q,"Policies":[{"Type":"VSID","Settings":{"IsolationId":%d}}],
	  "Routes":[{"NextHop":%q,"DestinationPrefix":"0.0.0.0/0"}]}]}]}`, a.Pods, testVSID, a.Pods.Addr().Next())))
	here := a.Pods.Addr().Next().Next().Next()
	endpoint := must(s.Create(t.Context(), hns.Endpoint, network, schema.GUID{}, fmt.Sprintf(
		`{"IpConfigurations":[{"IpAddress":%q}],"SchemaVersion":{"Major":2}}`, here)))
	namespace, err := s.CreateNamespace(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.DeleteNamespace(t.Context(), namespace); err != nil {
			t.Errorf("clean up: %v", err)
		}
	}()
	id, err := schema.ParseGUID(namespace)
	if err != nil {
		t.Fatal(err)
	}
	modify := func(kind hns.Kind, id schema.GUID, format string, args ...any) {
		t.Helper()
		if err := s.Modify(t.Context(), kind, id, fmt.Sprintf(format, args...)); err != nil {
			t.Fatal(err)
		}
	}
	modify(hns.Namespace, id, `{"ResourceType":"Endpoint","RequestType":"Add","Settings":{"EndpointId":%q}}`, endpoint)
	route := func(request string) {
		t.Helper()
		modify(hns.Network, network, `{"ResourceType":"Policy","RequestType":%q,"Settings":{"Policies":[{
		  "Type":"RemoteSubnetRoute","Settings":{"DestinationPrefix":%q,"IsolationId":%d,"ProviderAddress":%q,
		  "DistributedRouterMacAddress":%q}}]}}`, request, b.Pods, testVSID, b.Address, b.remote().DRMAC)
	}
	route("Add")
	a.Intent.Networks[0].DRMAC = router(t, s, network)
	b.Intent.Networks[0].RemoteSubnets = append(b.Intent.Networks[0].RemoteSubnets, a.remote())
	b.apply()
	Serve(t, there.Netns, there.Name, "udp4", at(there.Address, 53))

	stop, ended := make(chan struct{}), make(chan int)
	var lost error
	go func() {
		n := 0
		for ; lost == nil; n++ {
			select {
			case <-stop:
				ended <- n
				return
			default:
				_, _, lost = ask(t, s.NamespacePath(namespace), "udp4", at(there.Address, 53))
			}
		}
		<-stop
		ended <- n
	}()
	for range 50 {
		route("Remove")
		route("Add")
	}
	close(stop)
	if n := <-ended; lost != nil || n == 0 {
		t.Errorf("after %d answers: %v", n, lost)
	}
}

// router returns the address of the network's distributed router.
func router(t *testing.T, s *emul.Service, network schema.GUID) string {
	t.Helper()
	text, err := s.Query(t.Context(), hns.Network, network, "")
	if err != nil {
		t.Fatal(err)
	}
	var doc schema.Network
	if err := json.Unmarshal([]byte(text), &doc); err != nil {
		t.Fatal(err)
	}
	for _, p := range doc.Policies {
		var v schema.DrMacAddressSetting
		if p.Type == schema.DrMacAddressPolicy && json.Unmarshal(p.Settings, &v) == nil {
			return v.Address
		}
	}
	t.Fatalf("no distributed router in %s", text)
	return ""
}
