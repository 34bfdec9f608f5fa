// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package emul

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/mullion-k8s/mullion/internal/hns"
	"github.com/mullion-k8s/mullion/internal/hns/hnstest"
	"github.com/mullion-k8s/mullion/internal/hns/schema"
)

// TestSweep: compartments that the store does not know are removed when the
// service opens: those of an earlier boot, and one whose record the journal lost.
// Those that the store knows stay, and so do those that cannot have been created
// through HNS.
func TestSweep(t *testing.T) {
	dir, plane := t.TempDir(), &hnstest.Plane{}
	open := func(boot string, log *bytes.Buffer) *Service {
		return openTest(t, dir, func(c *Config) {
			c.BootID, c.DataPlane, c.Log = boot, plane, slog.New(slog.NewTextHandler(log, nil))
		})
	}
	namespaces := func() string {
		ids, err := plane.Namespaces(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(ids, " ")
	}
	closeIt := func(s *Service) {
		t.Helper()
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	var log bytes.Buffer
	s := open("one", &log)
	kept := create(t, s, hns.Namespace, schema.GUID{}, `{}`).String()
	closeIt(s)

	orphan := schema.NewGUID().String()
	for _, id := range []string{orphan, "by-hand"} {
		if err := plane.CreateNamespace(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	closeIt(open("one", &log))
	if got := namespaces(); strings.Contains(got, orphan) || !strings.Contains(got, kept) ||
		!strings.Contains(got, "by-hand") {
		t.Errorf("after a restart there are %s; want %s and by-hand", got, kept)
	}
	if !strings.Contains(log.String(), orphan) || strings.Contains(log.String(), kept) {
		t.Errorf("log:\n%s", &log)
	}

	// A failure is logged and does not stop the service.
	broken := errors.New("busy")
	for _, call := range []string{"list namespaces", "delete namespace"} {
		log.Reset()
		plane.Fail = func(c string) error {
			if c == call {
				return broken
			}
			return nil
		}
		closeIt(open("two", &log))
		plane.Fail = nil
		if got := namespaces(); !strings.Contains(got, kept) || !strings.Contains(log.String(), broken.Error()) {
			t.Errorf("%s failed: there are %s; log:\n%s", call, got, &log)
		}
	}
	closeIt(open("two", &log))
	if got := namespaces(); got != "by-hand" {
		t.Errorf("after a reboot there are %s", got)
	}
}
