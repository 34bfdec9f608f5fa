// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package store

import (
	"encoding/json"
	"fmt"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// version of the records. A record of a later version is not touched.
const version = 1

// Sandbox is the record of a pod sandbox.
type Sandbox struct {
	ID      string                    `json:"id"`
	Name    string                    `json:"name"` // unique: name_namespace_uid_attempt
	Handler string                    `json:"handler,omitempty"`
	Config  *runtime.PodSandboxConfig `json:"-"`
	// Created is in nanoseconds since 1970, as CRI counts; so are the other times.
	Created int64 `json:"created"`
	// Made is when the sandbox was complete; zero until then.
	Made int64 `json:"made,omitempty"`
	// Stopped is when its network was given up, or seen to be gone.
	Stopped  int64 `json:"stopped,omitempty"`
	Removing bool  `json:"removing,omitempty"`

	// IDRange is the number of the sandbox's range of user IDs on the host, from 1; 0 in
	// records of older versions.
	IDRange int `json:"idRange,omitempty"`
	// HostProcess sandboxes share the host's network and have no namespace.
	HostProcess bool   `json:"hostProcess,omitempty"`
	NamespaceID string `json:"namespaceID,omitempty"` // HCN
	// Networked is set if the CNI plugins may have made changes, which are to be
	// undone.
	Networked bool     `json:"networked,omitempty"`
	IPs       []string `json:"ips,omitempty"`
}

// Ready reports whether containers can be created in the sandbox.
func (s Sandbox) Ready() bool { return s.Made != 0 && s.Stopped == 0 && !s.Removing }

// State returns the sandbox's state in CRI's terms.
func (s Sandbox) State() runtime.PodSandboxState {
	if s.Ready() {
		return runtime.PodSandboxState_SANDBOX_READY
	}
	return runtime.PodSandboxState_SANDBOX_NOTREADY
}

// Container is the record of a container.
type Container struct {
	ID        string                   `json:"id"`
	Name      string                   `json:"name"` // unique: name_pod_namespace_uid_attempt
	SandboxID string                   `json:"sandboxID"`
	Config    *runtime.ContainerConfig `json:"-"`
	ImageID   string                   `json:"imageID"`
	ImageRef  string                   `json:"imageRef"` // repository digest, or the ID
	LogPath   string                   `json:"logPath,omitempty"`
	// Env and Dir belong to the container's program; commands that join it get the
	// same, even if the image is gone.
	Env []string `json:"env,omitempty"`
	Dir string   `json:"dir,omitempty"`
	// Command is the command line of the container's program, for errors.
	Command string `json:"command,omitempty"`
	// User is the account that the pod or the image requested. It is empty in
	// records of older versions.
	User string `json:"user,omitempty"`
	// OSVersion is the image's; the host's build must fit it.
	OSVersion string `json:"osVersion,omitempty"`

	Created  int64 `json:"created"`
	Made     int64 `json:"made,omitempty"`
	Started  int64 `json:"started,omitempty"`
	Finished int64 `json:"finished,omitempty"`
	Removing bool  `json:"removing,omitempty"`

	PID int `json:"pid,omitempty"`
	// Limit is why the runtime has ended the container, or is about to; it becomes the
	// reason when the container has ended.
	Limit    string `json:"limit,omitempty"`
	ExitCode int32  `json:"exitCode,omitempty"`
	Reason   string `json:"reason,omitempty"`
	Message  string `json:"message,omitempty"`
}

// State returns the container's state in CRI's terms.
func (c Container) State() runtime.ContainerState {
	switch {
	case c.Finished != 0:
		return runtime.ContainerState_CONTAINER_EXITED
	case c.Started != 0:
		return runtime.ContainerState_CONTAINER_RUNNING
	case c.Made != 0:
		return runtime.ContainerState_CONTAINER_CREATED
	}
	return runtime.ContainerState_CONTAINER_UNKNOWN
}

// Running reports whether the container has a process.
func (c Container) Running() bool { return c.State() == runtime.ContainerState_CONTAINER_RUNNING }

// envelope is a record on disk.
type envelope[T any] struct {
	Version int             `json:"version"`
	Record  T               `json:"record"`
	Config  json.RawMessage `json:"config"` // protobuf's JSON form
}

func encode[T any](record T, config proto.Message) ([]byte, error) {
	raw, err := protojson.Marshal(config)
	if err != nil {
		return nil, fmt.Errorf("encode configuration: %w", err)
	}
	return json.Marshal(envelope[T]{version, record, raw})
}

// decode fills record and config. A field of the configuration that is unknown to
// this version is an error: dropping it would change the object.
func decode[T any](data []byte, record *T, config proto.Message) error {
	var e envelope[T]
	if err := json.Unmarshal(data, &e); err != nil {
		return err
	}
	if e.Version != version {
		return fmt.Errorf("record version %d, want %d", e.Version, version)
	}
	if err := protojson.Unmarshal(e.Config, config); err != nil {
		return fmt.Errorf("decode configuration: %w", err)
	}
	*record = e.Record
	return nil
}
