// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package cluster

import (
	"slices"
	"testing"
)

// TestHosts adds and removes hosts: those that stay keep names and addresses.
func TestHosts(t *testing.T) {
	c := Config{APIVersion: apiVersion, Name: "x", Windows: []string{"2019", "2022", "2025"}, Linux: 2}
	check := func(what string, windows, linux []string) {
		t.Helper()
		if !slices.Equal(c.WindowsHosts(), windows) || !slices.Equal(c.LinuxHosts(), linux) {
			t.Fatalf("%s: %v and %v, want %v and %v", what, c.WindowsHosts(), c.LinuxHosts(), windows, linux)
		}
		p, err := Describe(Layout{"/data", "x"}, c, "/bin")
		if err != nil || c.validate() != nil {
			t.Fatalf("%s: %v, %v", what, err, c.validate())
		}
		addresses := map[string]string{"win-1": "10.89.0.10/24", "win-3": "10.89.0.12/24", "linux-2": "10.89.0.111/24"}
		for _, n := range p.Nodes {
			if want := addresses[n.Name]; want != "" && n.Address.String() != want {
				t.Errorf("%s: %s has %s, want %s", what, n.Name, n.Address, want)
			}
		}
	}
	c.remove("win-2")
	c.remove("linux-1")
	check("two removed", []string{"win-1", "win-3"}, []string{"linux-2"})
	before := c
	if got := c.addWindows("2019", func(name string) bool { return name == "win-2" }); got != "win-4" {
		t.Errorf("beside the data of win-2: %s", got)
	}
	check("one added", []string{"win-1", "win-3", "win-4"}, []string{"linux-2"})
	if got := c.addWindows("2025", nil); got != "win-2" || c.build("win-2") != "2025" {
		t.Errorf("where win-2 was: %s with build %s", got, c.build("win-2"))
	}
	if got := c.addLinux(nil); got != "linux-1" {
		t.Errorf("where linux-1 was: %s", got)
	}
	check("all back", []string{"win-1", "win-2", "win-3", "win-4"}, []string{"linux-1", "linux-2"})
	c = before
	check("changes of a copy", []string{"win-1", "win-3"}, []string{"linux-2"})
	for _, bad := range [][]string{{"win-4"}, {"server"}, {"win-1", "win-1"}} {
		if err := (Config{APIVersion: apiVersion, Name: "x", Windows: c.Windows, Removed: bad}).validate(); err == nil {
			t.Errorf("removed %v is accepted", bad)
		}
	}
	// Builds are asked for in the order of the hosts that are there.
	got, err := before.merge(Choice{Windows: Builds{"2019", "2025", "2016"}}, true)
	three := []string{"win-1", "win-2", "win-3"}
	if err != nil || !slices.Equal(got.WindowsHosts(), three) || got.build("win-2") != "2016" {
		t.Errorf("up on a cluster with a gap: %v, %v", got, err)
	}
}
