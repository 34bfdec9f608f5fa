// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mullion-k8s/mullion/internal/host"
	"github.com/mullion-k8s/mullion/internal/supervise"
)

// errorLine is an error in the formats of Kubernetes (klog: E1125 10:11:12.131415 99 file.go:1] text) and of
// containerd. Programs of a host write it, and it is shown on a terminal: only a part that can be printed.
var errorLine = regexp.MustCompile(`^(?:[EF]\d{4} \S+ +\d+ |time=\S+ level=(?:error|fatal) )([[:print:]]{1,400})`)

// explainAfter is the age of a host after which errors of its programs are meaningful: until the API server
// responds, each of them logs some.
const explainAfter = time.Minute

// Explain adds, to the reason why the node of a Linux worker is not ready, the last error that was logged by the
// program that does not stay up, or else by the kubelet.
func Explain(l Layout, node string, reason error) error {
	st, err := host.ReadStatus(l.nodeStatus(node))
	if err != nil || reason == nil || time.Since(st.Since) < explainAfter {
		return reason
	}
	program := "kubelet"
	for _, c := range st.Components {
		if c.Restarts > 0 && c.State != supervise.Ready {
			program = c.Name
			break
		}
	}
	// A program of the host can put a link there, which stays inside, or a pipe.
	root, err := os.OpenRoot(filepath.Join(l.Node(node), "logs"))
	if err != nil {
		return reason
	}
	defer root.Close()
	if info, err := root.Stat(program + ".log"); err != nil || !info.Mode().IsRegular() {
		return reason
	}
	log, err := root.OpenFile(program+".log", os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return reason
	}
	defer log.Close()
	if why := lastError(log, 0, errorLine); why != "" {
		return fmt.Errorf("%w; last error of %s: %s", reason, program, why)
	}
	return reason
}
