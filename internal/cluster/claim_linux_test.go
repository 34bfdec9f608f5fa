// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package cluster

import (
	"crypto/rand"
	"errors"
	"os"
	"strings"
	"testing"
)

func TestClaim(t *testing.T) {
	unique := "@mullion/test/" + strings.ToLower(rand.Text())
	a, b := claim{unique + "/a", "take a"}, claim{unique + "/b", "take b"}
	if taken, _ := a.taken(); taken {
		t.Fatal("no process holds the name")
	}
	release, err := takeAll(a)
	if err != nil {
		t.Fatal(err)
	}
	for range 300 { // more than wait in a listener's queue
		if taken, pid := a.taken(); !taken || pid != os.Getpid() {
			t.Fatalf("taken %t by %d, want this process", taken, pid)
		}
	}
	// The second is in use: the first is not kept.
	var inUse *InUseError
	if _, err := takeAll(b, a); !errors.As(err, &inUse) || inUse.PID != os.Getpid() || inUse.What != "take a" {
		t.Errorf("took it twice: %v", err)
	}
	if taken, _ := b.taken(); taken {
		t.Error("kept what it could not use")
	}
	release()
	if release, err = takeAll(b, a); err != nil {
		t.Errorf("after release: %v", err)
	} else {
		release()
	}
}
