// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package linuxhost

import (
	"encoding/json"
	"fmt"
)

const (
	containerdConfig = "/etc/containerd/config.toml"
	containerdSocket = "/run/containerd/containerd.sock"
	// baseSpec is the base of each container's OCI specification.
	baseSpec   = "/etc/containerd/base.json"
	cniConfDir = "/etc/cni/net.d"
	// PauseImage is the sandbox image, which `make build` builds.
	pauseImage = "docker.io/mullion/pause:1"
	// proxyAddress is where the parent listens, in the host's network namespace, for
	// image pulls.
	proxyAddress = "127.0.0.1:10272"
)

// describeContainerd returns containerd's configuration. Plugins for missing
// features of the host only cost memory.
func describeContainerd() string {
	return fmt.Sprintf(`version = 4
root = '/var/lib/containerd'
state = '/run/containerd'
imports = []
disabled_plugins = [
  'io.containerd.differ.v1.erofs', 'io.containerd.mount-handler.v1.erofs', 'io.containerd.nri.v1.nri',
  'io.containerd.image-verifier.v1.bindir', 'io.containerd.internal.v1.opt', 'io.containerd.internal.v1.tracing',
  'io.containerd.monitor.container.v1.restart', 'io.containerd.snapshotter.v1.blockfile',
  'io.containerd.snapshotter.v1.erofs', 'io.containerd.snapshotter.v1.native',
  'io.containerd.tracing.processor.v1.otlp',
]

[plugins.'io.containerd.server.v1.grpc']
  address = '%[1]s'

[plugins.'io.containerd.cri.v1.images']
  snapshotter = 'overlayfs'
  [plugins.'io.containerd.cri.v1.images'.pinned_images]
    sandbox = '%[2]s'
  [plugins.'io.containerd.cri.v1.images'.registry]
    config_path = '/etc/containerd/certs.d'

# restrict_oom_score_adj: when memory is short, no pod comes before programs of the machine.
# privileged_without_host_devices: the devices of the host are those of every container.
[plugins.'io.containerd.cri.v1.runtime']
  restrict_oom_score_adj = true
  [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
    runtime_type = 'io.containerd.runc.v2'
    privileged_without_host_devices = true
    base_runtime_spec = '%[5]s'
    [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
      SystemdCgroup = false
  [plugins.'io.containerd.cri.v1.runtime'.cni]
    bin_dirs = ['%[3]s']
    conf_dir = '%[4]s'
    use_internal_loopback = true
`, containerdSocket, pauseImage, programsDir, cniConfDir, baseSpec)
}

// withHook adds ProtectCommand to an OCI specification. containerd removes all read-only
// paths from a privileged container's specification, but no hooks (containerd v2.4.2
// pkg/oci/spec_opts.go, WithPrivileged).
func withHook(spec []byte) ([]byte, error) {
	fields := map[string]any{}
	if err := json.Unmarshal(spec, &fields); err != nil {
		return nil, fmt.Errorf("read containerd's own specification: %w", err)
	}
	hook := map[string]any{"path": hostProgram, "args": []string{"mullion-linuxhost", ProtectCommand}}
	fields["hooks"] = map[string]any{"createContainer": []any{hook}}
	return json.Marshal(fields)
}
