// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package linuxhost

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/mullion-k8s/mullion/internal/agent"
	"github.com/mullion-k8s/mullion/internal/agent/componentconfig"
	"github.com/mullion-k8s/mullion/internal/host"
	"github.com/mullion-k8s/mullion/internal/nodeapi"
	"github.com/mullion-k8s/mullion/internal/supervise"
)

// stopProgram is how long a program may take to stop: three of them together stay
// below the 10 s that a host is given.
const stopProgram = 3 * time.Second

// describeProcesses lists the components of the host.
func describeProcesses(b boot, spawner *supervise.Spawner, reap *host.Reaper, node *follower) ([]supervise.Component,
	error) {
	names := []string{"containerd", "kubelet", "kube-proxy", "storage"}
	if b.Config.Network.Flannel() {
		names = append(names, "flanneld")
	}
	logs, err := host.OpenLogs(nodeDir, names...)
	if err != nil {
		return nil, err
	}
	program := func(name string, argv, env []string) func(context.Context) error {
		return reap.Watch(spawner, supervise.Command{
			Argv: argv,
			Env:  append(environment(), env...),
			Dir:  "/",
			Stop: stopProgram,
			Log:  logs[name],
		})
	}
	via := proxyURL(b.Secret)
	tools := tools{reap.CombinedOutput}
	pause := &pauseLoader{tools: tools}
	components := []supervise.Component{
		{
			Name: "containerd",
			Run: program("containerd", []string{programsDir + "/containerd", "--config", containerdConfig},
				[]string{"HTTPS_PROXY=" + via, "HTTP_PROXY=" + via}),
			Ready: pause.ready,
			Alive: supervise.Answers("unix", containerdSocket, ""),
		},
		{
			Name:  "admission",
			Run:   func(ctx context.Context) error { <-ctx.Done(); return nil },
			Ready: func(ctx context.Context) error { return admitted(ctx, b, kubeletCertificate) },
		},
		{
			Name: "kubelet", Needs: []string{"containerd", "admission"},
			Run: forgetRange(program("kubelet", kubeletArgv(b.Config), nil)),
			Ready: func(context.Context) error {
				_, err := os.Stat(kubeletCertificate)
				return err
			},
			Alive: supervise.Answers("tcp", componentconfig.KubeletHealth, supervise.HTTPRequest),
		},
		{
			Name: "kube-proxy", Needs: []string{"kubelet"},
			Run:   program("kube-proxy", proxyArgv(), nil),
			Alive: supervise.Answers("tcp", componentconfig.ProxyHealth, supervise.HTTPRequest),
		},
		{Name: "images", Needs: []string{"containerd"}, Run: imageStore{tools}.serve},
		{Name: "storage", Needs: []string{"kubelet"}, Run: serveStorage(b, logs["storage"])},
		{Name: "network", Needs: []string{"kubelet"}, Run: node.run, Ready: node.ready,
			Changed: &node.settled},
	}
	if b.Config.Network.Flannel() {
		flanneld := program("flanneld", flannelArgv(b.Config), []string{"NODE_NAME=" + b.Config.Name})
		components = append(components, supervise.Component{
			Name: "flanneld", Needs: []string{"kubelet"}, Run: node.keepFlannel(flanneld),
		})
	}
	if b.Config.Network == agent.VXLAN {
		components = append(components, supervise.Component{Name: "tunnel",
			Run: func(ctx context.Context) error { return guardTunnel(ctx, tools) }})
	}
	if b.Config.EnforcePolicies {
		components = append(components, supervise.Component{Name: "network-policies", Needs: []string{"kubelet"},
			Run: func(ctx context.Context) error { return enforcePolicies(ctx, b.Config, b.CA, node, tools) }})
	}
	return components, nil
}

// admitted returns nil once the API server has the bootstrap token of a host that has yet to
// join, that is, has no certificate. A kubelet that requests its certificate too early
// retries after 2 and 4 s. Meanwhile it cannot register, so that it waits up to 7 s more,
// and it cannot write its CSINode, so that it reports the node ready up to 15 s later
// (initBackoff in Kubernetes v1.36.3 pkg/volume/csi/csi_plugin.go).
func admitted(ctx context.Context, b boot, certificate string) error {
	if _, err := os.Stat(certificate); err == nil || b.Token == "" {
		return nil
	}
	return nodeapi.CheckToken(ctx, b.Config.Server, b.CA, b.Token)
}

// forgetRange removes the CNI configuration before each run of the kubelet, which makes
// containerd write it again. A kubelet that starts may register the node once more, with
// another range, and containerd changes no file that is there (containerd v2.4.2
// internal/cri/server/update_runtime_config.go: "skip generating cni config").
func forgetRange(run func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		if err := os.Remove(cniConfFile); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("forget the node's former pod range: %w", err)
		}
		return run(ctx)
	}
}

// environment of all programs: containerd finds its shim, runc and nft by it. With
// half of Go's default distance between collections, an idle host needs less memory,
// and hosts are mostly idle.
func environment() []string {
	return []string{"PATH=" + programsDir + ":/usr/sbin:/usr/bin", "HOME=/root", "LC_ALL=C.UTF-8", "GOGC=50"}
}

// pauseLoader puts the sandbox image into containerd.
type pauseLoader struct {
	tools tools
	done  bool
}

// ready returns an error until containerd answers and has the image, which it loads
// once. It is not called concurrently.
func (p *pauseLoader) ready(ctx context.Context) error {
	if p.done {
		return nil
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", containerdSocket)
	if err != nil {
		return err
	}
	if err := conn.Close(); err != nil {
		return err
	}
	if _, err := p.tools.ctr(ctx, "images", "import", filepath.Join(programsDir, "pause.tar")); err != nil {
		return err
	}
	p.done = true
	return nil
}
