// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package storage_test

import (
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/mullion-k8s/mullion/internal/agent/storage"
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
	got, bytes, err := storage.CheckContext(map[string]string{storage.ClusterKey: uid})
	if err != nil || got != uid || bytes != 0 {
		t.Errorf("%q, %d, %v", got, bytes, err)
	}
	got, bytes, err = storage.CheckContext(map[string]string{storage.ClusterKey: uid, storage.BytesKey: "1073741824"})
	if err != nil || got != uid || bytes != 1<<30 {
		t.Errorf("%q, %d, %v", got, bytes, err)
	}
	for name, c := range map[string]map[string]string{
		"none":       nil,
		"another":    {storage.ClusterKey: uid, "path": `C:\Windows`},
		"not a UID":  {storage.ClusterKey: `..\..`},
		"empty":      {storage.ClusterKey: ""},
		"upper case": {storage.ClusterKey: strings.ToUpper(uid)},
		"long":       {strings.Repeat("k", 1<<20): "x"},
		"no size":    {storage.ClusterKey: uid, storage.BytesKey: ""},
		"zero":       {storage.ClusterKey: uid, storage.BytesKey: "0"},
		"negative":   {storage.ClusterKey: uid, storage.BytesKey: "-1"},
		"too large":  {storage.ClusterKey: uid, storage.BytesKey: "1125899906842625"},
		"quantity":   {storage.ClusterKey: uid, storage.BytesKey: "1Gi"},
		"only size":  {storage.BytesKey: "1"},
	} {
		if got, _, err := storage.CheckContext(c); err == nil || len(err.Error()) > 300 {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

func TestRoom(t *testing.T) {
	for _, tt := range []struct{ total, free, want int64 }{{100, 100, 80}, {100, 20, 0}, {100, 5, 0}, {100, 50, 30}} {
		if got := storage.Room(tt.total, tt.free); got != tt.want {
			t.Errorf("%d of %d free: %d, want %d", tt.free, tt.total, got, tt.want)
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
		if got, _, err := storage.CheckContext(map[string]string{storage.ClusterKey: cluster}); err == nil &&
			(got != cluster || len(got) != 36) {
			t.Errorf("cluster %q", cluster)
		}
		if n, err := storage.ParseBytes(id); err == nil && (n <= 0 || n > 1<<50) {
			t.Errorf("size %q: %d", id, n)
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
	const mine, other, day, month = "mine", "other", 24 * time.Hour, 30 * 24 * time.Hour
	for name, tt := range map[string]struct {
		look storage.Look
		want storage.Action
	}{
		"not deleted":          {storage.Look{Cluster: mine}, storage.Keep},
		"not used for a month": {storage.Look{Cluster: mine, Used: ago(month)}, storage.Keep},
		"deleted":              {storage.Look{Cluster: mine, Deleted: ago(0)}, storage.Trash},
		"deleted, a pod has it": {storage.Look{Cluster: mine, Deleted: ago(time.Hour), Published: true},
			storage.Keep},
		"used, then deleted":     {storage.Look{Cluster: mine, Used: ago(2), Deleted: ago(1)}, storage.Trash},
		"deleted, then used":     {storage.Look{Cluster: mine, Deleted: ago(2), Used: ago(1)}, storage.Keep},
		"deleted a month ago":    {storage.Look{Cluster: mine, Deleted: ago(month)}, storage.Trash},
		"deleted tomorrow":       {storage.Look{Cluster: mine, Deleted: ago(-24 * time.Hour)}, storage.Trash},
		"the cluster is unknown": {storage.Look{Deleted: ago(time.Hour)}, storage.Keep},
		"another cluster":        {storage.Look{Cluster: other, Deleted: ago(time.Hour)}, storage.Keep},
		"in the trash": {storage.Look{Cluster: mine, Deleted: ago(month), Trashed: ago(day - 1)},
			storage.Keep},
		"in the trash for a day": {storage.Look{Cluster: mine, Deleted: ago(month), Trashed: ago(day)}, storage.Empty},
		"in the trash tomorrow": {storage.Look{Cluster: mine, Deleted: ago(1), Trashed: ago(-time.Hour)},
			storage.Keep},
		"in the trash, wanted":    {storage.Look{Cluster: mine, Trashed: ago(time.Hour)}, storage.Restore},
		"wanted after a month":    {storage.Look{Cluster: mine, Trashed: ago(month)}, storage.Restore},
		"in the trash, no answer": {storage.Look{Deleted: ago(month), Trashed: ago(month)}, storage.Keep},
		"another cluster's trash": {storage.Look{Cluster: other, Deleted: ago(month), Trashed: ago(month)},
			storage.Keep},
	} {
		tt.look.Now, tt.look.Owner = now, mine
		if got := storage.Decide(tt.look); got != tt.want {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
	}
}

// TestDeletedAnnotation: whatever name a volume may have, its annotation is one that a Node can have, and its own.
func TestDeletedAnnotation(t *testing.T) {
	valid := regexp.MustCompile(`^deleted\.local\.mullion\.dev/[a-z0-9]([-.a-z0-9]{0,61}[a-z0-9])?$`)
	seen := map[string]bool{}
	for _, handle := range []string{"a", "pvc-" + uid, "a.b", strings.Repeat("a", 63), strings.Repeat("a", 64),
		strings.Repeat("a", 128), strings.Repeat("a", 127) + "b"} {
		key := storage.DeletedAnnotation(handle)
		if !valid.MatchString(key) || seen[key] {
			t.Errorf("%s: %q", handle, key)
		}
		seen[key] = true
	}
}
