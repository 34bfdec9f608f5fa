// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package rule

import (
	"strings"
	"testing"

	"github.com/mullion-k8s/mullion/internal/policy"
	"github.com/mullion-k8s/mullion/internal/policy/policytest"
)

// TestTagsThatExist: tags that Microsoft has published are not reported. They are from
// the documents and the Dockerfiles of the repositories, and from what others pull.
func TestTagsThatExist(t *testing.T) {
	for repository, tags := range map[string]string{
		"windows/servercore": "ltsc2016 ltsc2016-amd64 ltsc2019 ltsc2022 ltsc2022-amd64 " +
			"ltsc2025 ltsc2025-amd64 1607 1803 1809 " +
			"1809-amd64 1809-KB5034768 1809-KB5034768-amd64 1709_KB4074588 1909 2004 2009 20H2 " +
			"ltsc2022-KB5034770 10.0.17763.8389 10.0.20348.5499 10.0.26100.33296 10.0.20348.2322-amd64 " +
			"win10-21h1-preview",
		"windows/nanoserver": "sac2016 1709_KB4043961 1803 1809 1809-amd64 1809-KB4493509 " +
			"1903 2004 2009 ltsc2019 ltsc2022 " +
			"ltsc2022-amd64 ltsc2025 ltsc2025-amd64 10.0.17763.437",
		"windows/server":         "ltsc2022 ltsc2022-amd64 ltsc2025 ltsc2022-KB5034770 10.0.20348.2322",
		"windows":                "1809 ltsc2019 1909 2004 20H2 1809-KB5034768-amd64 10.0.17763.5458",
		"windows/server/insider": "10.0.20344.1",
		"windows/servercore/iis": "latest windowsservercore-ltsc2016 " +
			"windowsservercore-ltsc2019 windowsservercore-ltsc2022 " +
			"windowsservercore-ltsc2025 windowsservercore-20H2 windowsservercore-2009 " +
			"20191112-windowsservercore-ltsc2019 20211214-windowsservercore-20H2",
		"dotnet/framework/aspnet": "latest 4.8 4.8.1 3.5 " +
			"4.7.2 4.8-windowsservercore-ltsc2019 4.8-windowsservercore-ltsc2022 " +
			"4.8.1-windowsservercore-ltsc2025 4.8.1-20251014-windowsservercore-ltsc2022 " +
			"3.5-windowsservercore-ltsc2025 4.7.2-20190312-windowsservercore-1803 " +
			"4.7.1-windowsservercore-ltsc2016 4.8-windowsservercore-2009",
		"dotnet/aspnet": "latest 8.0 9.0.5 10.0-preview 8.0-alpine3.20 8.0-noble-chiseled 8.0-nanoserver-1809 " +
			"8.0.11-nanoserver-ltsc2022 9.0-nanoserver-ltsc2025 10.0-windowsservercore-ltsc2025 " +
			"8.0-windowsservercore-ltsc2019 9.0.0-rc.1-nanoserver-ltsc2022-amd64 " +
			"8.0-windowsservercore-ltsc2022-amd64",
		"dotnet/core/sdk": "2.1-nanoserver-sac2016 3.1-nanoserver-1809-arm32v7 3.0-nanoserver-1903",
		"dotnet/samples":  "dotnetapp-nanoserver-ltsc2022",
	} {
		for tag := range strings.FieldsSeq(tags) {
			if f := tagFinding(t, "mcr.microsoft.com/"+repository+":"+tag); f != nil {
				t.Errorf("%s", f.Message)
			}
		}
	}
}

// TestSuggestedTags: what is suggested for tags that do not exist.
func TestSuggestedTags(t *testing.T) {
	const iis = "mcr.microsoft.com/windows/servercore/iis:windowsservercore-ltsc2022"
	for image, want := range map[string]string{
		"windows/servercore:2022":                                  "use ltsc2022",
		"windows/servercore:ltsc2023":                              "use ltsc2022 or ltsc2025 or ltsc2019",
		"windows/servercore:windowsservercore-ltsc2019":            "use ltsc2019",
		"windows/servercore:10.0.20348":                            "use ltsc2022 or ltsc2025 or ltsc2019",
		"windows/nanoserver:2019":                                  "use ltsc2019",
		"windows/server:ltsc2019":                                  "use ltsc2022 or ltsc2025",
		"windows:ltsc2022":                                         "use mcr.microsoft.com/windows/server:ltsc2022",
		"windows/servercore/iis:ltsc2022":                          "use windowsservercore-ltsc2022",
		"windows/servercore/iis:windowsservercore-2019":            "use windowsservercore-ltsc2019",
		"windows/iis:ltsc2022":                                     "use " + iis,
		"windows/server-core:ltsc2022":                             "use mcr.microsoft.com/windows/servercore:ltsc2022",
		"windowsservercore":                                        "use mcr.microsoft.com/windows/servercore:ltsc2022",
		"windows/nano-server:1809":                                 "use mcr.microsoft.com/windows/nanoserver:ltsc2022",
		"dotnet/framework/aspnet:4.8-ltsc2022":                     "use 4.8-windowsservercore-ltsc2022",
		"dotnet/framework/aspnet:4.8-windowsservercore-ltsc2025":   "use 4.8.1-windowsservercore-ltsc2025",
		"dotnet/framework/aspnet:4.8.1-windowsservercore-ltsc2019": "use 4.8-windowsservercore-ltsc2019",
		"dotnet/aspnet:8.0-nanoserver-ltsc2019":                    "use 8.0-nanoserver-1809",
		"dotnet/sdk:9.0-ltsc2025":                                  "use 9.0-windowsservercore-ltsc2025",
	} {
		f := tagFinding(t, "mcr.microsoft.com/"+image)
		if f == nil {
			t.Errorf("%s is not reported", image)
		} else if f.Fix != want {
			t.Errorf("%s: %q, want %q", image, f.Fix, want)
		}
	}
}

func tagFinding(t *testing.T, image string) *policy.Finding {
	t.Helper()
	for _, f := range Check(policytest.Tweak(t, `c: {image: '`+image+`'}`), policy.Facts{}) {
		if f.Code == "WIN239" {
			return &f
		}
	}
	return nil
}
