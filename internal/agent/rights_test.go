// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package agent

import (
	"slices"
	"strings"
	"testing"

	"github.com/mullion-k8s/mullion/internal/winsys/acl"
)

// granted returns what an identity's groups may do with a path that another account
// made, as Windows computes it from the nearest list above. A trailing backslash
// marks a directory.
func granted(t *testing.T, path string, groups ...string) uint32 {
	t.Helper()
	isDir := strings.HasSuffix(path, `\`)
	path = strings.TrimSuffix(path, `\`)
	var near directory
	for _, d := range directories() {
		if (path == d.path || strings.HasPrefix(path, d.path+`\`)) && len(d.path) > len(near.path) {
			near = d
		}
	}
	if near.path == "" {
		t.Fatalf("%s has no list", path)
	}
	var may uint32
	for _, e := range near.list {
		holds := e.Over&acl.NotItself == 0
		if path != near.path {
			holds = isDir && e.Over&acl.DirectoriesBelow != 0 || !isDir && e.Over&acl.FilesBelow != 0
		}
		if holds && slices.Contains(groups, e.Who) {
			may |= e.May
		}
	}
	return may
}

// TestWhoMayDoWhat: programs in containers use their volumes, and nothing else of
// a node can be read or replaced by an account that is no administrator.
func TestWhoMayDoWhat(t *testing.T) {
	const (
		full  = acl.FullAccess
		read  = acl.ReadExecute
		write = acl.ReadExecute | acl.AddDirectory | acl.AddFile
		pod   = podsDir + `\0f5c\`
	)
	// ContainerUser, NETWORK SERVICE, the identities of IIS' pools and people at the
	// console are all members of Users, and of no other group in the lists.
	for _, tt := range []struct {
		path  string
		users uint32
	}{
		{ConfigFile, 0},
		{bootstrapKubeconfig, 0},
		{proxyKubeconfig, 0},
		{startedFile, 0},
		{KubeletDir + `\`, 0},
		{kubeletKubeconfig, 0},
		{KubeletKeyPair, 0},
		{KubeletDir + `\plugins_registry\`, 0}, // who can add a plugin is SYSTEM
		{KubeletDir + `\device-plugins\kubelet.sock`, 0},
		{KubeletDir + `\checkpoints\`, 0},
		{cniConf, 0}, // names programs that run as SYSTEM
		{kubeletLog, 0},
		{proxyLog, 0},

		{podsDir + `\`, read | acl.AddDirectory},
		{pod, write},
		{pod + `volumes\kubernetes.io~projected\kube-api-access-x\token`, read},
		{pod + `volumes\kubernetes.io~secret\s\..data\password`, read},
		{pod + `volumes\kubernetes.io~configmap\c\web.config`, read},
		{pod + `volumes\kubernetes.io~empty-dir\cache\`, write},
		{pod + `etc-hosts`, read},
		{pod + `containers\main\7a1b`, read}, // the message of termination
	} {
		if got := granted(t, tt.path, acl.Users); got != tt.users {
			t.Errorf("users may %#x on %s, want %#x", got, tt.path, tt.users)
		}
		for _, who := range []string{acl.System, acl.Administrators} {
			if got := granted(t, tt.path, who, acl.Users); got != full {
				t.Errorf("%s may %#x on %s, want everything", who, got, tt.path)
			}
		}
	}
}

// TestDirectoriesAboveComeFirst: a list that is set reaches what lies below it.
func TestDirectoriesAboveComeFirst(t *testing.T) {
	list := directories()
	for i, d := range list {
		for _, later := range list[i+1:] {
			if strings.HasPrefix(d.path, later.path+`\`) {
				t.Errorf("%s comes before %s", d.path, later.path)
			}
		}
	}
}
