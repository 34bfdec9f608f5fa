// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package winver_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mullion-k8s/mullion/internal/winsys/winver"
)

func TestParse(t *testing.T) {
	for _, tt := range []struct {
		in     string
		number int
	}{
		{"2016", 14393}, {"ltsc2016", 14393}, {"sac2016", 14393}, {"1607", 14393},
		{"1709", 16299}, {"1803", 17134}, {"10.0.17134", 17134},
		{"2019", 17763}, {"ltsc2019", 17763}, {"1809", 17763}, {"17763", 17763}, {"10.0.17763", 17763},
		{"10.0.17763.1", 17763}, {"Windows Server 2019 Datacenter", 17763}, {" LTSC2019 ", 17763},
		{"windows2019", 17763}, {"1903", 18362}, {"1909", 18363}, {"2004", 19041}, {"20H2", 19042}, {"20h2", 19042},
		{"2022", 20348}, {"21H2", 20348}, {"ltsc2022", 20348}, {"23H2", 25398}, {"2025", 26100}, {"24h2", 26100},
		{"ltsc2025", 26100},
	} {
		b, err := winver.Parse(tt.in)
		if err != nil || b.Number != tt.number {
			t.Errorf("Parse(%q) = %d, %v; want %d", tt.in, b.Number, err, tt.number)
		}
	}
	for _, in := range []string{"", "latest", "2012", "10.0", "10.0.1", "6.3.17763", "10.0.17763.1.2", "-17763",
		"10.0.17763.99999999999", "Windows Server Datacenter"} {
		if b, err := winver.Parse(in); err == nil {
			t.Errorf("Parse(%q) = %v, want an error", in, b)
		}
	}
	if _, err := winver.Parse("2012"); err == nil || !strings.Contains(err.Error(), "2016, 1709, 1803, 2019") {
		t.Errorf("error does not list the known releases: %v", err)
	}
	if b, err := winver.Parse("10.0.17763.42"); err != nil || b.OSVersion() != "10.0.17763.42" {
		t.Errorf("revision is lost: %v, %v", b.OSVersion(), err)
	}
}

func TestTable(t *testing.T) {
	seen := map[string]int{}
	last := 0
	for _, b := range winver.All() {
		if b.Number <= last {
			t.Errorf("%d is out of order", b.Number)
		}
		last = b.Number
		for _, n := range append(append([]string{b.Product, b.Version}, b.Tags...), b.Aliases...) {
			key := strings.ToLower(n)
			if other, ok := seen[key]; ok && other != b.Number {
				t.Errorf("%q names %d and %d", n, other, b.Number)
			}
			seen[key] = b.Number
		}
		for _, d := range []winver.Date{b.Available, b.MainstreamEnd, b.ExtendedEnd} {
			if _, err := time.Parse(time.DateOnly, string(d)); d != "" && err != nil {
				t.Errorf("%d: bad date: %v", b.Number, err)
			}
		}
		if b.UBR == 0 || b.ProductName == "" || b.Branch == "" || b.EndOfLife() <= b.Available {
			t.Errorf("%d is incomplete: %+v", b.Number, b)
		}
		if (len(b.Tags) == 0) != b.HostOnly {
			t.Errorf("%d: tags %v, host only %v", b.Number, b.Tags, b.HostOnly)
		}
		if back, err := winver.Parse(b.OSVersion()); err != nil || back.Number != b.Number {
			t.Errorf("Parse(%q) = %v, %v", b.OSVersion(), back, err)
		}
	}
}

// TestCompatible is the matrix of the runtimes' rule, host by host.
func TestCompatible(t *testing.T) {
	runs := map[int][]int{
		14393: {14393}, 16299: {16299}, 17134: {17134}, 17763: {17763}, 18362: {18362}, 18363: {18363},
		19041: {19041}, 19042: {19042},
		20348: {20348},
		25398: {20348, 25398},
		26100: {20348, 25398, 26100},
		26500: {26100}, // a host after the current LTSC
	}
	for host, want := range runs {
		var got []int
		for _, image := range winver.All() {
			if winver.Compatible(winver.Build{Number: host}, image) {
				got = append(got, image.Number)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("host %d runs %v, want %v", host, got, want)
		}
	}
}

func TestCompatibleOSVersion(t *testing.T) {
	host, _ := winver.Find(17763)
	for _, tt := range []struct {
		osVersion string
		want      bool
	}{
		{"", true}, {"10.0.17763.1", true}, {"10.0.17763", true}, {"10.0.17763.99999", true},
		{"10.0.20348.1", false}, {"6.3.17763.1", false}, {"10.1.17763.1", false}, {"nonsense", false},
		{"10.0.177", false}, {"10.0.177630.1", false},
	} {
		if got := winver.CompatibleOSVersion(host, tt.osVersion); got != tt.want {
			t.Errorf("CompatibleOSVersion(17763, %q) = %v", tt.osVersion, got)
		}
	}
}

func TestFromTag(t *testing.T) {
	for _, tt := range []struct {
		ref    string
		number int
	}{
		{"mcr.microsoft.com/windows/servercore/iis:windowsservercore-ltsc2019", 17763},
		{"mcr.microsoft.com/dotnet/framework/aspnet:4.8-windowsservercore-ltsc2022", 20348},
		{"mcr.microsoft.com/powershell:lts-nanoserver-ltsc2022", 20348},
		{"mcr.microsoft.com/windows/servercore:ltsc2022-amd64", 20348},
		{"mcr.microsoft.com/windows/servercore:10.0.20348.2402", 20348},
		{"mcr.microsoft.com/windows/servercore:1809-KB4493509", 17763},
		{"microsoft/iis:windowsservercore-1709", 16299},
		{"microsoft/nanoserver:sac2016", 14393},
		{"localhost:5000/app:v1-nanoserver-20H2", 19042},
		{"app:windowsservercore1803", 17134},
		{"localhost:1809/app", 0}, {"app:v1.2004.3", 0}, {"app:11909", 0}, {"app:2019", 0}, {"app", 0},
		{"app@sha256:1809", 0}, {"redis:3.0-nanoserver", 0},
	} {
		b, ok := winver.FromTag(tt.ref)
		if ok != (tt.number != 0) || b.Number != tt.number {
			t.Errorf("FromTag(%q) = %d, %v; want %d", tt.ref, b.Number, ok, tt.number)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, b := range winver.All() {
		f.Add(b.OSVersion())
		f.Add(b.Product)
	}
	f.Fuzz(func(t *testing.T, s string) {
		b, err := winver.Parse(s)
		if err != nil {
			return
		}
		back, err := winver.Parse(b.OSVersion())
		if err != nil || back.OSVersion() != b.OSVersion() {
			t.Errorf("Parse(%q) = %v; does not parse back: %v, %v", s, b, back, err)
		}
	})
}

func ExampleCompatible() {
	host, _ := winver.Parse("2025")
	for _, tag := range []string{"ltsc2019", "ltsc2022", "ltsc2025"} {
		image, _ := winver.Parse(tag)
		fmt.Println(tag, winver.Compatible(host, image))
	}
	// Output:
	// ltsc2019 false
	// ltsc2022 true
	// ltsc2025 true
}
