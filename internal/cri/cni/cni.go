// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package cni gives pod sandboxes their network by running the node's CNI
// plugins, which are Windows programs: a Runner starts them in the emulated
// host, and everything else is the CNI project's own library.
//
// The configuration is read again for each pod, so the node's agent may write or
// change it at any time. As in containerd (max_conf_num = 1), the first file by
// name is used. The configuration that a pod was set up with is cached, and the
// pod is torn down with the same one.
package cni

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/containernetworking/cni/libcni"
	"github.com/containernetworking/cni/pkg/types"
	types100 "github.com/containernetworking/cni/pkg/types/100"
	"github.com/containernetworking/cni/pkg/version"

	"github.com/mullion-k8s/mullion/internal/winsys/winpath"
)

// Runner runs a Windows program in the emulated host.
type Runner interface {
	// RunPlugin runs the program at a Windows path with just these variables beside
	// the system's, and returns its output, and an error unless it exited with 0.
	// The program is killed when the context ends.
	RunPlugin(ctx context.Context, exe string, env []string, stdin []byte) (stdout, stderr []byte, err error)
}

// Config has the locations of the plugins and their configuration.
type Config struct {
	// Drive is the directory that is drive C of the emulated host.
	Drive string
	// ConfDir and BinDir are Windows paths on it; containerd's if empty.
	ConfDir, BinDir string
	// CacheDir is the library's cache of earlier results.
	CacheDir string
	Runner   Runner
}

// Where containerd on Windows looks; internal/cri/config/config_windows.go of
// containerd 2.
const (
	DefaultConfDir = `C:\Program Files\containerd\cni\conf`
	DefaultBinDir  = `C:\Program Files\containerd\cni\bin`
)

// interfaceName is containerd's name for the first interface of every pod.
const interfaceName = "eth0"

// errNotConfigured is returned while there is no usable configuration. The
// text is containerd's; the kubelet shows it as the reason of NetworkReady.
var errNotConfigured = errors.New("cni plugin not initialized")

// Network runs the plugins. It is safe for concurrent use.
type Network struct {
	cfg Config
	lib *libcni.CNIConfig
}

// New returns a Network; it reads no file before its first use.
func New(cfg Config) *Network {
	cfg.ConfDir = cmp.Or(cfg.ConfDir, DefaultConfDir)
	cfg.BinDir = cmp.Or(cfg.BinDir, DefaultBinDir)
	return &Network{cfg: cfg, lib: libcni.NewCNIConfigWithCacheDir([]string{cfg.BinDir}, cfg.CacheDir, plugins{cfg})}
}

// PortMapping publishes a port of the pod at the node.
type PortMapping struct {
	HostPort      int32  `json:"hostPort"`
	ContainerPort int32  `json:"containerPort"`
	Protocol      string `json:"protocol"` // tcp, udp
	HostIP        string `json:"hostIP,omitempty"`
}

// DNS is a pod's resolver configuration, with the keys of the capability "dns" (CNI
// CONVENTIONS.md).
type DNS struct {
	Servers  []string `json:"servers,omitempty"`
	Searches []string `json:"searches,omitempty"`
	Options  []string `json:"options,omitempty"`
}

// Pod is one attachment.
type Pod struct {
	SandboxID            string
	NamespaceID          string // GUID of the HCN namespace
	Namespace, Name, UID string // of the pod
	Ports                []PortMapping
	DNS                  DNS
}

// Ready returns an error if pods cannot get a network.
func (n *Network) Ready() error {
	_, err := n.configuration()
	return err
}

// Name returns the configured network's name, for status output; "" without a network.
func (n *Network) Name() string {
	list, err := n.configuration()
	if err != nil {
		return ""
	}
	return list.Name
}

func (n *Network) configuration() (*libcni.NetworkConfigList, error) {
	dir, err := winpath.Resolve(n.cfg.Drive, n.cfg.ConfDir)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNotConfigured, err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%w: %w", errNotConfigured, err)
	}
	var names []string
	for _, e := range entries {
		if ext := strings.ToLower(filepath.Ext(e.Name())); ext == ".conf" || ext == ".conflist" || ext == ".json" {
			names = append(names, e.Name())
		}
	}
	if len(names) == 0 {
		return nil, errNotConfigured
	}
	slices.Sort(names)
	data, err := os.ReadFile(filepath.Join(dir, names[0]))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNotConfigured, err)
	}
	list, err := parse(data)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", errNotConfigured, names[0], err)
	}
	return list, nil
}

// parse reads a list of plugins, or one plugin as a list of one.
func parse(data []byte) (*libcni.NetworkConfigList, error) {
	// Windows editors write a byte order mark, which is not valid JSON.
	data = []byte(strings.TrimPrefix(string(data), "\ufeff"))
	var probe struct {
		Plugins json.RawMessage `json:"plugins"`
	}
	if err := json.Unmarshal(data, &probe); err != nil {
		return nil, err
	}
	if probe.Plugins != nil {
		list, err := libcni.ConfListFromBytes(data)
		if err == nil && len(list.Plugins) == 0 {
			err = errors.New("no plugins")
		}
		return list, err
	}
	// containerd reads such files (*.conf), and the Windows guides' own are of this form.
	conf, err := libcni.ConfFromBytes(data) //nolint:staticcheck // see above
	if err != nil {
		return nil, err
	}
	return libcni.ConfListFromConf(conf) //nolint:staticcheck // see above
}

func (p Pod) runtime() *libcni.RuntimeConf {
	rt := &libcni.RuntimeConf{
		ContainerID: p.SandboxID, NetNS: p.NamespaceID, IfName: interfaceName,
		// Names and order as containerd's (internal/cri/server/sandbox_run.go, cniNamespaceOpts).
		Args: [][2]string{
			{"IgnoreUnknown", "1"}, {"K8S_POD_NAMESPACE", p.Namespace}, {"K8S_POD_NAME", p.Name},
			{"K8S_POD_INFRA_CONTAINER_ID", p.SandboxID}, {"K8S_POD_UID", p.UID},
		},
		CapabilityArgs: map[string]any{},
	}
	if len(p.Ports) > 0 {
		rt.CapabilityArgs["portMappings"] = p.Ports
	}
	if len(p.DNS.Servers)+len(p.DNS.Searches)+len(p.DNS.Options) > 0 {
		rt.CapabilityArgs["dns"] = p.DNS
	}
	return rt
}

// Setup attaches a pod and returns its addresses, IPv4 first as the plugins
// gave them. On an error the caller calls Teardown.
func (n *Network) Setup(ctx context.Context, p Pod) ([]net.IP, error) {
	list, err := n.configuration()
	if err != nil {
		return nil, err
	}
	result, err := n.lib.AddNetworkList(ctx, list, p.runtime())
	if err != nil {
		return nil, fmt.Errorf("plugin %s: %w", pluginNames(list), err)
	}
	r, err := types100.NewResultFromResult(result)
	if err != nil {
		return nil, fmt.Errorf("read the result of plugin %s: %w", pluginNames(list), err)
	}
	var ips []net.IP
	for _, ip := range r.IPs {
		ips = append(ips, ip.Address.IP)
	}
	if len(ips) == 0 {
		return nil, fmt.Errorf("plugin %s gave no address", pluginNames(list))
	}
	return ips, nil
}

// Teardown detaches a pod from its network. It is not an error if it is not
// attached.
func (n *Network) Teardown(ctx context.Context, p Pod) error {
	lists := []*libcni.NetworkConfigList{}
	// A broken cache must not keep an address in use: fall back to the current
	// configuration.
	if cached, err := n.lib.GetCachedAttachments(p.SandboxID); err == nil {
		for _, a := range cached {
			if list, err := parse(a.Config); err == nil {
				lists = append(lists, list)
			}
		}
	}
	if len(lists) == 0 {
		list, err := n.configuration()
		if err != nil {
			return err
		}
		lists = append(lists, list)
	}
	for _, list := range lists {
		if err := n.lib.DelNetworkList(ctx, list, p.runtime()); err != nil {
			return fmt.Errorf("plugin %s: %w", pluginNames(list), err)
		}
	}
	return nil
}

func pluginNames(list *libcni.NetworkConfigList) string {
	var names []string
	for _, p := range list.Plugins {
		names = append(names, fmt.Sprintf("type=%q", p.Network.Type))
	}
	return strings.Join(names, ",") + fmt.Sprintf(" name=%q", list.Name)
}

// plugins is how the library reaches the Windows programs.
type plugins struct{ cfg Config }

// FindInPath returns the Windows path of a plugin, as FindInPath of the library
// does on Windows.
func (p plugins) FindInPath(plugin string, _ []string) (string, error) {
	if plugin == "" || strings.ContainsAny(plugin, `/\:`) {
		return "", fmt.Errorf("invalid plugin name: %q", plugin)
	}
	exe := winpath.Join(p.cfg.BinDir, plugin+".exe")
	file, err := winpath.Resolve(p.cfg.Drive, exe)
	if err == nil {
		_, err = os.Stat(file)
	}
	if err != nil {
		return "", fmt.Errorf("failed to find plugin %q in path [%s]", plugin, p.cfg.BinDir)
	}
	return exe, nil
}

// ExecPlugin runs a plugin. Of the environment only CNI's own variables go
// there: ours belongs to a Linux process.
func (p plugins) ExecPlugin(ctx context.Context, exe string, stdin []byte, environ []string) ([]byte, error) {
	var env []string
	for _, e := range environ {
		if strings.HasPrefix(e, "CNI_PATH=") {
			e = "CNI_PATH=" + p.cfg.BinDir
		}
		if strings.HasPrefix(e, "CNI_") {
			env = append(env, e)
		}
	}
	stdout, stderr, err := p.cfg.Runner.RunPlugin(ctx, exe, env, stdin)
	if err == nil {
		return stdout, nil
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	// A plugin reports errors on stdout, as JSON.
	var said types.Error
	if json.Unmarshal(stdout, &said) == nil && said.Msg != "" {
		return nil, &said
	}
	if text := strings.TrimSpace(string(stderr)); text != "" {
		return nil, fmt.Errorf("%w: %s", err, text)
	}
	return nil, err
}

// Decode reads a plugin's answer to VERSION.
func (p plugins) Decode(data []byte) (version.PluginInfo, error) {
	d := version.PluginDecoder{}
	return d.Decode(data)
}
