// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package native

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/mullion-k8s/mullion/internal/hns"
	"github.com/mullion-k8s/mullion/internal/hns/hnstest"
	"github.com/mullion-k8s/mullion/internal/hns/schema"
	"github.com/mullion-k8s/mullion/internal/winsys/hresult"
)

// On Linux, TestDLLs of package hnstest runs this under Wine, with the address
// of an emulator in MULLION_HNS_ADDRESS. On a real Windows it needs HNS (the
// Containers feature) and the right to change it.

// windowsService makes the suite leave out what differs from Windows.
type windowsService struct{ *Service }

func (windowsService) Real() bool { return os.Getenv("MULLION_HNS_ADDRESS") == "" }

func TestConformance(t *testing.T) {
	hnstest.Run(t, func(*testing.T) hnstest.Service { return windowsService{New()} })
}

// TestG1SuccessHasNoErrorRecord: the Go clients take any text for a failure.
func TestG1SuccessHasNoErrorRecord(t *testing.T) {
	s := New()
	for _, kind := range hnstest.Kinds() {
		r, err := s.invoke(s.network, "HcnEnumerate"+suffix(kind)+"s", textArg(""), outString, outRecord)
		if err != nil || r.code != hresult.OK || r.record != "" {
			t.Errorf("enumerate %s: %+v, %v", kind, r, err)
		}
	}
}

// TestG2OutPointers: every call writes every out pointer, on failure too. The
// Go clients free what they find there. invoke fills them with garbage first.
func TestG2OutPointers(t *testing.T) {
	s := New()
	unknown := guidArg(schema.NewGUID())
	for _, kind := range hnstest.Kinds() {
		for name, args := range map[string][]arg{
			"HcnEnumerate" + suffix(kind) + "s":      {textArg("{bad"), outString, outRecord},
			"HcnOpen" + suffix(kind):                 {unknown, outHandle, outRecord},
			"HcnQuery" + suffix(kind) + "Properties": {handleArg(0), textArg(""), outString, outRecord},
			"HcnModify" + suffix(kind):               {handleArg(0), textArg(""), outRecord},
			"HcnCreate" + suffix(kind):               {guidArg(schema.GUID{}), textArg("{bad"), outHandle, outRecord},
		} {
			if name == "HcnCreateEndpoint" {
				args = append([]arg{handleArg(0)}, args...)
			}
			r, err := s.invoke(s.network, name, args...)
			if err != nil || !r.code.Failed() || r.handle != 0 || r.text != "" {
				t.Errorf("%s: %+v, %v, want a failure and nothing else", name, r, err)
			}
		}
	}
}

// TestG2MissingOutPointers: the error record is optional in Microsoft's
// reference.
func TestG2MissingOutPointers(t *testing.T) {
	s := New()
	none := handleArg(0)
	for _, kind := range hnstest.Kinds() {
		if r, err := s.invoke(s.network, "HcnEnumerate"+suffix(kind)+"s", textArg(""), outString, none); err != nil ||
			r.code != hresult.OK {
			t.Errorf("enumerate %s without an error record: %+v, %v", kind, r, err)
		}
		if r, err := s.invoke(s.network, "HcnEnumerate"+suffix(kind)+"s", textArg(""), none, outRecord); err != nil ||
			!r.code.Failed() {
			t.Errorf("enumerate %s without a string: %+v, %v", kind, r, err)
		}
		if r, err := s.invoke(s.network, "HcnOpen"+suffix(kind), guidArg(schema.NewGUID()), outHandle,
			none); err != nil || !r.code.Failed() {
			t.Errorf("open %s without an error record: %+v, %v", kind, r, err)
		}
		if r, err := s.invoke(s.network, "HcnClose"+suffix(kind), none); err != nil || r.code != hresult.OK {
			t.Errorf("close no %s: %+v, %v", kind, r, err)
		}
	}
}

// TestG15BackendDown runs with an address without a listener: every function
// returns RPC_S_SERVER_UNAVAILABLE.
func TestG15BackendDown(t *testing.T) {
	if os.Getenv("MULLION_TEST_BACKEND") != "down" {
		t.Skip("needs MULLION_TEST_BACKEND=down and a free port in MULLION_HNS_ADDRESS")
	}
	s, ctx := New(), context.Background()
	check := func(what string, err error) {
		t.Helper()
		if hresult.Of(err) != hresult.ServerUnavailable {
			t.Errorf("%s: %v, want 0x800706ba", what, err)
		}
	}
	for _, kind := range hnstest.Kinds() {
		_, err := s.Enumerate(ctx, kind, "")
		check("enumerate", err)
		check("open", s.Open(ctx, kind, schema.NewGUID()))
		check("delete", s.Delete(ctx, kind, schema.NewGUID()))
		_, err = s.Create(ctx, kind, schema.NewGUID(), schema.GUID{}, "{}")
		check("create", err)
	}
	_, err := s.Call(ctx, "GET", "/globals/version", "")
	check("HNSCall", err)
}

// TestG15Restart: connections that a restart of the server has broken are not
// used again, not even for calls that must not be repeated.
func TestG15Restart(t *testing.T) {
	if os.Getenv("MULLION_TEST_BACKEND") != "restart" {
		t.Skip("needs MULLION_TEST_BACKEND=restart and a server that restarts when told to")
	}
	s, ctx := New(), context.Background()
	for range 3 {
		id, err := s.Create(ctx, hns.Namespace, schema.GUID{}, schema.GUID{}, "{}")
		if err != nil {
			t.Fatal(err)
		}
		fmt.Println("restart")
		if _, err := fmt.Scanln(); err != nil && err.Error() != "unexpected newline" {
			t.Fatal(err)
		}
		if err := s.Delete(ctx, hns.Namespace, id); err != nil {
			t.Errorf("after the restart: %v", err)
		}
	}
}

// TestHostileAnswers calls a server whose answers are damaged: each call succeeds or
// fails, and the process lives on.
func TestHostileAnswers(t *testing.T) {
	if os.Getenv("MULLION_TEST_BACKEND") != "hostile" {
		t.Skip("needs MULLION_TEST_BACKEND=hostile and a server that damages its answers")
	}
	s, ctx := New(), context.Background()
	failed := 0
	check := func(err error) {
		if err != nil {
			failed++
		}
	}
	const rounds = 1000
	for range rounds {
		id, err := s.Create(ctx, hns.Namespace, schema.GUID{}, schema.GUID{}, "{}")
		check(err)
		_, err = s.Enumerate(ctx, hns.Namespace, "")
		check(err)
		_, err = s.Query(ctx, hns.Namespace, id, "")
		check(err)
		_, err = s.Call(ctx, "GET", "/globals/version", "")
		check(err)
	}
	if failed == 0 || failed == 4*rounds {
		t.Errorf("%d of %d calls failed: the server does not damage some", failed, 4*rounds)
	}
}

func BenchmarkEnumerate(b *testing.B) {
	s, ctx := New(), context.Background()
	for b.Loop() {
		if _, err := s.Enumerate(ctx, hns.LoadBalancer, ""); err != nil {
			b.Fatal(err)
		}
	}
}

// TestHcsStubs: CNI plugins of API version 1 look for the container here.
func TestHcsStubs(t *testing.T) {
	if os.Getenv("MULLION_HNS_ADDRESS") == "" {
		t.Skip("on Windows there may be compute systems")
	}
	s := New()
	r, err := s.invoke(s.call, "HcsOpenComputeSystem", textArg("x"), outHandle, outRecord)
	if err != nil || r.code != hresult.ComputeSystemDoesNotExist || r.handle != 0 {
		t.Errorf("HcsOpenComputeSystem: %+v, %v", r, err)
	}
	r, err = s.invoke(s.call, "HcsEnumerateComputeSystems", textArg(""), outString, outRecord)
	if err != nil || r.code != hresult.OK || r.text != "[]" {
		t.Errorf("HcsEnumerateComputeSystems: %+v, %v", r, err)
	}
}
