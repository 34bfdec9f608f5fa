// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package localvolume

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"sigs.k8s.io/sig-storage-lib-external-provisioner/v13/controller"

	"github.com/mullion-k8s/mullion/internal/agent/storage"
	"github.com/mullion-k8s/mullion/internal/manager/inventory"
	"github.com/mullion-k8s/mullion/internal/testenv"
)

func claim() *corev1.PersistentVolumeClaim {
	class := storage.Class
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "data", UID: "1", Annotations: map[string]string{
			"volume.kubernetes.io/storage-provisioner": storage.Driver,
			"volume.kubernetes.io/selected-node":       "win-1",
		}},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: &class,
			AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	}
}

func TestCheck(t *testing.T) {
	block := corev1.PersistentVolumeBlock
	for want, change := range map[string]func(*controller.ProvisionOptions){
		"": func(*controller.ProvisionOptions) {},
		"access mode ReadWriteMany": func(o *controller.ProvisionOptions) {
			o.PVC.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce, corev1.ReadWriteMany}
		},
		"volumeMode Block": func(o *controller.ProvisionOptions) { o.PVC.Spec.VolumeMode = &block },
		"dataSource": func(o *controller.ProvisionOptions) {
			o.PVC.Spec.DataSource = &corev1.TypedLocalObjectReference{Kind: "PersistentVolumeClaim", Name: "other"}
		},
		"selector":     func(o *controller.ProvisionOptions) { o.PVC.Spec.Selector = &metav1.LabelSelector{} },
		"mountOptions": func(o *controller.ProvisionOptions) { o.StorageClass.MountOptions = []string{"ro"} },
		"no parameters": func(o *controller.ProvisionOptions) {
			o.StorageClass.Parameters = map[string]string{"path": `C:\Windows`}
		},
		"WaitForFirstConsumer, or choose nodes by allowedTopologies": func(o *controller.ProvisionOptions) {
			o.SelectedNodeName = ""
		},
		"cannot have a directory": func(o *controller.ProvisionOptions) {
			o.PVName = strings.Repeat("a", 200)
		},
	} {
		o := controller.ProvisionOptions{StorageClass: describeClass(), PVName: "pvc-1", PVC: claim(),
			SelectedNodeName: "win-1"}
		change(&o)
		err := check(o)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", want, err)
		}
	}
}

// run starts a controller on a cluster with these objects, and stops it at the end.
func run(t *testing.T, objects ...runtime.Object) *fake.Clientset {
	t.Helper()
	client := fake.NewClientset(append(objects, &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem, UID: "cluster-uid"}})...)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	c := New(client, Config{Namespace: "sys", Log: slog.New(slog.DiscardHandler),
		Informers: informers.NewSharedInformerFactory(client, 0)})
	c.lostAfter = 0
	go func() { done <- c.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return client
}

func node(annotations, labels map[string]string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "win-1", UID: "node-uid", Annotations: annotations,
		Labels: labels}}
}

func TestController(t *testing.T) {
	client := run(t, claim(), node(map[string]string{storage.FreeAnnotation: "5368709120"},
		map[string]string{storage.TopologyKey: "win-1"}))
	testenv.Eventually(t, "the PersistentVolume", func() error {
		pv, err := client.CoreV1().PersistentVolumes().Get(t.Context(), "pvc-1", metav1.GetOptions{})
		if err != nil {
			return err
		}
		csi := pv.Spec.CSI
		if csi.Driver != storage.Driver || csi.VolumeHandle != "pvc-1" ||
			csi.VolumeAttributes[storage.ClusterKey] != "cluster-uid" ||
			csi.VolumeAttributes[storage.BytesKey] != strconv.FormatInt(pv.Spec.Capacity.Storage().Value(), 10) ||
			pv.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete ||
			pv.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0].Values[0] != "win-1" {
			t.Errorf("%+v", pv.Spec)
		}
		return nil
	})
	testenv.Eventually(t, "the capacity", func() error {
		list, err := client.StorageV1().CSIStorageCapacities("sys").List(t.Context(), metav1.ListOptions{})
		if err != nil || len(list.Items) != 1 {
			return context.DeadlineExceeded
		}
		c := list.Items[0]
		if c.StorageClassName != storage.Class || c.Capacity.Value() != 5<<30 || c.OwnerReferences[0].Name != "win-1" {
			t.Errorf("%+v", c)
		}
		return nil
	})
}

// TestClass: the class is the default unless there is another one, and a user's is left alone.
func TestClass(t *testing.T) {
	class := func(name string, annotations map[string]string) *storagev1.StorageClass {
		return &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations},
			Provisioner: "example.test"}
	}
	for name, tt := range map[string]struct {
		have      []runtime.Object
		isDefault string
	}{
		"none":         {nil, "true"},
		"another":      {[]runtime.Object{class("other", nil)}, "true"},
		"a default":    {[]runtime.Object{class("other", map[string]string{defaultClass: "true"})}, ""},
		"a user's own": {[]runtime.Object{class(storage.Class, map[string]string{defaultClass: "false"})}, "false"},
	} {
		client := run(t, tt.have...)
		testenv.Eventually(t, name, func() error {
			c, err := client.StorageV1().StorageClasses().Get(t.Context(), storage.Class, metav1.GetOptions{})
			if err == nil && c.Annotations[defaultClass] != tt.isDefault {
				t.Errorf("%s: %v", name, c.Annotations)
			}
			return err
		})
	}
}

func TestDescribeCapacity(t *testing.T) {
	for _, free := range []string{"", "x", "-1", "1e9", "99999999999999999999"} {
		n := node(map[string]string{storage.FreeAnnotation: free}, nil)
		if c := describeCapacity(n, describeClass(), "sys"); c != nil {
			t.Errorf("%q gave %+v", free, c)
		}
	}
	if c := describeCapacity(node(map[string]string{storage.FreeAnnotation: "1"}, nil),
		&storagev1.StorageClass{Provisioner: "example.test"}, "sys"); c != nil {
		t.Errorf("another provisioner's class: %+v", c)
	}
}

// TestChoose: a class that binds at once gets a node that it allows, that is ready and has room.
func TestChoose(t *testing.T) {
	const free = "5368709120"
	nodes := map[string]func(*corev1.Node){
		"good-1":      func(*corev1.Node) {},
		"good-2":      func(*corev1.Node) {},
		"other-os":    func(n *corev1.Node) { n.Labels[corev1.LabelOSStable] = "linux" },
		"full":        func(n *corev1.Node) { n.Annotations[storage.FreeAnnotation] = "1" },
		"silent":      func(n *corev1.Node) { n.Annotations = nil },
		"not-ready":   func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionUnknown },
		"no-kubelet":  func(n *corev1.Node) { n.Status.Conditions = nil },
		"drained":     func(n *corev1.Node) { n.Spec.Unschedulable = true },
		"second-term": func(n *corev1.Node) { n.Labels = map[string]string{"zone": "b", storage.TopologyKey: "n"} },
	}
	var all []corev1.Node
	for name, change := range nodes {
		n := node(map[string]string{storage.FreeAnnotation: free},
			map[string]string{storage.TopologyKey: name, corev1.LabelOSStable: "windows"})
		n.Name = name
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		change(n)
		all = append(all, *n)
	}
	topologies := []corev1.TopologySelectorTerm{{}, {MatchLabelExpressions: []corev1.TopologySelectorLabelRequirement{
		{Key: corev1.LabelOSStable, Values: []string{"windows"}}}},
		{MatchLabelExpressions: []corev1.TopologySelectorLabelRequirement{{Key: "zone", Values: []string{"a", "b"}}}}}
	got := map[string]bool{}
	for i := range 100 {
		o := controller.ProvisionOptions{StorageClass: describeClass(), PVName: fmt.Sprint("pvc-", i), PVC: claim()}
		o.StorageClass.AllowedTopologies = topologies
		name, err := choose(o, all)
		again, _ := choose(o, all) // the same error
		if err != nil || again != name {
			t.Fatalf("%q, then %q, %v", name, again, err)
		}
		got[name] = true
	}
	if want := map[string]bool{"good-1": true, "good-2": true, "second-term": true}; !maps.Equal(got, want) {
		t.Errorf("chosen: %v, want %v", got, want)
	}
	o := controller.ProvisionOptions{StorageClass: describeClass(), PVName: "pvc-1", PVC: claim()}
	o.StorageClass.AllowedTopologies = topologies[:1]
	if name, err := choose(o, all); err == nil || !strings.Contains(err.Error(), "no node of its allowedTopologies") {
		t.Errorf("an empty term: %q, %v", name, err)
	}
}

// TestOldCapacities: the capacity of a class goes with it, also if that happened while no manager ran.
func TestOldCapacities(t *testing.T) {
	class := describeClass()
	class.Name, class.UID = "mine", "mine-uid"
	old := &storagev1.CSIStorageCapacity{ObjectMeta: metav1.ObjectMeta{Namespace: "sys", Name: "node-uid-old-uid",
		Labels: inventory.Labels()}, StorageClassName: "old"}
	other := &storagev1.CSIStorageCapacity{ObjectMeta: metav1.ObjectMeta{Namespace: "sys", Name: "csisc-x"},
		StorageClassName: "of-another-driver"}
	client := run(t, class, old, other, node(map[string]string{storage.FreeAnnotation: "1"}, nil))
	has := func(want ...string) {
		t.Helper()
		testenv.Eventually(t, "capacities", func() error {
			list, err := client.StorageV1().CSIStorageCapacities("sys").List(t.Context(), metav1.ListOptions{})
			if err != nil {
				return err
			}
			var got []string
			for _, c := range list.Items {
				got = append(got, c.StorageClassName)
			}
			slices.Sort(got)
			if !slices.Equal(got, want) {
				return fmt.Errorf("there are %q, want %q", got, want)
			}
			return nil
		})
	}
	has("mine", storage.Class, "of-another-driver")
	if err := client.StorageV1().StorageClasses().Delete(t.Context(), "mine", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	has(storage.Class, "of-another-driver")
}

// TestMarks: which PersistentVolumes the node of their data is told to forget.
func TestMarks(t *testing.T) {
	const handle = "pvc-1"
	volume := func(name string, change func(*corev1.PersistentVolume)) *corev1.PersistentVolume {
		o := controller.ProvisionOptions{StorageClass: describeClass(), PVName: handle, PVC: claim()}
		v := describe(o, "cluster-uid", "win-1")
		v.Name = name
		v.Status.Phase = corev1.VolumeReleased
		if change != nil {
			change(v)
		}
		return v
	}
	key := storage.DeletedAnnotation(handle)
	for name, tt := range map[string]struct {
		deleted, other *corev1.PersistentVolume
		marked         bool
	}{
		"alone":                 {volume(handle, nil), nil, true},
		"under another name":    {volume("restored", nil), nil, true},
		"another to be deleted": {volume(handle, nil), volume("second", nil), true},
		"of another handle": {volume(handle, nil), volume("b", func(v *corev1.PersistentVolume) {
			v.Spec.CSI.VolumeHandle, v.Status.Phase = "b", corev1.VolumeBound
		}), true},
		"on another node": {volume(handle, nil), volume("b", func(v *corev1.PersistentVolume) {
			v.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0].Values[0] = "win-2"
			v.Status.Phase = corev1.VolumeBound
		}), true},
		"another is available": {volume(handle, nil), volume("b", func(v *corev1.PersistentVolume) {
			v.Status.Phase = corev1.VolumeAvailable
		}), false},
		"another is new": {volume(handle, nil), volume("b", func(v *corev1.PersistentVolume) {
			v.Status.Phase = ""
		}), false},
		"another is retained": {volume(handle, nil), volume("b", func(v *corev1.PersistentVolume) {
			v.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
		}), false},
		"another of any node": {volume(handle, nil), volume("b", func(v *corev1.PersistentVolume) {
			v.Spec.NodeAffinity, v.Status.Phase = nil, corev1.VolumeBound
		}), false},
		"of any node": {volume(handle, func(v *corev1.PersistentVolume) { v.Spec.NodeAffinity = nil }), nil, false},
		"of another cluster": {volume(handle, func(v *corev1.PersistentVolume) {
			v.Spec.CSI.VolumeAttributes[storage.ClusterKey] = "other-uid"
		}), nil, false},
		"of a node that left": {volume(handle, func(v *corev1.PersistentVolume) {
			v.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0].Values[0] = "gone"
		}), nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			objects := []runtime.Object{tt.deleted, node(nil, map[string]string{storage.TopologyKey: "win-1"})}
			if tt.other != nil {
				objects = append(objects, tt.other)
			}
			client := run(t, objects...)
			testenv.Eventually(t, "the end of the PersistentVolume", func() error {
				_, err := client.CoreV1().PersistentVolumes().Get(t.Context(), tt.deleted.Name, metav1.GetOptions{})
				if apierrors.IsNotFound(err) {
					return nil
				}
				return fmt.Errorf("it is still there: %w", err)
			})
			n, err := client.CoreV1().Nodes().Get(t.Context(), "win-1", metav1.GetOptions{})
			if _, marked := n.Annotations[key]; err != nil || marked != tt.marked {
				t.Errorf("annotations %v, %v; want a mark: %v", n.Annotations, err, tt.marked)
			}
		})
	}
}

// TestUnmark: a PersistentVolume that comes back, under whatever name, takes the mark from its data, and from no other.
func TestUnmark(t *testing.T) {
	back, stays := storage.DeletedAnnotation("pvc-1"), storage.DeletedAnnotation("pvc-2")
	client := run(t, node(map[string]string{back: "2026-11-22T12:00:00Z", stays: "2026-11-22T12:00:00Z"}, nil))
	o := controller.ProvisionOptions{StorageClass: describeClass(), PVName: "pvc-1", PVC: claim()}
	v := describe(o, "cluster-uid", "win-1")
	v.Name = "restored"
	if _, err := client.CoreV1().PersistentVolumes().Create(t.Context(), v, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, "the mark to go", func() error {
		n, err := client.CoreV1().Nodes().Get(t.Context(), "win-1", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if got := marks(n); !slices.Equal(got, []string{stays}) {
			return fmt.Errorf("marks %q", got)
		}
		return nil
	})
}

// TestLost: a claim is told when the node with its data leaves, and other claims are not.
func TestLost(t *testing.T) {
	volume := func(name, node, driver string) *corev1.PersistentVolume {
		o := controller.ProvisionOptions{StorageClass: describeClass(), PVName: name, PVC: claim()}
		v := describe(o, "cluster-uid", node)
		v.Spec.CSI.Driver = driver
		v.Spec.ClaimRef = &corev1.ObjectReference{Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: "ns",
			Name: "claim-of-" + name, UID: "1"}
		v.Status.Phase = corev1.VolumeBound
		return v
	}
	released := volume("released", "gone", storage.Driver)
	released.Status.Phase = corev1.VolumeReleased
	client := run(t, node(nil, map[string]string{storage.TopologyKey: "win-1"}), released,
		volume("stays", "win-1", storage.Driver), volume("lost-before", "gone", storage.Driver),
		volume("other", "gone", "example.test"))
	told := func(want ...string) {
		t.Helper()
		testenv.Eventually(t, "the events", func() error {
			list, err := client.CoreV1().Events("ns").List(t.Context(), metav1.ListOptions{})
			if err != nil {
				return err
			}
			var got []string
			for _, e := range list.Items {
				if e.Reason == reasonLost {
					got = append(got, e.InvolvedObject.Name)
				}
			}
			slices.Sort(got)
			if !slices.Equal(slices.Compact(got), want) {
				return fmt.Errorf("told %q, want %q", got, want)
			}
			return nil
		})
	}
	told("claim-of-lost-before")
	if err := client.CoreV1().Nodes().Delete(t.Context(), "win-1", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	told("claim-of-lost-before", "claim-of-stays")
}
