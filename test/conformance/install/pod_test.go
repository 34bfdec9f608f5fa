// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package install_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
)

// insideVariable holds an inside as JSON.
const insideVariable = "MULLION_INSTALL_TEST_POD"

// inside sets up the environment that a pod sees.
type inside struct {
	Name    string
	Address netip.Addr
	// Mounts are folders of the machine by their places in the pod.
	Mounts map[string]string
	User   int
}

// Where client-go expects the credentials of a pod.
const credentialsDir = "/var/run/secrets/kubernetes.io/serviceaccount"

// running is a pod whose process was started. A container that ended may be
// started again in the same pod.
type running struct {
	*program
	pod     *corev1.Pod
	address string
}

// spawn starts the command line of a pod in namespaces of its own.
func (c *cluster) spawn(pod *corev1.Pod, address netip.Addr) *running {
	c.t.Helper()
	container := pod.Spec.Containers[0]
	in, err := json.Marshal(inside{
		Name:    pod.Name,
		Address: address,
		Mounts:  c.mounts(pod),
		User:    int(*pod.Spec.SecurityContext.RunAsUser),
	})
	if err != nil {
		c.t.Fatal(err)
	}
	cmd := exec.Command("/proc/self/exe", container.Args...)
	cmd.Env = []string{roleVariable + "=" + rolePod, insideVariable + "=" + string(in), "KUBERNETES_SERVICE_HOST=" +
		serverAddress, "KUBERNETES_SERVICE_PORT=6443", "HOSTNAME=" + pod.Name}
	for _, e := range container.Env {
		cmd.Env = append(cmd.Env, e.Name+"="+e.Value)
	}
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET | unix.CLONE_NEWNS | unix.CLONE_NEWUTS}
	p := c.start("manager "+pod.Name, cmd)
	if err := link(p.cmd.Process.Pid, address); err != nil {
		c.t.Fatalf("connect pod %s: %v", pod.Name, err)
	}
	return &running{program: p, pod: pod, address: address.String()}
}

// link connects a process's network with this one. It goes with the process.
func link(pid int, address netip.Addr) error {
	name := fmt.Sprint("pod", pid)
	veth := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: name}, PeerName: "eth0", PeerNamespace: netlink.NsPid(pid)}
	if err := netlink.LinkAdd(veth); err != nil {
		return fmt.Errorf("add link %s: %w", name, err)
	}
	if err := netlink.LinkSetUp(veth); err != nil {
		return fmt.Errorf("set up link %s: %w", name, err)
	}
	// Replace: the link of a process that was killed goes a moment later.
	route := &netlink.Route{
		LinkIndex: veth.Attrs().Index,
		Dst:       only(address),
		Src:       net.ParseIP(serverAddress),
		Scope:     netlink.SCOPE_LINK,
	}
	if err := netlink.RouteReplace(route); err != nil {
		return fmt.Errorf("route to %s: %w", address, err)
	}
	return nil
}

// only returns the network of one address.
func only(a netip.Addr) *net.IPNet {
	return &net.IPNet{IP: a.AsSlice(), Mask: net.CIDRMask(a.BitLen(), a.BitLen())}
}

// becomePod makes the inside of a pod around this process, gives up root, and
// becomes mullion.
func becomePod() error {
	var in inside
	if err := json.Unmarshal([]byte(os.Getenv(insideVariable)), &in); err != nil {
		return err
	}
	if err := unix.Sethostname([]byte(in.Name)); err != nil {
		return fmt.Errorf("set the host's name: %w", err)
	}
	for to, from := range in.Mounts {
		if err := os.MkdirAll(to, 0o755); err != nil {
			return err
		}
		if err := unix.Mount(from, to, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("mount %s: %w", to, err)
		}
	}
	if err := connect(in.Address); err != nil {
		return err
	}
	for _, drop := range []func() error{
		func() error { return syscall.Setgroups(nil) },
		func() error { return syscall.Setresgid(in.User, in.User, in.User) },
		func() error { return syscall.Setresuid(in.User, in.User, in.User) },
	} {
		if err := drop(); err != nil {
			return fmt.Errorf("become user %d: %w", in.User, err)
		}
	}
	env := slices.DeleteFunc(os.Environ(), func(e string) bool {
		return strings.HasPrefix(e, roleVariable+"=") || strings.HasPrefix(e, insideVariable+"=")
	})
	return syscall.Exec("/proc/self/exe", os.Args, append(env, roleVariable+"="+roleMullion))
}

// connect waits for the link and gives it its address.
func connect(address netip.Addr) error {
	var eth netlink.Link
	for deadline := time.Now().Add(limit); eth == nil; time.Sleep(time.Millisecond) {
		var err error
		if eth, err = netlink.LinkByName("eth0"); err != nil && time.Now().After(deadline) {
			return fmt.Errorf("wait for the link: %w", err)
		}
	}
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	server, index := netip.MustParseAddr(serverAddress), eth.Attrs().Index
	return errors.Join(
		netlink.LinkSetUp(lo), netlink.LinkSetUp(eth), addAddress(eth, address.String()+"/32"),
		netlink.RouteAdd(&netlink.Route{LinkIndex: index, Dst: only(server), Scope: netlink.SCOPE_LINK}),
		netlink.RouteAdd(&netlink.Route{LinkIndex: index, Gw: server.AsSlice()}))
}
