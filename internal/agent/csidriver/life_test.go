// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package csidriver

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/mullion-k8s/mullion/internal/agent/storage"
	"github.com/mullion-k8s/mullion/internal/controlplane/config"
	"github.com/mullion-k8s/mullion/internal/controlplane/controlplanetest"
	"github.com/mullion-k8s/mullion/internal/nodeapi"
	"github.com/mullion-k8s/mullion/internal/testenv"
)

// life is a node of a control plane: the API server, upstream's controllers and our manager are the real ones, and the
// driver has the rights of a node and a clock of its own. What a kubelet would do, the test does.
type life struct {
	*node
	server *controlplanetest.Server
	client kubernetes.Interface // an administrator's
}

const nodeName = "win-1"

// newLife starts a control plane with a node whose data is below dir.
func newLife(t *testing.T, dir string) *life {
	t.Helper()
	l := &life{server: controlplanetest.New(t,
		func(c *config.Config) { c.AdmissionPort = controlplanetest.FreePort(t) })}
	l.server.Start()
	l.server.Ready()
	l.client = l.server.Admin()
	system, err := l.client.CoreV1().Namespaces().Get(t.Context(), metav1.NamespaceSystem, metav1.GetOptions{})
	must(t, err)
	l.node = over(t, dir, string(system.UID))
	ca, err := os.ReadFile(l.server.Config.ClusterCA())
	must(t, err)
	api, err := nodeapi.New(l.server.Config.LocalURL(), nodeName, ca, l.certificate())
	must(t, err)
	l.cfg.Cluster = API{Client: api}
	l.join()
	// The rights of nodes, and the class, are made after the start.
	testenv.Eventually(t, "the rights of a node", func() error { return l.sweep(t.Context()) })
	return l
}

// certificate makes the node's own, as the kubelet gets it.
func (l *life) certificate() string {
	l.t.Helper()
	pki := filepath.Join(l.server.Config.PKI(), "cluster-ca")
	authority, err := tls.LoadX509KeyPair(pki+".crt", pki+".key")
	must(l.t, err)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(l.t, err)
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		Subject:     pkix.Name{CommonName: "system:node:" + nodeName, Organization: []string{"system:nodes"}},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, authority.Leaf, &key.PublicKey, authority.PrivateKey)
	must(l.t, err)
	keyDER, err := x509.MarshalECPrivateKey(key)
	must(l.t, err)
	file := filepath.Join(l.t.TempDir(), "node.pem")
	must(l.t, os.WriteFile(file, append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER})...), 0o600))
	return file
}

// join makes the Node.
func (l *life) join() {
	l.t.Helper()
	labels := map[string]string{corev1.LabelHostname: nodeName, storage.TopologyKey: nodeName}
	_, err := l.client.CoreV1().Nodes().Create(l.t.Context(),
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName, Labels: labels}}, metav1.CreateOptions{})
	must(l.t, err, l.cfg.Cluster.ReportFree(l.t.Context(), 8<<30))
}

// class makes a StorageClass. One with hosts binds at once, to those.
func (l *life) class(name string, policy corev1.PersistentVolumeReclaimPolicy, allowed ...string) {
	l.t.Helper()
	mode := storagev1.VolumeBindingWaitForFirstConsumer
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: storage.Driver,
		ReclaimPolicy: &policy, VolumeBindingMode: &mode}
	if len(allowed) > 0 {
		mode = storagev1.VolumeBindingImmediate
		expression := corev1.TopologySelectorLabelRequirement{Key: corev1.LabelHostname, Values: allowed}
		class.AllowedTopologies = []corev1.TopologySelectorTerm{{
			MatchLabelExpressions: []corev1.TopologySelectorLabelRequirement{expression}}}
	}
	_, err := l.client.StorageV1().StorageClasses().Create(l.t.Context(), class, metav1.CreateOptions{})
	must(l.t, err)
}

// create makes a claim. The scheduler gives it to the node if there is one.
func (l *life) create(name, class, volume, node string) {
	l.t.Helper()
	c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: &class, VolumeName: volume,
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}}}}
	if node != "" {
		c.Annotations = map[string]string{"volume.kubernetes.io/selected-node": node}
	}
	_, err := l.client.CoreV1().PersistentVolumeClaims("default").Create(l.t.Context(), c, metav1.CreateOptions{})
	must(l.t, err)
}

// bound waits until a claim is bound and returns its PersistentVolume.
func (l *life) bound(claim string) *corev1.PersistentVolume {
	l.t.Helper()
	var volume string
	testenv.Eventually(l.t, "claim "+claim, func() error {
		c, err := l.client.CoreV1().PersistentVolumeClaims("default").Get(l.t.Context(), claim, metav1.GetOptions{})
		if err == nil && c.Status.Phase != corev1.ClaimBound {
			err = fmt.Errorf("it is %s", c.Status.Phase)
		}
		if err == nil {
			volume = c.Spec.VolumeName
		}
		return err
	})
	v, err := l.client.CoreV1().PersistentVolumes().Get(l.t.Context(), volume, metav1.GetOptions{})
	must(l.t, err)
	return v
}

// claim makes a claim that waits for a pod, and returns its PersistentVolume.
func (l *life) claim(name, class, volume string) *corev1.PersistentVolume {
	l.t.Helper()
	l.create(name, class, volume, nodeName)
	return l.bound(name)
}

func (l *life) deleteClaim(name string) {
	l.t.Helper()
	must(l.t, l.client.CoreV1().PersistentVolumeClaims("default").Delete(l.t.Context(), name, metav1.DeleteOptions{}))
}

func (l *life) deleteVolume(name string) {
	l.t.Helper()
	must(l.t, l.client.CoreV1().PersistentVolumes().Delete(l.t.Context(), name, metav1.DeleteOptions{}))
}

// becomes waits for a PersistentVolume's phase, or its end.
func (l *life) becomes(name string, phase corev1.PersistentVolumePhase) {
	l.t.Helper()
	testenv.Eventually(l.t, name+" is "+string(phase), func() error {
		v, err := l.client.CoreV1().PersistentVolumes().Get(l.t.Context(), name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			v, err = &corev1.PersistentVolume{}, nil
		}
		if err == nil && v.Status.Phase != phase {
			err = fmt.Errorf("it is %q", v.Status.Phase)
		}
		return err
	})
}

// again makes a PersistentVolume of the data of one that is gone, as a backup tool does.
func (l *life) again(v *corev1.PersistentVolume, name string) {
	l.t.Helper()
	v = v.DeepCopy()
	v.ObjectMeta = metav1.ObjectMeta{Name: name}
	v.Spec.ClaimRef, v.Status = nil, corev1.PersistentVolumeStatus{}
	_, err := l.client.CoreV1().PersistentVolumes().Create(l.t.Context(), v, metav1.CreateOptions{})
	must(l.t, err)
	l.becomes(name, corev1.VolumeAvailable)
}

// marked waits until the Node has the mark of a volume, or has it no longer.
func (l *life) marked(handle string, want bool) {
	l.t.Helper()
	testenv.Eventually(l.t, "the mark of "+handle, func() error {
		all, err := l.cfg.Cluster.Deleted(l.t.Context())
		if _, has := all[storage.DeletedAnnotation(handle)]; err == nil && has != want {
			err = fmt.Errorf("marked: %v", has)
		}
		return err
	})
}

// months lets the clock of the node go on.
func (l *life) months() {
	l.t.Helper()
	for range 3 {
		l.look(month)
	}
}

// TestLife has volumes from claim to end, with a clock that goes on for months, and looks for a file of theirs.
func TestLife(t *testing.T) {
	testenv.Need(t, testenv.Root)
	dir := t.TempDir()
	l := newLife(t, dir)
	l.class("keeps", corev1.PersistentVolumeReclaimRetain)
	l.class("deletes", corev1.PersistentVolumeReclaimDelete)
	for _, tc := range []struct {
		name string
		test func(*testing.T, *life)
	}{
		{"retain", testRetain}, {"delete", testDelete}, {"volume before claim", testVolumeFirst},
		{"policy changed", testPolicyChanged}, {"node again", testNodeAgain}, {"at once", testAtOnce},
		{"class deleted", testClassDeleted}, {"restart", testRestart},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l.t, l.now = t, time.Now()
			tc.test(t, l)
		})
	}
	t.Run("another cluster", func(t *testing.T) {
		l.t = t
		testAnotherCluster(t, l, dir)
	})
	l.server.Stop()
}

// testRetain: a retained volume has its data under any name, whether or not a PersistentVolume exists in between.
func testRetain(t *testing.T, l *life) {
	v := l.claim("data", "keeps", "")
	l.kept(v.Spec.CSI.VolumeHandle)
	for i, name := range []string{v.Name, "restored", v.Name, "by-a-backup-tool"} {
		l.deleteClaim("data")
		last := []string{v.Name, v.Name, "restored", v.Name}[i]
		l.becomes(last, corev1.VolumeReleased)
		l.months()
		l.deleteVolume(last)
		l.becomes(last, "")
		l.months()
		l.wants(v.Spec.CSI.VolumeHandle, "without a PersistentVolume")
		l.again(v, name)
		l.months() // no pod has it
		l.claim("data", "keeps", name)
		l.wants(v.Spec.CSI.VolumeHandle, "as "+name)
		l.months()
	}
	l.wants(v.Spec.CSI.VolumeHandle, "at the end")
	l.marked(v.Spec.CSI.VolumeHandle, false)
}

// testDelete: the data of a deleted volume is in the trash for a day, from which a PersistentVolume of any name takes
// it. Then nothing is left.
func testDelete(t *testing.T, l *life) {
	v := l.claim("data-2", "deletes", "")
	handle := v.Spec.CSI.VolumeHandle
	l.kept(handle)
	l.months()
	l.deleteClaim("data-2")
	l.becomes(v.Name, "")
	l.marked(handle, true)
	l.now = time.Now().Add(time.Second) // a clock as the manager's, which wrote the mark
	l.look(0)
	if exists(l.data(handle)) || !exists(l.trash(handle)) {
		t.Fatal("not in the trash")
	}
	l.again(v, "rescued")
	l.marked(handle, false)
	l.months()
	l.wants(handle, "rescued")
	l.claim("data-3", "deletes", "rescued")
	l.months()
	l.wants(handle, "rescued and bound")

	l.now = time.Now().Add(-time.Second)
	l.wants(handle, "with the clock put right")
	l.deleteClaim("data-3")
	l.becomes("rescued", "")
	l.marked(handle, true)
	l.look(time.Minute)
	l.look(storage.KeepTrash)
	l.look(0)
	l.marked(handle, false)
	if exists(l.data(handle)) || exists(l.trash(handle)) || exists(l.record(handle)) {
		t.Error("something stayed")
	}
}

// testVolumeFirst deletes a PersistentVolume before its claim: the policy Delete holds all the same.
func testVolumeFirst(t *testing.T, l *life) {
	v := l.claim("data-4", "deletes", "")
	l.kept(v.Spec.CSI.VolumeHandle)
	testenv.Eventually(t, "the finalizer", func() error {
		v, err := l.client.CoreV1().PersistentVolumes().Get(t.Context(), v.Name, metav1.GetOptions{})
		if err == nil && !slices.Contains(v.Finalizers, "external-provisioner.volume.kubernetes.io/finalizer") {
			err = errors.New("it has none")
		}
		return err
	})
	l.deleteVolume(v.Name)
	l.marked(v.Spec.CSI.VolumeHandle, false)
	l.deleteClaim("data-4")
	l.becomes(v.Name, "")
	l.marked(v.Spec.CSI.VolumeHandle, true)
}

// testPolicyChanged: what is retained in the end is kept.
func testPolicyChanged(t *testing.T, l *life) {
	v := l.claim("data-5", "deletes", "")
	l.kept(v.Spec.CSI.VolumeHandle)
	_, err := l.client.CoreV1().PersistentVolumes().Patch(t.Context(), v.Name, "application/merge-patch+json",
		[]byte(`{"spec":{"persistentVolumeReclaimPolicy":"Retain"}}`), metav1.PatchOptions{})
	must(t, err)
	l.deleteClaim("data-5")
	l.becomes(v.Name, corev1.VolumeReleased)
	l.deleteVolume(v.Name)
	l.becomes(v.Name, "")
	l.months()
	l.wants(v.Spec.CSI.VolumeHandle, "after a change to Retain")
}

// testNodeAgain: a node that leaves the cluster, and comes back after a week, has its volumes.
func testNodeAgain(t *testing.T, l *life) {
	v := l.claim("data-6", "deletes", "")
	l.kept(v.Spec.CSI.VolumeHandle)
	must(t, l.client.CoreV1().Nodes().Delete(t.Context(), nodeName, metav1.DeleteOptions{}))
	l.now = l.now.Add(7 * 24 * time.Hour)
	if err := l.sweep(t.Context()); err == nil {
		t.Error("a look without a Node")
	}
	l.join()
	l.months()
	l.wants(v.Spec.CSI.VolumeHandle, "on a node that was made again")
}

// testAtOnce: a class that binds at once provisions on a node that it allows, or its claim says why not.
func testAtOnce(t *testing.T, l *life) {
	l.class("here", corev1.PersistentVolumeReclaimDelete, nodeName, "win-2")
	l.class("nowhere", corev1.PersistentVolumeReclaimDelete, "win-2")
	ready := `{"status":{"conditions":[{"type":"Ready","status":"True","reason":"KubeletReady",` +
		`"lastHeartbeatTime":"` + time.Now().UTC().Format(time.RFC3339) + `"}]}}`
	_, err := l.client.CoreV1().Nodes().PatchStatus(t.Context(), nodeName, []byte(ready))
	must(t, err)
	l.create("data-7", "here", "", "")
	l.kept(l.bound("data-7").Spec.CSI.VolumeHandle)
	l.create("data-nowhere", "nowhere", "", "")
	testenv.Eventually(t, "the event", func() error {
		list, err := l.client.CoreV1().Events("default").List(t.Context(), metav1.ListOptions{
			FieldSelector: "involvedObject.name=data-nowhere"})
		if err == nil && !slices.ContainsFunc(list.Items, func(e corev1.Event) bool {
			return strings.Contains(e.Message, "StorageClass nowhere: no node of its allowedTopologies is Ready")
		}) {
			err = fmt.Errorf("events: %v", list.Items)
		}
		return err
	})
}

// testClassDeleted: without their class, volumes live and end as before, and its capacity is gone.
func testClassDeleted(t *testing.T, l *life) {
	kept, deleted := l.claim("data-8", "keeps", ""), l.claim("data-9", "deletes", "")
	l.kept(kept.Spec.CSI.VolumeHandle)
	l.kept(deleted.Spec.CSI.VolumeHandle)
	capacities := func(want ...string) {
		t.Helper()
		testenv.Eventually(t, "capacities", func() error {
			list, err := l.client.StorageV1().CSIStorageCapacities("").List(t.Context(), metav1.ListOptions{})
			var got []string
			for _, c := range list.Items {
				got = append(got, c.StorageClassName)
			}
			slices.Sort(got)
			if err == nil && !slices.Equal(got, want) {
				err = fmt.Errorf("there are %q, want %q", got, want)
			}
			return err
		})
	}
	capacities("deletes", "here", "keeps", storage.Class, "nowhere")
	for _, class := range []string{"keeps", "deletes"} {
		must(t, l.client.StorageV1().StorageClasses().Delete(t.Context(), class, metav1.DeleteOptions{}))
	}
	capacities("here", storage.Class, "nowhere")
	l.months()
	l.wants(deleted.Spec.CSI.VolumeHandle, "without its class")
	l.deleteClaim("data-8")
	l.becomes(kept.Name, corev1.VolumeReleased)
	l.deleteVolume(kept.Name)
	l.becomes(kept.Name, "")
	l.deleteClaim("data-9")
	l.becomes(deleted.Name, "")
	l.marked(deleted.Spec.CSI.VolumeHandle, true)
	l.months()
	l.wants(kept.Spec.CSI.VolumeHandle, "retained, without its class")
}

// testRestart stops the cluster as `mullion down` does, and starts it again after months: everything is as it was.
func testRestart(t *testing.T, l *life) {
	v := l.claim("data-10", storage.Class, "")
	l.kept(v.Spec.CSI.VolumeHandle)
	l.server.Stop()
	l.now = l.now.Add(month)
	if err := l.sweep(t.Context()); err == nil {
		t.Error("a look without an API server")
	}
	l.server.Start()
	l.server.Ready()
	l.Driver = New(l.cfg)
	testenv.Eventually(t, "a look", func() error { return l.sweep(context.WithoutCancel(t.Context())) })
	l.months()
	l.wants(v.Spec.CSI.VolumeHandle, "after a restart")
}

// testAnotherCluster makes a cluster over the data directory of the first. It keeps the other's data, and gets at it by
// a PersistentVolume that is a copy.
func testAnotherCluster(t *testing.T, l *life, dir string) {
	other := newLife(t, dir)
	if other.cluster.uid == l.cluster.uid {
		t.Fatal("the same cluster")
	}
	list, err := l.client.CoreV1().PersistentVolumes().List(t.Context(), metav1.ListOptions{})
	must(t, err)
	v := list.Items[slices.IndexFunc(list.Items, func(v corev1.PersistentVolume) bool {
		return v.Spec.StorageClassName == storage.Class
	})]
	handle := v.Spec.CSI.VolumeHandle
	other.now = l.now
	other.months()
	l.wants(handle, "after months of another cluster")
	if err := other.publish(other.publishRequest(handle, other.target("thief"))); err == nil {
		t.Error("the other cluster has taken it for its own")
	}
	other.again(&v, "imported")
	other.claim("data", storage.Class, "imported")
	other.deleteClaim("data") // with the policy Delete
	other.becomes("imported", "")
	other.months()
	l.wants(handle, "after an import ended")
	other.server.Stop()
}
