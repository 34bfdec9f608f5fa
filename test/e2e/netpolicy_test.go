// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package e2e

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
)

// policyServers are web servers, one on each kind of node.
func policyServers() map[string]string {
	iis := func(tag string) string {
		return `{name: main, image: "mcr.microsoft.com/windows/servercore/iis:windowsservercore-` + tag + `"`
	}
	return map[string]string{
		"win-2019": iis("ltsc2019"), "win-2022": iis("ltsc2022"),
		"linux": `{name: main, image: "` + linuxprogImage + `", args: [serve]`,
	}
}

// policyLab has a server of each kind, and clients on Windows and on Linux.
type policyLab struct {
	c       *shared
	ns      string
	address map[string]string // of pods
}

func newPolicyLab(t *testing.T, c *shared) *policyLab {
	t.Helper()
	c.withLinuxprog(t)
	l := &policyLab{c: c, ns: c.namespace(t), address: map[string]string{}}
	var y strings.Builder
	pod := func(name, role, container string) {
		fmt.Fprintf(&y, "apiVersion: v1\nkind: Pod\nmetadata: {name: %s, labels: {role: %s}}\nspec:\n"+
			"  terminationGracePeriodSeconds: 1\n  containers:\n  - %s}\n---\n", name, role, container)
	}
	for name, container := range policyServers() {
		pod(name, "server", container+", readinessProbe: {httpGet: {port: 80, path: /}, periodSeconds: 1}")
	}
	for _, role := range []string{"friend", "guest", "stranger"} {
		pod("linux-"+role, role, policyServers()["linux"])
		pod("win-"+role, role, policyServers()["win-2022"])
	}
	c.apply(t, l.ns, y.String())
	c.kubectl(t, "wait", "-n", l.ns, "--for=condition=Ready", "pod", "--all", "--timeout=150s")
	for f := range strings.FieldsSeq(c.kubectl(t, "get", "pods", "-n", l.ns, "-o",
		`jsonpath={range .items[*]}{.metadata.name}={.status.podIP} {end}`)) {
		name, ip, _ := strings.Cut(f, "=")
		l.address[name] = ip
	}
	return l
}

// asks reports whether a pod gets an answer from another. A failure of anything but the connection is an error.
func (l *policyLab) asks(ctx context.Context, from, to string) (bool, error) {
	url := "http://" + l.address[to]
	argv := []string{"/linuxprog", "get", url}
	if strings.HasPrefix(from, "win") {
		argv = []string{"curl.exe", "-s", "-S", "-o", "NUL", "--max-time", "3", url}
	}
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second) // the programs end before
	defer cancel()
	out, err := l.c.kubectlErr(ctx, append([]string{"exec", "-n", l.ns, from, "--"}, argv...)...)
	if how := unanswered(withOutput(out, err)); how == "refused" || how == "timed out" {
		return false, nil
	}
	return err == nil, err
}

// expect waits until exactly those pairs of pods reach each other that it should be, of
// clients with servers and of servers with guests. A policy takes a moment: then all pairs are tried again, also those
// that were right.
func (l *policyLab) expect(t *testing.T, what string, want func(client, server string) bool, egress bool) {
	t.Helper()
	type pair struct{ from, to string }
	pairs := map[pair]bool{}
	for server := range policyServers() {
		for client := range l.address {
			if _, ok := policyServers()[client]; !ok {
				pairs[pair{client, server}] = want(client, server)
			}
		}
		pairs[pair{server, "linux-guest"}], pairs[pair{server, "win-guest"}] = egress, egress
	}
	eventually(t, time.Minute, what, func() error {
		wrong := make(chan string, len(pairs))
		var g errgroup.Group
		g.SetLimit(6)
		for p, want := range pairs {
			g.Go(func() error {
				got, err := l.asks(t.Context(), p.from, p.to)
				if err != nil {
					wrong <- fmt.Sprintf("%s → %s: not tried: %v", p.from, p.to, err)
				} else if got != want {
					wrong <- fmt.Sprintf("%s → %s: want %v", p.from, p.to, want)
				}
				return nil
			})
		}
		_ = g.Wait() // they return no errors
		close(wrong)
		var list []string
		for w := range wrong {
			list = append(list, w)
		}
		if len(list) == 0 {
			return nil
		}
		slices.Sort(list)
		return errors.New(strings.Join(list, "; "))
	})
}

// dials reports whether the machine, which is outside of the cluster, reaches a pod.
func (l *policyLab) dials(t *testing.T, to string) bool {
	t.Helper()
	conn, err := net.DialTimeout("tcp", net.JoinHostPort(l.address[to], "80"), 2*time.Second)
	if err != nil {
		denied(t, "the machine to "+to, err)
		return false
	}
	_ = conn.Close() // nothing was written
	return true
}

// TestNetworkPolicy: the same policies make the same truth table on Windows and on
// Linux, probes pass, and the rules hold without the programs that made them.
func TestNetworkPolicy(t *testing.T) {
	c := alone(t, "2022")
	l := newPolicyLab(t, c)
	all := func(string, string) bool { return true }
	l.expect(t, "no policy", all, true)

	l.c.apply(t, l.ns, `apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: deny-all}
spec: {podSelector: {matchLabels: {role: server}}, policyTypes: [Ingress, Egress]}
`)
	l.expect(t, "deny-all", func(string, string) bool { return false }, false)
	l.shown(t)

	var except []string
	for _, name := range []string{"linux-friend", "win-friend", "linux-stranger", "win-stranger"} {
		except = append(except, l.address[name]+"/32")
	}
	network := l.address["linux"][:strings.LastIndex(l.address["linux"], ".")]
	l.c.apply(t, l.ns, `apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: allow}
spec:
  podSelector: {matchLabels: {role: server}}
  ingress:
  - from:
    - podSelector: {matchLabels: {role: friend}}
    - ipBlock: {cidr: `+network[:strings.LastIndex(network, ".")]+`.0.0/16, except: [`+strings.Join(except, ", ")+`]}
`)
	allowed := func(client, _ string) bool { return !strings.HasSuffix(client, "stranger") }
	l.expect(t, "one label, one block with exceptions", allowed, false)
	if !l.dials(t, "linux-guest") || !l.dials(t, "win-guest") {
		t.Error("the machine does not reach pods without a policy")
	}
	l.holds(t)
	l.rebooted(t)
	l.expect(t, "after a reboot", allowed, false)

	// A new pod is covered before it is Ready, and probes pass. From its first packet on
	// no packet from outside reaches it.
	l.c.apply(t, l.ns, strings.ReplaceAll(`apiVersion: v1
kind: Pod
metadata: {name: NAME, labels: {role: server}}
spec:
  containers:
  - `+policyServers()["win-2022"]+`, readinessProbe: {httpGet: {port: 80, path: /}, periodSeconds: 1}}
`, "NAME", "win-late"))
	l.neverReached(t, "win-late", "")
	l.neverReaches(t)
	l.c.kubectl(t, "delete", "-n", l.ns, "networkpolicy", "--all")
	l.expect(t, "policies are gone", all, true)
}

// holds checks that the rules hold while the control plane is stopped and agents die.
func (l *policyLab) holds(t *testing.T) {
	t.Helper()
	var nodes []string
	for server := range policyServers() {
		if strings.HasPrefix(server, "win") {
			nodes = append(nodes, l.c.get(t, l.ns, server, "{.spec.nodeName}"))
		}
	}
	defer l.c.pauseControlPlane(t)()
	for _, node := range nodes {
		l.c.kill(t, "mullion.exe agent", node, true)
	}
	for name := range policyServers() {
		if l.dials(t, name) {
			t.Errorf("with the control plane stopped and the agents killed, the machine reaches %s", name)
		}
	}
	if !l.dials(t, "win-guest") {
		t.Error("the machine does not reach a pod without a policy")
	}
}

// pauseControlPlane stops the control plane, and the manager in it, until the returned function is called.
func (c *shared) pauseControlPlane(t *testing.T) (resume func()) {
	t.Helper()
	server := c.processes(t, "mullion-kube server", "", false)
	for _, pid := range server {
		if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
	}
	return func() {
		for _, pid := range server {
			_ = syscall.Kill(pid, syscall.SIGCONT) // it may be gone
		}
	}
}

// rebooted cuts the power of a host while the control plane is stopped, and checks that its server is never reached
// until it runs again, with another address.
func (l *policyLab) rebooted(t *testing.T) {
	t.Helper()
	const server = "win-2019"
	restarts := l.c.get(t, l.ns, server, "{.status.containerStatuses[0].restartCount}")
	node := filepath.Join(l.c.dir, "clusters", l.c.name, "run", l.c.get(t, l.ns, server, "{.spec.nodeName}")+".json")
	var before, now struct {
		PID   int    `json:"pid"`
		Phase string `json:"phase"`
	}
	readJSON(t, node, &before)
	resume := l.c.pauseControlPlane(t)
	defer resume()
	if err := syscall.Kill(before.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, time.Minute, "the host runs again", func() error {
		if l.dials(t, server) {
			t.Fatalf("after a reboot without the control plane the machine reaches %s", server)
		}
		if readJSON(t, node, &now); now.PID == before.PID || now.Phase != "running" {
			return fmt.Errorf("process %d, %s", now.PID, now.Phase)
		}
		return nil
	})
	resume()
	l.neverReached(t, server, restarts)
}

// neverReached dials a pod from the machine, from its first address on until it is Ready and has been started more
// often than before.
func (l *policyLab) neverReached(t *testing.T, name, before string) {
	t.Helper()
	eventually(t, 90*time.Second, name+" is Ready", func() error {
		out, err := l.c.kubectlErr(t.Context(), "get", "pod", "-n", l.ns, name, "-o",
			`jsonpath={.status.podIP},{.status.containerStatuses[0].restartCount},`+
				`{.status.conditions[?(@.type=="Ready")].status}`)
		if err != nil {
			return err
		}
		f := strings.Split(out, ",")
		if l.address[name] = f[0]; f[0] != "" && l.dials(t, name) {
			t.Fatalf("the machine reached %s", name)
		}
		if f[1] == before || f[2] != "True" {
			return fmt.Errorf("address, restarts, Ready: %v", f)
		}
		return nil
	})
}

// neverReaches starts pods that connect to others from their first instruction on: what a policy denies never answers.
func (l *policyLab) neverReaches(t *testing.T) {
	t.Helper()
	l.c.withWinprog(t)
	var y strings.Builder
	y.WriteString(`apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: early}
spec:
  podSelector: {matchLabels: {role: early}}
  policyTypes: [Egress]
  egress: [{to: [{podSelector: {matchLabels: {role: friend}}}]}]
`)
	denied, allowed := l.address["linux-guest"]+":80", l.address["linux-friend"]+":80"
	early := map[string]string{"win-early": winprogImage, "linux-early": linuxprogImage}
	for pod, image := range early {
		fmt.Fprintf(&y, `---
apiVersion: v1
kind: Pod
metadata: {name: %s, labels: {role: early}}
spec:
  restartPolicy: Never
  containers: [{name: main, image: %q, imagePullPolicy: Never, args: [early, %q, %q]}]
`, pod, image, denied, allowed)
	}
	l.c.apply(t, l.ns, y.String())
	for pod := range early {
		out := l.c.logs(t, l.ns, pod, "early: done")
		if strings.Contains(out, denied) || !strings.Contains(out, allowed) {
			t.Errorf("%s: %s; %s is denied, %s allowed", pod, out, denied, allowed)
		}
	}
}

// shown checks that hnsdiag shows the ACLs of a pod that is denied everything.
func (l *policyLab) shown(t *testing.T) {
	t.Helper()
	for server := range policyServers() {
		if !strings.HasPrefix(server, "win") {
			continue
		}
		node := l.c.get(t, l.ns, server, "{.spec.nodeName}")
		out, err := l.c.try(t.Context(), "", "exec", "--name", l.c.name, "--data-dir", l.c.dir, node, "--",
			"hnsdiag", "list", "endpoints", "-d")
		if err != nil {
			t.Errorf("hnsdiag on %s: %v: %s", node, err, out)
		}
		i := strings.Index(out, `"IPAddress":"`+l.address[server]+`"`)
		if i < 0 {
			t.Errorf("on %s, hnsdiag does not show %s: %s", node, server, out)
			continue
		}
		line, _, _ := strings.Cut(out[strings.LastIndex(out[:i], "\n")+1:], "\n")
		if !strings.Contains(line, `"Action":"Block"`) || !strings.Contains(line, `"Type":"ACL"`) {
			t.Errorf("on %s, hnsdiag shows of %s: %s", node, server, line)
		}
	}
}
