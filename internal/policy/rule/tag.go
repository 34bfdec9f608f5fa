// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package rule

import (
	"regexp"
	"strings"
	"sync"

	"github.com/mullion-k8s/mullion/internal/policy"
)

func tagRules() []Rule {
	return []Rule{{
		Code:     "WIN239",
		Title:    "an unknown tag of Microsoft's repository",
		Severity: policy.Warning,
		Field:    "containers[*].image",
		Why: "The node cannot pull an image that does not exist: ErrImagePull, \"not found\". A year alone is not a " +
			"tag, and not each image exists for each release of Windows. Microsoft may publish newer tags.",
		Fix: "use a tag that exists, for example ltsc2022",
		Sources: []string{srcLife, "https://github.com/microsoft/iis-docker",
			"https://github.com/microsoft/dotnet-framework-docker", "https://github.com/dotnet/dotnet-docker"},
		pod: checkKnownTags,
	}}
}

// tagForm is the form of the tags in a repository of mcr.microsoft.com.
type tagForm struct {
	repository string         // without the registry
	judged     *regexp.Regexp // the tags that known is about; nil: all
	known      *regexp.Regexp
	example    string // "VERSION-FAMILY-RELEASE"
	versions   string // some that there are of these releases
	releases   string // LTSC releases that it is published for, the most usual first
}

// tagForms are the tags that the repositories have, or have had, by their own
// documents and the histories of their Dockerfiles. All is in lower case.
var tagForms = sync.OnceValue(func() []tagForm {
	const (
		semiAnnual = `1709|1803|1809|1903|1909|2004|2009|20h2|21h1`
		build      = `10\.0\.\d{5}\.\d+`
		update     = `([-_]kb\d+)?`
		arch       = `([-_](amd64|arm64|arm64v8|arm32|arm32v7))?`
		preview    = `win10-21h1-preview`
		all        = "ltsc2022 ltsc2025 ltsc2019"
	)
	whole := func(pattern string) *regexp.Regexp { return regexp.MustCompile(`^(?:` + pattern + `)$`) }
	base := func(repository, names, releases string) tagForm {
		known := whole(`((` + names + `|` + preview + `)` + update + `|` + build + `)` + arch)
		return tagForm{repository: repository, known: known, example: "RELEASE", releases: releases}
	}
	out := []tagForm{
		base("windows/servercore", `1607|ltsc2016|ltsc2019|ltsc2022|ltsc2025|`+semiAnnual, all),
		base("windows/nanoserver", `sac2016|ltsc2019|ltsc2022|ltsc2025|`+semiAnnual, all),
		base("windows/server", `ltsc2022|ltsc2025`, "ltsc2022 ltsc2025"),
		base("windows", `ltsc2019|`+semiAnnual, "ltsc2019"),
		{
			repository: "windows/servercore/iis",
			known: whole(`latest|windowsservercore|nanoserver(-sac2016)?|(20\d{6}-)?windowsservercore-` +
				`(ltsc2016|ltsc2019|ltsc2022|ltsc2025|` + semiAnnual + `|` + build + `)(-20\d{6})?` + arch),
			example:  "windowsservercore-RELEASE",
			releases: all,
		},
	}
	for _, name := range []string{"runtime", "sdk", "aspnet", "wcf"} {
		out = append(out, tagForm{
			repository: "dotnet/framework/" + name,
			known: whole(`latest|3\.5|4\.6\.2|4\.7(\.[12])?|4\.8(\.1)?|` +
				`(3\.5|4\.6\.2|4\.7(\.[12])?|4\.8)(-20\d{6})?-windowsservercore-(ltsc2016|` + semiAnnual +
				`|` + build + `)|` +
				`(3\.5|4\.7\.2|4\.8)(-20\d{6})?-windowsservercore-ltsc2019|` +
				`(3\.5|4\.8|4\.8\.1)(-20\d{6})?-windowsservercore-ltsc2022|` +
				`(3\.5|4\.8\.1)(-20\d{6})?-windowsservercore-ltsc2025`),
			example:  "VERSION-windowsservercore-RELEASE",
			versions: "4.8 4.8.1",
			releases: all,
		})
	}
	for _, name := range []string{"runtime", "sdk", "aspnet", "core/runtime", "core/sdk", "core/aspnet"} {
		out = append(out, tagForm{
			repository: "dotnet/" + name,
			judged:     regexp.MustCompile(`win|nano|servercore|ltsc`), // the others are of Linux, or of all systems
			known: whole(`(.*-)?(nanoserver-(sac2016|1709|1803|1809|1903|1909|2004|2009|20h2|ltsc2022|ltsc2025)|` +
				`windowsservercore-(ltsc2019|ltsc2022|ltsc2025))` + arch),
			example:  "VERSION-FAMILY-RELEASE",
			versions: "8.0",
			releases: all,
		})
	}
	return out
})

func checkKnownTags(p *policy.Pod, r reporter) {
	if !p.Windows() {
		return
	}
	for _, c := range p.Containers {
		facts := p.Facts()
		if len(facts.Images[c.Image].Platforms) > 0 || len(facts.PresentImages[c.Image]) > 0 {
			continue // it exists
		}
		checkKnownTag(c, r)
	}
}

func checkKnownTag(c policy.Container, r reporter) {
	path, ok := strings.CutPrefix(strings.ToLower(c.Image), "mcr.microsoft.com/")
	if !ok || strings.ContainsAny(path, "@${}<>") {
		return
	}
	repository, tag, _ := strings.Cut(path, ":")
	if to := mistakenRepository(repository); to != "" {
		r.at(c.Get("image"), "container %s: no repository mcr.microsoft.com/%s is known", c.Name, repository).
			Fix = "use mcr.microsoft.com/" + to
		return
	}
	for _, f := range tagForms() {
		if f.repository != repository || tag == "" || tag == "latest" || f.known.MatchString(tag) ||
			f.judged != nil && !f.judged.MatchString(tag) {
			continue
		}
		finding := r.at(c.Get("image"), "container %s: no tag %s of mcr.microsoft.com/%s is known", c.Name, tag,
			repository)
		finding.Fix = "use " + f.suggest(tag)
		if repository == "windows" && strings.Contains(tag, "202") { // its successor has another name
			finding.Fix = "use mcr.microsoft.com/windows/server:ltsc2022"
		}
	}
}

// suggest returns tags that exist: of the version, the image and the year that an
// unknown tag names, as far as there are such.
func (f *tagForm) suggest(tag string) string {
	version := regexp.MustCompile(`^\d+(\.\d+)+`).FindString(tag)
	family := "windowsservercore"
	if strings.Contains(tag, "nano") {
		family = "nanoserver"
	}
	var out []string
	for release := range strings.FieldsSeq(f.releases) {
		for _, t := range append([]string{version}, strings.Fields(f.versions)...) {
			t = strings.NewReplacer("VERSION", t, "FAMILY", family, "RELEASE", release).Replace(f.example)
			if family == "nanoserver" { // the 2019 image is never named so beside a version
				t = strings.Replace(t, "-ltsc2019", "-1809", 1)
			}
			if !f.known.MatchString(t) {
				continue
			}
			if strings.Contains(tag, strings.TrimPrefix(release, "ltsc")) {
				return t
			}
			out = append(out, t)
			break
		}
	}
	return strings.Join(out, " or ")
}

// mistakenRepository returns the repository that is meant by one that does not
// exist; "" for others.
func mistakenRepository(name string) string {
	switch plain := strings.NewReplacer("-", "", "_", "").Replace(name); {
	case strings.Contains(name, "insider"):
		return ""
	case name == "iis", name == "windows/iis", name == "windows/nanoserver/iis", name == "windows/server/iis":
		return "windows/servercore/iis:windowsservercore-ltsc2022"
	case strings.HasPrefix(plain, "windows/nanoserver") && name != "windows/nanoserver", name == "nanoserver":
		return "windows/nanoserver:ltsc2022"
	case strings.HasPrefix(plain, "windows/servercore") && name != "windows/servercore" &&
		name != "windows/servercore/iis", plain == "windowsservercore", name == "servercore":
		return "windows/servercore:ltsc2022"
	}
	return ""
}
