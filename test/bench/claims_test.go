// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package bench

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"
)

// BenchmarkClaims measures volumes of mullion-local on a host: what a claim adds to the start of a pod, how fast a
// program writes and reads in a volume, and how long a hundred claims at once take. A second of what a claim adds is
// the scheduler's: it looks once a second whether claims are bound, first after a second (kubernetes v1.36.3
// pkg/scheduler/framework/plugins/volumebinding/binder.go, BindPodVolumes).
func BenchmarkClaims(b *testing.B) {
	c := newCluster(b)
	c.mullion("up", "--windows", "2019", "--linux", "0", "--kubeconfig", "none")
	c.loadAttackers()
	client := c.client()
	b.Run("pod", func(b *testing.B) {
		c := cluster{b, c.dir}
		const rounds = 15 // pairs, so that both meet the same machine
		var with, without, bound []float64
		for b.Loop() {
			// The first pods of both kinds find nothing in caches and do not count. The kubelet looks for containers
			// that have started once a second: the pods start at different parts of that second.
			for i := range rounds + 1 {
				time.Sleep(time.Duration(i) * 130 * time.Millisecond % time.Second)
				plain := c.startPods(client, "plain", 1, 0)
				time.Sleep(time.Duration(i) * 130 * time.Millisecond % time.Second)
				claimed := c.startPods(client, "claimed", 1, 1)
				if i > 0 {
					without, with = append(without, plain.running.Seconds()), append(with, claimed.running.Seconds())
					bound = append(bound, claimed.bound.Seconds())
				}
			}
		}
		b.ReportMetric(median(bound), "s-p50/bound")
		b.ReportMetric(median(without), "s-p50/emptyDir")
		b.ReportMetric(median(with), "s-p50/claim")
		b.ReportMetric(0, "ns/op") // the sum of both
	})
	b.Run("sequential", func(b *testing.B) {
		cluster{b, c.dir}.sequential()
	})
	b.Run("hundred", func(b *testing.B) {
		c := cluster{b, c.dir}
		for b.Loop() {
			took := c.startPods(client, "hundred", 10, 10)
			b.ReportMetric(took.bound.Seconds(), "s/bound")
			b.ReportMetric(took.running.Seconds(), "s/pods-running")
		}
		b.ReportMetric(0, "ns/op") // other words for the same
	})
}

// client returns a client of the cluster's administrator, without a limit of requests.
func (c cluster) client() *kubernetes.Clientset {
	c.b.Helper()
	cfg, err := clientcmd.RESTConfigFromKubeConfig([]byte(c.output("kubeconfig")))
	if err != nil {
		c.b.Fatal(err)
	}
	cfg.QPS, cfg.WarningHandler = -1, rest.NoWarnings{}
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		c.b.Fatal(err)
	}
	return client
}

// started tells how long after their creation all claims were bound and all pods ran.
type started struct{ bound, running time.Duration }

// startPods creates pods with claims, or an emptyDir instead, waits until all run, and removes them.
func (c cluster) startPods(client *kubernetes.Clientset, prefix string, pods, claims int) (took started) {
	c.b.Helper()
	ctx := c.b.Context()
	began := time.Now()
	for p := range pods {
		var volumes strings.Builder
		for v := range claims {
			name := fmt.Sprintf("%s-%d-%d", prefix, p, v)
			fmt.Fprintf(&volumes, "{name: v%d, persistentVolumeClaim: {claimName: %s}},", v, name)
			claim := &corev1.PersistentVolumeClaim{}
			c.decode(`metadata: {name: `+name+`}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Mi}}}`, claim)
			if _, err := client.CoreV1().PersistentVolumeClaims("default").Create(ctx, claim,
				metav1.CreateOptions{}); err != nil {
				c.b.Fatal(err)
			}
		}
		if claims == 0 {
			volumes.WriteString("{name: v0, emptyDir: {}}")
		}
		pod := &corev1.Pod{}
		c.decode(fmt.Sprintf(`metadata: {name: %s-%d, labels: {bench: %s}}
spec:
  os: {name: windows}
  terminationGracePeriodSeconds: 0
  containers: [{name: main, image: "%s", imagePullPolicy: Never, args: [wait], volumeMounts: [
    {name: v0, mountPath: 'C:\v'}]}]
  volumes: [%s]`, prefix, p, prefix, attackerImage, volumes.String()), pod)
		if _, err := client.CoreV1().Pods("default").Create(ctx, pod, metav1.CreateOptions{}); err != nil {
			c.b.Fatal(err)
		}
	}
	c.until("all claims bound and all pods running", func() bool {
		if took.bound == 0 && c.bound(client) == pods*claims {
			took.bound = time.Since(began)
		}
		list, err := client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{LabelSelector: "bench=" + prefix})
		if err != nil {
			c.b.Fatal(err)
		}
		running := 0
		for _, p := range list.Items {
			if p.Status.Phase == corev1.PodRunning {
				running++
			}
		}
		if running == pods {
			took.running = time.Since(began)
		}
		return took.running > 0 && took.bound > 0
	})
	everything := metav1.ListOptions{}
	if err := client.CoreV1().Pods("default").DeleteCollection(ctx, metav1.DeleteOptions{}, everything); err != nil {
		c.b.Fatal(err)
	}
	if err := client.CoreV1().PersistentVolumeClaims("default").DeleteCollection(ctx, metav1.DeleteOptions{},
		everything); err != nil {
		c.b.Fatal(err)
	}
	c.until("everything gone", func() bool {
		list, err := client.CoreV1().PersistentVolumes().List(ctx, everything)
		if err != nil {
			c.b.Fatal(err)
		}
		left, err := client.CoreV1().Pods("default").List(ctx, everything)
		if err != nil {
			c.b.Fatal(err)
		}
		return len(list.Items)+len(left.Items) == 0
	})
	return took
}

// bound counts the claims that have their volumes.
func (c cluster) bound(client *kubernetes.Clientset) (n int) {
	c.b.Helper()
	list, err := client.CoreV1().PersistentVolumeClaims("default").List(c.b.Context(), metav1.ListOptions{})
	if err != nil {
		c.b.Fatal(err)
	}
	for _, p := range list.Items {
		if p.Status.Phase == corev1.ClaimBound {
			n++
		}
	}
	return n
}

// until looks again and again, often enough for figures of tenths of a second.
func (c cluster) until(what string, holds func() bool) {
	c.b.Helper()
	for deadline := time.Now().Add(3 * time.Minute); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			c.b.Fatalf("%s: not within 3 minutes", what)
		}
	}
}

func (c cluster) decode(document string, into any) {
	c.b.Helper()
	if err := yaml.UnmarshalStrict([]byte(document), into); err != nil {
		c.b.Fatal(err)
	}
}

// sequentialMiB is the size of a file: it fits the memory of the pod's host, so that the figures are those of the
// path through Wine to the file system, and not only the disk's.
const sequentialMiB = 256

// sequential has a program of one pod write and read in a volume and in a directory of the host.
func (c cluster) sequential() {
	b := c.b
	const pod = `apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
---
apiVersion: v1
kind: Pod
metadata: {name: writer}
spec:
  os: {name: windows}
  terminationGracePeriodSeconds: 0
  containers: [{name: main, image: "` + attackerImage + `", imagePullPolicy: Never, args: [wait], volumeMounts: [
    {name: claim, mountPath: 'C:\claim'}, {name: host, mountPath: 'C:\host'}]}]
  volumes:
  - {name: claim, persistentVolumeClaim: {claimName: data}}
  - {name: host, hostPath: {path: 'C:\bench', type: DirectoryOrCreate}}
`
	file := filepath.Join(b.TempDir(), "writer.yaml")
	if err := os.WriteFile(file, []byte(pod), 0o600); err != nil {
		b.Fatal(err)
	}
	c.kubectl("apply", "-f", file)
	c.kubectl("wait", "--for=condition=Ready", "pod/writer", "--timeout=60s")
	figures := map[string][]float64{}
	for b.Loop() {
		const rounds = 8 // pairs; the second of a pair meets what the disk has not yet written of the first
		for round := range rounds {
			dirs := []string{"claim", "host"}
			if round%2 > 0 {
				slices.Reverse(dirs)
			}
			for _, dir := range dirs {
				out := c.output("kubectl", "exec", "writer", "--", `C:\app\winprog.exe`, "sequential", `C:\`+dir,
					fmt.Sprint(sequentialMiB))
				var written, read float64
				if _, err := fmt.Sscanf(strings.ReplaceAll(out, "\r", ""), "written: %f MB/s\nread: %f MB/s", &written,
					&read); err != nil {
					b.Fatalf("winprog: %v: %q", err, out)
				}
				figures["written-"+dir] = append(figures["written-"+dir], written)
				figures["read-"+dir] = append(figures["read-"+dir], read)
			}
		}
	}
	for what, all := range figures {
		b.ReportMetric(median(all), "MB-s/"+what)
	}
	b.ReportMetric(0, "ns/op") // the sum of different things
	c.kubectl("delete", "-f", file)
}
