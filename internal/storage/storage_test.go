// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package storage_test

import (
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mullion-k8s/mullion/internal/storage"
)

const uid = "5f1e9f0a-7d5c-4b8e-9c1a-2b3c4d5e6f70"

func TestCheckID(t *testing.T) {
	for _, id := range []string{"pvc-" + uid, "data", "a.b", "0", "console", "com10", strings.Repeat("a", 128)} {
		if err := storage.CheckID(id); err != nil {
			t.Errorf("%q: %v", id, err)
		}
	}
	for _, id := range []string{"", ".", "..", "a/b", `a\b`, "../a", `..\a`, "c:", "C:", `c:\a`, "a:stream",
		`\\server\share`, "//server/share", `\\.\pipe\a`, `\\?\c:`, "con", "nul", "aux.txt", "com1", "lpt9.a",
		"A", "a ", "a.", " a", "a\x00", "a\nb",
		"-a", "a-", "a..b", "ä", "a*", "a?", "a|b", "$recycle", "~", strings.Repeat("a", 129),
		strings.Repeat("a", 261)} {
		if err := storage.CheckID(id); err == nil {
			t.Errorf("%q was accepted", id)
		}
	}
}

func TestCheckContext(t *testing.T) {
	got, err := storage.CheckContext(map[string]string{storage.ClusterKey: uid})
	if err != nil || got != uid {
		t.Errorf("%q, %v", got, err)
	}
	for name, c := range map[string]map[string]string{
		"none":       nil,
		"another":    {storage.ClusterKey: uid, "path": `C:\Windows`},
		"not a UID":  {storage.ClusterKey: `..\..`},
		"empty":      {storage.ClusterKey: ""},
		"upper case": {storage.ClusterKey: strings.ToUpper(uid)},
		"long":       {strings.Repeat("k", 1<<20): "x"},
	} {
		if got, err := storage.CheckContext(c); err == nil || len(err.Error()) > 300 {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

func TestCheckTarget(t *testing.T) {
	const windows, linux = `C:\var\lib\kubelet`, "/var/lib/kubelet"
	const volume = "/pods/" + uid + "/volumes/kubernetes.io~csi/pvc-1/mount"
	for _, tt := range []struct {
		dir, target string
		ok          bool
	}{
		{windows, windows + strings.ReplaceAll(volume, "/", `\`), true},
		{windows, `C:\var\lib\kubelet/pods/a`, true},
		{linux, linux + volume, true},
		{linux, "/tmp/a", false},
		{linux, linux, false},
		{linux, linux + "/", false},
		{linux, linux + "-other/a", false},
		{linux, linux + "/../a", false},
		{linux, linux + "/pods/../../../../etc", false},
		{linux, linux + "/a\x00b", false},
		{linux, "pods/a", false},
		{linux, "", false},
		{windows, windows + `\..\..\Windows`, false},
		{windows, `D:\var\lib\kubelet\a`, false},
		{windows, `\\server\share\a`, false},
		{windows, `\\?\C:\var\lib\kubelet\a`, false},
		{windows, windows + `\a:stream`, false},
		{windows, windows + `\a\NUL`, false},
		{windows, windows + `\a\Com1.txt\b`, false},
		{windows, windows + `\a.\b`, false},
		{windows, windows + `\\a`, false},
	} {
		if err := storage.CheckTarget(tt.dir, tt.target); (err == nil) != tt.ok {
			t.Errorf("%q below %q: %v", tt.target, tt.dir, err)
		}
	}
}

// FuzzCheck checks that whatever is accepted stays in its directory on both systems.
func FuzzCheck(f *testing.F) {
	f.Add("pvc-1", uid, "/var/lib/kubelet/pods/a/mount")
	f.Add("..", `C:\`, "/var/lib/kubelet/../a")
	f.Add("nul.a", "", `\\?\C:\`)
	f.Fuzz(func(t *testing.T, id, cluster, target string) {
		if storage.CheckID(id) == nil {
			if filepath.Dir(filepath.Join("/volumes", id)) != "/volumes" || strings.ContainsAny(id, `/\:*?"<>|`) ||
				strings.HasSuffix(id, ".") || len(id) > 128 {
				t.Errorf("name %q", id)
			}
		}
		if got, err := storage.CheckContext(map[string]string{storage.ClusterKey: cluster}); err == nil &&
			(got != cluster || len(got) != 36) {
			t.Errorf("cluster %q", cluster)
		}
		if storage.CheckTarget("/var/lib/kubelet", target) == nil {
			slashed := strings.ReplaceAll(target, `\`, "/")
			if path.Clean(slashed) != slashed || !strings.HasPrefix(slashed, "/var/lib/kubelet/") {
				t.Errorf("target %q", target)
			}
		}
	})
}

func TestDecide(t *testing.T) {
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	const mine, other = "mine", "other"
	for name, tt := range map[string]struct {
		look storage.Look
		want storage.Action
	}{
		"exists": {storage.Look{Cluster: mine, Exists: true}, storage.Keep},
		"exists again": {
			storage.Look{Cluster: mine, Exists: true, Missing: ago(time.Hour)},
			storage.Unmark,
		},
		"missing":                {storage.Look{Cluster: mine}, storage.Mark},
		"missing shortly":        {storage.Look{Cluster: mine, Missing: ago(time.Minute)}, storage.Keep},
		"missing twice":          {storage.Look{Cluster: mine, Missing: ago(5 * time.Minute)}, storage.Trash},
		"missing since tomorrow": {storage.Look{Cluster: mine, Missing: ago(-24 * time.Hour)}, storage.Mark},
		"missing, a pod has it":  {storage.Look{Cluster: mine, Published: true}, storage.Keep},
		"missing long, a pod again": {
			storage.Look{Cluster: mine, Published: true, Missing: ago(time.Hour)},
			storage.Unmark,
		},
		"in the trash":           {storage.Look{Cluster: mine, Trashed: ago(23 * time.Hour)}, storage.Keep},
		"in the trash for a day": {storage.Look{Cluster: mine, Trashed: ago(24 * time.Hour)}, storage.Empty},
		"in the trash tomorrow":  {storage.Look{Cluster: mine, Trashed: ago(-time.Hour)}, storage.Keep},
		"restored from yesterday": {
			storage.Look{Cluster: mine, Exists: true, Trashed: ago(time.Hour)},
			storage.Restore,
		},
		"restored late": {
			storage.Look{Cluster: mine, Exists: true, Trashed: ago(48 * time.Hour)},
			storage.Restore,
		},
		"no answer": {
			storage.Look{Cluster: mine, Unknown: true, Missing: ago(time.Hour)},
			storage.Keep,
		},
		"no answer, in the trash": {
			storage.Look{Cluster: mine, Unknown: true, Trashed: ago(48 * time.Hour)},
			storage.Keep,
		},
		"cluster not known":       {storage.Look{Missing: ago(time.Hour)}, storage.Keep},
		"another cluster":         {storage.Look{Cluster: other, Missing: ago(time.Hour)}, storage.Keep},
		"another cluster's trash": {storage.Look{Cluster: other, Trashed: ago(48 * time.Hour)}, storage.Keep},
	} {
		tt.look.Now, tt.look.Owner = now, mine
		if got := storage.Decide(tt.look); got != tt.want {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
	}
}
