// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package server

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/mullion-k8s/mullion/internal/cri/cni"
	"github.com/mullion-k8s/mullion/internal/cri/store"
	"github.com/mullion-k8s/mullion/internal/durable"
	"github.com/mullion-k8s/mullion/internal/fault/undo"
	"github.com/mullion-k8s/mullion/internal/logkey"
)

// RunPodSandbox creates a pod's network and everything else that its containers
// share. There is no process in it.
func (s *Server) RunPodSandbox(ctx context.Context,
	req *runtime.RunPodSandboxRequest) (_ *runtime.RunPodSandboxResponse, err error) {
	config := req.GetConfig()
	if err := checkSandboxConfig(config); err != nil {
		return nil, err
	}
	if err := s.checkHandler(req.GetRuntimeHandler()); err != nil {
		return nil, err
	}
	if config.GetWindows().GetSecurityContext().GetHostProcess() && s.cfg.HostProcesses == nil {
		return nil, errors.New("HostProcess containers are not configured")
	}
	sb := store.Sandbox{
		ID:          newID(),
		Name:        sandboxName(config.GetMetadata()),
		Handler:     req.GetRuntimeHandler(),
		Config:      config,
		Created:     now(),
		HostProcess: config.GetWindows().GetSecurityContext().GetHostProcess(),
	}
	if err := s.store.Sandboxes.Reserve(sb.ID, sb.Name); err != nil {
		return nil, fmt.Errorf("failed to reserve sandbox name %q: %w", sb.Name, err)
	}
	unlock, err := s.store.Sandboxes.Lock(ctx, sb.ID)
	if err != nil {
		return nil, err
	}
	defer unlock()
	var steps undo.Stack
	defer steps.OnError(ctx, &err)
	steps.Add("reserve name", func(context.Context) error { s.store.Sandboxes.Unreserve(sb.ID, sb.Name); return nil })
	// One inverse for all later steps: it reads the resources to take down from the
	// record, as after a kill.
	steps.Add("make sandbox", func(ctx context.Context) error { return s.dropSandbox(ctx, sb.ID) })
	if err := s.reserveIDs(&sb); err != nil {
		return nil, err
	}
	if err := s.makeSandbox(ctx, &sb); err != nil {
		return nil, err
	}
	sb.Made = now()
	if err := s.store.Sandboxes.Put(sb); err != nil {
		return nil, err
	}
	s.log.InfoContext(ctx, "sandbox made", logkey.SandboxID, sb.ID, logkey.Pod, podName(config), logkey.Address,
		strings.Join(sb.IPs, ","))
	s.publish(sb.ID, sb.ID, runtime.ContainerEventType_CONTAINER_CREATED_EVENT)
	s.publish(sb.ID, sb.ID, runtime.ContainerEventType_CONTAINER_STARTED_EVENT)
	return &runtime.RunPodSandboxResponse{PodSandboxId: sb.ID}, nil
}

// makeSandbox fills the record step by step; each step is on the disk before
// its effect is, or can be found without the record.
func (s *Server) makeSandbox(ctx context.Context, sb *store.Sandbox) error {
	if err := s.point(ctx, "sandbox.run.after-record"); err != nil {
		return err
	}
	if err := errors.Join(s.confine(sb.ID), s.writeResolver(sb.ID, sb.Config, nil)); err != nil {
		return err
	}
	if sb.HostProcess {
		return nil // it has no pause process, so its user is not checked (hcsshim's wcowPodSandboxTask)
	}
	security := sb.Config.GetWindows().GetSecurityContext()
	if spec := security.GetCredentialSpec(); spec != "" {
		if _, err := credentialGuard(spec); err != nil {
			return err
		}
	}
	if user := security.GetRunAsUsername(); user != "" {
		if err := s.checkUser(sb.ID, "", user, s.hostname(sb.Config)); err != nil {
			return fmt.Errorf("failed to start sandbox container task %q: %w", sb.ID, err)
		}
	}
	var err error
	// A namespace that no record names is found by recover.
	if sb.NamespaceID, err = s.cfg.Namespaces.CreateNamespace(ctx); err != nil {
		return fmt.Errorf("failed to create network namespace for sandbox %q: %w", sb.ID, err)
	}
	if err := s.point(ctx, "sandbox.run.after-namespace"); err != nil {
		return errors.Join(err, s.store.Sandboxes.Put(*sb))
	}
	sb.Networked = true
	if err := s.store.Sandboxes.Put(*sb); err != nil {
		return errors.Join(err, s.cfg.Namespaces.DeleteNamespace(context.WithoutCancel(ctx), sb.NamespaceID))
	}
	if err := s.cfg.Namespaces.AddContainer(ctx, sb.NamespaceID, sb.ID); err != nil {
		return fmt.Errorf("record sandbox in its namespace: %w", err)
	}
	ips, err := s.network.Setup(ctx, attachment(*sb))
	if err != nil {
		return fmt.Errorf("failed to setup network for sandbox %q: %w", sb.ID, err)
	}
	for _, ip := range ips {
		sb.IPs = append(sb.IPs, ip.String())
	}
	if err := s.point(ctx, "sandbox.run.after-network"); err != nil {
		return err
	}
	return s.writeResolver(sb.ID, sb.Config, sb.IPs)
}

func checkSandboxConfig(c *runtime.PodSandboxConfig) error {
	m := c.GetMetadata()
	switch {
	case m == nil:
		return invalid{errors.New("sandbox config must include metadata")}
	case m.GetName() == "" || m.GetNamespace() == "" || m.GetUid() == "":
		return invalid{errors.New("sandbox metadata must include name, namespace and uid")}
	}
	return nil
}

// attachment returns the description of a sandbox that the CNI plugins get.
func attachment(sb store.Sandbox) cni.Pod {
	m, dns := sb.Config.GetMetadata(), sb.Config.GetDnsConfig()
	pod := cni.Pod{
		SandboxID: sb.ID, NamespaceID: sb.NamespaceID, Namespace: m.GetNamespace(), Name: m.GetName(), UID: m.GetUid(),
		DNS: cni.DNS{Servers: dns.GetServers(), Searches: dns.GetSearches(), Options: dns.GetOptions()},
	}
	for _, p := range sb.Config.GetPortMappings() {
		// The kubelet lists ports without a host port too; containerd skips them.
		if p.GetHostPort() <= 0 {
			continue
		}
		pod.Ports = append(pod.Ports, cni.PortMapping{
			HostPort: p.GetHostPort(), ContainerPort: p.GetContainerPort(),
			Protocol: strings.ToLower(p.GetProtocol().String()), HostIP: p.GetHostIp(),
		})
	}
	return pod
}

// The files that the C library under Wine reads; a container gets them mounted.
func (s *Server) resolverFile(id string) string {
	return filepath.Join(s.store.Sandboxes.Dir(id), "resolv.conf")
}
func (s *Server) hostsFile(id string) string {
	return filepath.Join(s.store.Sandboxes.Dir(id), "hosts")
}

func (s *Server) writeResolver(id string, c *runtime.PodSandboxConfig, ips []string) error {
	if err := durable.WriteFile(s.resolverFile(id), []byte(resolver(c.GetDnsConfig())), 0o644); err != nil {
		return err
	}
	return durable.WriteFile(s.hostsFile(id), []byte(hosts(c.GetHostname(), ips)), 0o644)
}

// resolverOptions make a lost packet cost about what it costs on Windows, whose client sends five queries, at 0, 1,
// 2, 4 and 8 s, and gives up after 10
// (learn.microsoft.com/troubleshoot/windows-server/networking/dns-client-resolution-timeouts, read 2026-11). The C
// library's own would be twice, at 0 and 5 s.
const resolverOptions = "options timeout:2 attempts:5\n"

// resolver returns a resolv.conf(5). Without servers it is empty rather than absent,
// so that no resolver falls back to a server on the loopback address.
//
// A pod on Windows has one suffix, for its namespace, which is the first of the
// kubelet's list; names with a dot are taken as complete, so that SERVICE.NAMESPACE
// is not found; the options belong to resolv.conf(5), and have no effect
// (kubernetes.io/docs/concepts/services-networking/dns-pod-service, "DNS resolution
// on Windows nodes").
func resolver(c *runtime.DNSConfig) string {
	var b strings.Builder
	if suffix := suffixOf(c); suffix != "" {
		fmt.Fprintf(&b, "search %s\n", suffix)
	}
	for _, server := range c.GetServers() {
		fmt.Fprintf(&b, "nameserver %s\n", server)
	}
	if len(c.GetServers()) > 0 {
		b.WriteString(resolverOptions)
	}
	return b.String()
}

// suffixOf returns the pod's suffix, or "" without a suffix. For dnsPolicy Default
// the kubelet sends the root, as well as a server that does not exist (kubernetes
// v1.36.3 pkg/kubelet/network/dns/dns.go, GetPodDNS, for a resolvConf of "").
func suffixOf(c *runtime.DNSConfig) string {
	if list := c.GetSearches(); len(list) > 0 && list[0] != "." {
		return list[0]
	}
	return ""
}

func hosts(hostname string, ips []string) string {
	var out strings.Builder
	out.WriteString("127.0.0.1 localhost\n::1 localhost\n")
	if hostname != "" {
		for _, ip := range ips {
			out.WriteString(ip + " " + hostname + "\n")
		}
	}
	return out.String()
}

// newID is 64 hexadecimal digits, as containerd's.
func newID() string {
	var b [32]byte
	_, _ = rand.Read(b[:]) // never fails, by its documentation
	return hex.EncodeToString(b[:])
}

func now() int64 { return time.Now().UnixNano() }

// sandboxName and containerName are containerd's (internal/cri/server/helpers.go).
func sandboxName(m *runtime.PodSandboxMetadata) string {
	return strings.Join([]string{m.GetName(), m.GetNamespace(), m.GetUid(),
		strconv.FormatUint(uint64(m.GetAttempt()), 10)}, "_")
}

func podName(c *runtime.PodSandboxConfig) string {
	return c.GetMetadata().GetNamespace() + "/" + c.GetMetadata().GetName()
}

// exists is for paths whose absence is the only expected failure.
func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}
