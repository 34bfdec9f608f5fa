// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package bench

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/mullion-k8s/mullion/internal/testenv"
)

// recovery is a cluster of two Windows hosts with flannel's host-gw, of which programs are killed.
type recovery struct {
	cluster
	client *kubernetes.Clientset
}

// BenchmarkRecovery measures how soon a cluster is right again: after a kubelet or the server was killed, after a
// kubelet was stopped, after a client vanished, and after a node came.
func BenchmarkRecovery(b *testing.B) {
	c := newCluster(b)
	c.mullion("up", "--windows", "2019,2019", "--linux", "0", "--network", "host-gw", "--kubeconfig", "none")
	r := recovery{c, c.client()}
	c.kubectl("run", "idle", "--image=mcr.microsoft.com/windows/servercore:ltsc2019",
		`--overrides={"spec":{"nodeName":"win-1"}}`, "--command", "--", "ping.exe", "-t", "localhost")
	for _, m := range []struct {
		name    string
		measure func(b *testing.B, r recovery) time.Duration
		rounds  int
	}{
		{"kubelet-killed", func(b *testing.B, r recovery) time.Duration { return r.kubelet(b, syscall.SIGKILL) }, 3},
		{"server-killed", measureServer, 3},
		{"client-vanished", measureClient, 5},
		{"third-node", measureNode, 1},
		{"kubelet-frozen", func(b *testing.B, r recovery) time.Duration { return r.kubelet(b, syscall.SIGSTOP) }, 1},
	} {
		b.Run(m.name, func(b *testing.B) {
			longest := time.Duration(0)
			for b.Loop() {
				for range m.rounds {
					longest = max(longest, m.measure(b, recovery{cluster{b, c.dir}, r.client}))
				}
			}
			b.ReportMetric(longest.Seconds(), "s-max")
			b.ReportMetric(0, "ns/op") // it includes preparations
		})
	}
}

// kubelet sends a signal to the kubelet of win-1, and waits until the next one has written that the node is Ready.
func (r recovery) kubelet(b *testing.B, signal syscall.Signal) time.Duration {
	b.Helper()
	before := r.programs(`\kubelet.exe`)
	if len(before) != 1 {
		b.Fatalf("processes %v of kubelet.exe, want one", before)
	}
	time.Sleep(2 * time.Second) // heartbeats have a resolution of one second
	old, began := r.heartbeat(b, "win-1"), time.Now()
	if err := syscall.Kill(before[0], signal); err != nil {
		b.Fatal(err)
	}
	defer func() { _ = syscall.Kill(before[0], syscall.SIGCONT) }() // it should be gone
	r.until("Ready again", func() bool {
		now := r.heartbeat(b, "win-1")
		return !now.IsZero() && !now.Equal(old)
	})
	return time.Since(began)
}

// heartbeat returns when the kubelet last wrote that its node is Ready, or zero.
func (r recovery) heartbeat(b *testing.B, node string) (at time.Time) {
	b.Helper()
	n, err := r.client.CoreV1().Nodes().Get(b.Context(), node, metav1.GetOptions{})
	if err != nil {
		b.Fatal(err)
	}
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
			at = c.LastHeartbeatTime.Time
		}
	}
	return at
}

// measureServer kills the server, and waits for its next /readyz.
func measureServer(b *testing.B, r recovery) time.Duration {
	b.Helper()
	server := r.matching("mullion-kube server", r.dir)
	if len(server) != 1 {
		b.Fatalf("processes %v of the server, want one", server)
	}
	began := time.Now()
	if err := syscall.Kill(server[0], syscall.SIGKILL); err != nil {
		b.Fatal(err)
	}
	r.until("the server answers", func() bool {
		code := 0
		r.client.Discovery().RESTClient().Get().AbsPath("/readyz").Timeout(time.Second).Do(b.Context()).
			StatusCode(&code)
		return code == http.StatusOK
	})
	return time.Since(began)
}

// measureClient kills a client at a terminal, and waits until its program has ended.
func measureClient(b *testing.B, r recovery) time.Duration {
	b.Helper()
	const mark = "127.0.0.99"
	r.kubectl("wait", "--for=condition=Ready", "pod/idle", "--timeout=120s")
	cmd := r.command("kubectl", "exec", "-it", "idle", "--", "ping.exe", "-t", mark)
	master, slave := pseudoTerminal(b)
	defer master.Close()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	_ = slave.Close()                                                          // the program has it
	runs := func() bool { return len(r.matching("ping.exe", mark, "-t")) > 1 } // one is the client
	r.until("the program runs", runs)
	time.Sleep(time.Second) // it prints
	began := time.Now()
	if err := cmd.Process.Kill(); err != nil {
		b.Fatal(err)
	}
	_ = cmd.Wait() // killed
	r.until("the program has ended", func() bool { return len(r.matching("ping.exe", mark, "-t")) == 0 })
	return time.Since(began)
}

// measureNode adds a node, and measures from its first Ready until the first node has the way to its pods.
func measureNode(b *testing.B, r recovery) time.Duration {
	b.Helper()
	added := make(chan error, 1)
	cmd := exec.Command(testenv.Bin("mullion"), "node", "add", "--windows", "2019", "--name", name, "--data-dir", r.dir)
	go func() {
		out, err := cmd.CombinedOutput()
		if err != nil {
			err = fmt.Errorf("add a node: %w: %s", err, out)
		}
		added <- err
	}()
	var began time.Time
	reached := false
	r.until("the third node is reached", func() bool {
		n, err := r.client.CoreV1().Nodes().Get(b.Context(), "win-3", metav1.GetOptions{})
		if err != nil {
			return false // not yet
		}
		if began.IsZero() && isReady(n) {
			began = time.Now()
		}
		via := " via " + internalIP(n) + " "
		out, err := exec.Command("nsenter", fmt.Sprintf("--net=/proc/%d/ns/net", r.initPID("win-1")), "ip",
			"route").Output()
		if err != nil {
			b.Fatal(err)
		}
		reached = n.Spec.PodCIDR != "" && bytes.Contains(out, []byte(n.Spec.PodCIDR+via))
		return reached && !began.IsZero()
	})
	took := time.Since(began)
	if err := <-added; err != nil {
		b.Fatal(err)
	}
	return took
}

func isReady(n *corev1.Node) bool {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

func internalIP(n *corev1.Node) string {
	for _, a := range n.Status.Addresses {
		if a.Type == corev1.NodeInternalIP {
			return a.Address
		}
	}
	return ""
}

// matching returns the processes of the machine whose command line has all parts.
func (c cluster) matching(parts ...string) (pids []int) {
	c.b.Helper()
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		c.b.Fatal(err)
	}
next:
	for _, d := range dirs {
		cmdline, _ := os.ReadFile(filepath.Join(d, "cmdline")) // it may have ended
		text := strings.ReplaceAll(string(cmdline), "\x00", " ")
		for _, part := range parts {
			if !strings.Contains(text, part) {
				continue next
			}
		}
		if pid, err := strconv.Atoi(filepath.Base(d)); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// pseudoTerminal opens a terminal and its other side.
func pseudoTerminal(b *testing.B) (master, slave *os.File) {
	b.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		b.Fatal(err)
	}
	number, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err != nil {
		b.Fatal(err)
	}
	return master, slave
}
