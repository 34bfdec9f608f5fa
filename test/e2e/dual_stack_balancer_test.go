// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package e2e

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strings"
	"time"
)

// dualBalancersYAML has Services with addresses of load balancers before the web servers of dualYAML.
const dualBalancersYAML = `
apiVersion: v1
kind: Service
metadata: {name: front}
spec: {type: LoadBalancer, ipFamilyPolicy: PreferDualStack, selector: {app: web}, ports: [{port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: front6}
spec: {type: LoadBalancer, ipFamilies: [IPv6], selector: {app: web}, ports: [{port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: own}
spec:
  type: LoadBalancer
  ipFamilyPolicy: RequireDualStack
  ipFamilies: [IPv6, IPv4]
  externalTrafficPolicy: Local
  selector: {app: web}
  ports: [{port: 80}]
---
apiVersion: v1
kind: Service
metadata: {name: own-linux}
spec:
  type: LoadBalancer
  ipFamilyPolicy: RequireDualStack
  externalTrafficPolicy: Local
  selector: {app: linux}
  ports: [{port: 80}]
---
apiVersion: v1
kind: Service
metadata: {name: guarded}
spec:
  type: LoadBalancer
  ipFamilyPolicy: PreferDualStack
  loadBalancerSourceRanges: [10.0.0.0/8]
  selector: {app: linux}
  ports: [{port: 80}]
---
apiVersion: v1
kind: Service
metadata: {name: wish}
spec: {type: LoadBalancer, ipFamilies: [IPv6], loadBalancerIP: "WISH", selector: {app: web}, ports: [{port: 80}]}
`

// checkBalancers asks load balancers in both families, from the machine and from pods of both systems.
func (c netCluster) checkBalancers() {
	c.t.Helper()
	pool6 := fmt.Sprintf("fd00:10:90:%d::", c.index)
	c.applyPod(strings.ReplaceAll(dualBalancersYAML, "WISH", pool6+"77"))
	front := c.balancerIPs("front", "46")
	front6 := c.balancerIPs("front6", "6")
	own, ownLinux := c.balancerIPs("own", "64"), c.balancerIPs("own-linux", "46")
	guarded := c.balancerIPs("guarded", "46")
	if got := c.balancerIPs("wish", "6"); got[0] != pool6+"77" {
		c.t.Errorf("spec.loadBalancerIP: got %s", got[0])
	}
	urls := map[string]string{"front": "http://" + front[0], "front6": "http://[" + front6[0] + "]"}
	for service, want := range urls {
		if got := c.mullion("url", service); got != want+":80" {
			c.t.Errorf("mullion url prints %s, want %s:80", got, want)
		}
	}
	for _, ip := range append(append(append([]string{front6[0]}, front...), own...), ownLinux...) {
		for _, from := range []string{"win-2019", "win-2022", "linux"} {
			if from == "win-2019" && strings.Contains(ip, ":") {
				continue
			}
			eventually(c.t, time.Minute, from+" to "+ip, func() error { return c.get(from, url6(ip)) })
		}
		eventually(c.t, time.Minute, "the machine to "+ip, func() error { return fetch(c.t.Context(), url6(ip)) })
	}
	for _, ip := range ownLinux {
		if server, client, err := askHere(url6(ip)); err != nil || client != c.sourceTo(url6(ip)) {
			c.t.Errorf("Local at %s: %s saw %s, %v; want the machine", ip, server, client, err)
		}
	}
	for _, ip := range own {
		client := c.sourceTo(url6(ip))
		eventually(c.t, time.Minute, "the client's address at "+ip, func() error {
			if err := fetch(c.t.Context(), url6(ip)); err != nil {
				return err
			}
			out, err := c.kubectl(c.t.Context(), "exec", "win-2022", "--", "findstr.exe", "GET",
				`C:\inetpub\logs\LogFiles\W3SVC1\*.log`)
			if err == nil && !strings.Contains(out, " - "+client+" ") {
				err = fmt.Errorf("%s is not in the log: %s", client, out)
			}
			return err
		})
	}
	// The list names clients of IPv4 only.
	eventually(c.t, time.Minute, "a client that is listed", func() error {
		return fetch(c.t.Context(), url6(guarded[0]))
	})
	denied(c.t, "a client of the family that is not listed", fetch(c.t.Context(), url6(guarded[1])))
}

// balancerIPs waits for the addresses of a Service, whose families are those in want.
func (c netCluster) balancerIPs(service, want string) []string {
	c.t.Helper()
	var list []string
	eventually(c.t, time.Minute, "addresses of "+service, func() error {
		out, err := c.kubectl(c.t.Context(), "get", "service", service, "-o",
			"jsonpath={.status.loadBalancer.ingress[*].ip}")
		if list = strings.Fields(out); err == nil && len(list) == 0 {
			err = errors.New("no address")
		}
		return err
	})
	got := ""
	for _, ip := range list {
		if netip.MustParseAddr(ip).Is4() {
			got += "4"
		} else {
			got += "6"
		}
	}
	if got != want {
		c.t.Fatalf("Service %s has the addresses %q, want those of %s", service, list, want)
	}
	return list
}

// sourceTo returns the address that the machine has for a server.
func (c netCluster) sourceTo(server string) string {
	c.t.Helper()
	u, err := url.Parse(server)
	if err != nil {
		c.t.Fatal(err)
	}
	conn, err := net.Dial("udp", net.JoinHostPort(u.Hostname(), "80")) // sends nothing
	if err != nil {
		c.t.Fatal(err)
	}
	defer conn.Close()
	host, _, _ := net.SplitHostPort(conn.LocalAddr().String())
	return host
}
