// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package server

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/mullion-k8s/mullion/internal/cri/image"
	"github.com/mullion-k8s/mullion/internal/cri/oci"
	"github.com/mullion-k8s/mullion/internal/cri/store"
	"github.com/mullion-k8s/mullion/internal/durable"
	"github.com/mullion-k8s/mullion/internal/fault/undo"
	"github.com/mullion-k8s/mullion/internal/logkey"
	"github.com/mullion-k8s/mullion/internal/winsys/winpath"
)

// CreateContainer creates a container's root directory and its configuration. No
// process of it exists before StartContainer, as on Windows.
func (s *Server) CreateContainer(ctx context.Context,
	req *runtime.CreateContainerRequest) (_ *runtime.CreateContainerResponse, err error) {
	config := req.GetConfig()
	sb, err := s.sandbox(req.GetPodSandboxId())
	if err != nil {
		return nil, fmt.Errorf("failed to find sandbox id %q: %w", req.GetPodSandboxId(), err)
	}
	if err := s.checkContainerConfig(config, sb); err != nil {
		return nil, err
	}
	unlock, err := s.store.Sandboxes.Lock(ctx, sb.ID)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if sb, err = s.sandbox(sb.ID); err != nil {
		return nil, err
	}
	if !sb.Ready() {
		return nil, fmt.Errorf("sandbox container %q is not running", sb.ID)
	}
	c := store.Container{
		ID: newID(), SandboxID: sb.ID, Config: config, Created: now(),
		Name: config.GetMetadata().GetName() + "_" + sandboxName(sb.Config.GetMetadata()) + "_" +
			strconv.FormatUint(uint64(config.GetMetadata().GetAttempt()), 10),
	}
	if err := s.store.Containers.Reserve(c.ID, c.Name); err != nil {
		return nil, fmt.Errorf("failed to reserve container name %q: %w", c.Name, err)
	}
	var steps undo.Stack
	defer steps.OnError(ctx, &err)
	steps.Add("reserve name", func(context.Context) error { s.store.Containers.Unreserve(c.ID, c.Name); return nil })
	steps.Add("make container", func(ctx context.Context) error { return s.removeContainer(ctx, c.ID) })
	if err := s.store.Containers.Put(c); err != nil {
		return nil, err
	}
	if err := s.makeContainer(ctx, &c, sb); err != nil {
		return nil, err
	}
	c.Made = now()
	if err := s.store.Containers.Put(c); err != nil {
		return nil, err
	}
	s.log.InfoContext(ctx, "container made", logkey.ContainerID, c.ID, logkey.SandboxID, sb.ID, logkey.Name,
		config.GetMetadata().GetName(), logkey.Image, config.GetImage().GetImage())
	s.publish(sb.ID, c.ID, runtime.ContainerEventType_CONTAINER_CREATED_EVENT)
	return &runtime.CreateContainerResponse{ContainerId: c.ID}, nil
}

// A container's directory.
const (
	bundleDir = "bundle" // config.json and conmon's files
	rootDir   = "rootfs" // drive C, mounted
	upperDir  = "upper"  // its writable layer
	workDir   = "work"   // overlayfs' own
	// The root directory of the Linux side, if drive C is not that, and its layers.
	linuxRootDir  = "linux"
	linuxUpperDir = "linux-upper"
	linuxWorkDir  = "linux-work"
	statusDir     = "status" // the engine's
	mountsDir     = "mounts" // the pinned sources of mounts
	logDir        = "log"    // the directory of the log, pinned
)

func (s *Server) dir(id string, elem ...string) string {
	return filepath.Join(append([]string{s.store.Containers.Dir(id)}, elem...)...)
}

func (s *Server) makeContainer(ctx context.Context, c *store.Container, sb store.Sandbox) error {
	if err := s.point(ctx, "container.create.after-record"); err != nil {
		return err
	}
	if err := s.confine(sb.ID); err != nil {
		return err
	}
	img, err := s.cfg.Images.Acquire(c.Config.GetImage().GetImage(), c.ID)
	if err != nil {
		return fmt.Errorf("failed to resolve image %q: %w", c.Config.GetImage().GetImage(), err)
	}
	c.ImageID, c.ImageRef, c.OSVersion = img.ID, digestOf(c.Config.GetImage(), img), img.OSVersion
	if err := s.point(ctx, "container.create.after-image"); err != nil {
		return err
	}
	if c.LogPath, err = s.logPath(sb.Config, c.Config); err != nil {
		return err
	}
	if err := s.pinLog(*c); err != nil {
		return fmt.Errorf("open container log: %w", err)
	}
	spec, err := s.describe(ctx, c, sb, img)
	if err != nil {
		return err
	}
	spec.Annotations = map[string]string{
		"io.kubernetes.cri.container-name": c.Config.GetMetadata().GetName(), "io.kubernetes.cri.sandbox-id": sb.ID,
		"io.kubernetes.cri.sandbox-name":      sb.Config.GetMetadata().GetName(),
		"io.kubernetes.cri.sandbox-namespace": sb.Config.GetMetadata().GetNamespace(),
	}
	return s.writeSpec(c.ID, spec)
}

// describe makes the container's root directory and the OCI configuration.
func (s *Server) describe(ctx context.Context, c *store.Container, sb store.Sandbox,
	img *image.Image) (oci.Config, error) {
	process, err := s.mainProcess(c, sb, img.Config)
	if err != nil {
		return oci.Config{}, fmt.Errorf("failed to generate container %q spec: %w", c.ID, err)
	}
	process.UID = s.uid(sb, process.UID)
	var spec oci.Config
	if sb.HostProcess {
		if spec, err = s.makeHostRoot(ctx, c, img); err != nil {
			return oci.Config{}, fmt.Errorf("failed to generate container %q spec: %w", c.ID, err)
		}
	} else if spec, err = s.makeRoot(ctx, c, sb, img, process); err != nil {
		return oci.Config{}, err
	}
	spec.ID, spec.Process = c.ID, process
	spec.Cgroup = s.containerCgroup(c.SandboxID, c.ID).Path()
	spec.Resources = s.resources(c.Config.GetWindows().GetResources())
	for _, target := range slices.Sorted(maps.Keys(s.cfg.SizeFiles)) {
		spec.Mounts = append(spec.Mounts,
			oci.Mount{Source: s.cfg.SizeFiles[target], Destination: target, ReadOnly: true})
	}
	return spec, nil
}

// makeRoot mounts the root directory of a container with the process, and
// describes its isolation.
func (s *Server) makeRoot(ctx context.Context, c *store.Container, sb store.Sandbox, img *image.Image,
	process oci.Process) (oci.Config, error) {
	if err := s.mountRoot(ctx, c, img, sb); err != nil {
		return oci.Config{}, err
	}
	if err := s.writeNetwork(ctx, c.ID, sb); err != nil {
		return oci.Config{}, err
	}
	if err := s.point(ctx, "container.create.after-rootfs"); err != nil {
		return oci.Config{}, err
	}
	if err := s.adopt(c.ID, sb, process); err != nil {
		return oci.Config{}, err
	}
	mounts, err := s.mounts(c, sb, process)
	if err != nil {
		return oci.Config{}, fmt.Errorf("failed to generate container %q spec: %w", c.ID, err)
	}
	if err := s.writeMemoryLimit(c.ID, c.Config.GetWindows().GetResources().GetMemoryLimitInBytes()); err != nil {
		return oci.Config{}, err
	}
	return oci.Config{
		Hostname: s.hostname(sb.Config),
		Rootfs:   s.linuxRoot(c.ID),
		NetNS:    s.networkPath(sb),
		Mounts:   mounts,
	}, nil
}

func (s *Server) writeSpec(id string, spec oci.Config) error {
	if err := os.MkdirAll(s.dir(id, bundleDir), 0o700); err != nil {
		return fmt.Errorf("create bundle: %w", err)
	}
	return s.saveSpec(id, oci.Spec(spec))
}

func (s *Server) saveSpec(id string, spec *specs.Spec) error {
	data, err := json.Marshal(spec)
	if err != nil {
		return fmt.Errorf("encode container configuration: %w", err)
	}
	return durable.WriteFile(s.dir(id, bundleDir, "config.json"), data, 0o600)
}

func (s *Server) readSpec(id string) (*specs.Spec, error) {
	data, err := os.ReadFile(s.dir(id, bundleDir, "config.json"))
	if err != nil {
		return nil, fmt.Errorf("read container configuration: %w", err)
	}
	var spec specs.Spec
	if err := json.Unmarshal(data, &spec); err != nil {
		return nil, fmt.Errorf("read container configuration: %w", err)
	}
	return &spec, nil
}

func (s *Server) checkContainerConfig(c *runtime.ContainerConfig, sb store.Sandbox) error {
	security := c.GetWindows().GetSecurityContext()
	switch {
	case c.GetMetadata().GetName() == "":
		return invalid{errors.New("container config must include metadata with a name")}
	case c.GetImage().GetImage() == "":
		return invalid{errors.New("container config must include an image")}
	case security.GetHostProcess() != sb.HostProcess:
		// containerd's words for the same (internal/cri/server/container_create.go).
		if sb.HostProcess {
			return invalid{errors.New("pod sandbox config and container config must both be HostProcess containers")}
		}
		return invalid{errors.New("cannot run HostProcess container in a pod that is not HostProcess")}
	}
	for _, d := range c.GetDevices() {
		return invalid{fmt.Errorf("device %q: devices are not emulated", d.GetHostPath())}
	}
	for _, d := range c.GetCDIDevices() {
		return invalid{fmt.Errorf("device %q: CDI devices are not emulated", d.GetName())}
	}
	return nil
}

// hostname returns the computer name that a pod sees; without its own name, the
// host's.
func (s *Server) hostname(sb *runtime.PodSandboxConfig) string {
	return cmp.Or(sb.GetHostname(), s.cfg.Hostname, "localhost")
}

// logPath is where the log goes, as a path of this system; empty without a log.
func (s *Server) logPath(sb *runtime.PodSandboxConfig, c *runtime.ContainerConfig) (string, error) {
	if sb.GetLogDirectory() == "" || c.GetLogPath() == "" {
		return "", nil
	}
	full := winpath.Join(sb.GetLogDirectory(), c.GetLogPath())
	name, err := winpath.Resolve(s.cfg.Drive, full)
	if err != nil {
		return "", invalid{fmt.Errorf("open container log: %w", err)}
	}
	if name == filepath.Clean(s.cfg.Drive) {
		return "", invalid{fmt.Errorf("open container log: %q is not a file", full)}
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return "", fmt.Errorf("open container log: %w", err)
	}
	return name, nil
}

// resources translates the limits of a request.
func (s *Server) resources(r *runtime.WindowsContainerResources) oci.Resources {
	out := oci.Resources{
		NodeCPUs: s.cpus, CPUMaximum: r.GetCpuMaximum(), CPUCount: r.GetCpuCount(), CPUShares: r.GetCpuShares(),
		MemoryBytes: r.GetMemoryLimitInBytes(),
	}
	for _, a := range r.GetAffinityCpus() {
		out.Affinity = append(out.Affinity, oci.Affinity{Mask: a.GetCpuMask(), Group: a.GetCpuGroup()})
	}
	return out
}

// slash is path.Join for paths in a container.
func slash(elem ...string) string { return path.Join(append([]string{"/"}, elem...)...) }
