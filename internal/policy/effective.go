// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package policy

import (
	"fmt"
	"strings"

	"github.com/mullion-k8s/mullion/internal/winsys/winver"
)

// Confidence says how much a signal is worth.
type Confidence int

// The confidences, the weakest first.
const (
	Low     Confidence = iota // paths, names of programs
	Medium                    // names of images
	High                      // RuntimeClass, labels of builds, what a registry says
	Certain                   // written down
)

// Signal is something in a pod that says for which operating system it is.
type Signal struct {
	OS         string
	What       string // "spec.os.name is windows"
	At         Value
	Confidence Confidence
	source     source
}

// source names the sort of a signal; conflicts depend on it.
type source int

const (
	fromName source = iota
	fromOptions
	fromSelector
	fromRuntimeClass
	fromBuildLabel
	fromRegistry
	fromImageName
	fromContents
)

// signals lists what says for which operating system the pod is, the most
// trustworthy first.
func signals(p *Pod) []Signal {
	var out []Signal
	add := func(src source, c Confidence, os string, at Value, format string, args ...any) {
		if os = strings.ToLower(os); os == "windows" || os == "linux" {
			out = append(out, Signal{os, fmt.Sprintf(format, args...), at, c, src})
		}
	}
	if v := p.Spec.look([]string{"os", "name"}); v.Set() {
		add(fromName, Certain, v.Str(), v, "spec.os.name is %s", v.Str())
	}
	for _, at := range windowsOptions(p) {
		add(fromOptions, Certain, "windows", at, "windowsOptions are set")
	}
	for _, r := range required(p) {
		switch {
		case osLabel(r.key):
			add(fromSelector, Certain, r.value, r.at, "%s selects %s=%s", r.how, r.key, r.value)
		case r.key == "node.kubernetes.io/windows-build", r.key == "kubernetes.azure.com/os-sku" && strings.HasPrefix(r.value, "Windows"):
			add(fromBuildLabel, High, "windows", r.at, "%s selects %s=%s", r.how, r.key, r.value)
		case r.key == "kubernetes.azure.com/os", r.key == "cattle.io/os":
			add(fromBuildLabel, High, r.value, r.at, "%s selects %s=%s", r.how, r.key, r.value)
		}
	}
	if name := p.Spec.look([]string{"runtimeClassName"}); name.Set() {
		class, ok := p.Facts().RuntimeClasses[name.Str()]
		switch {
		case ok && class.NodeSelector["kubernetes.io/os"] != "":
			add(fromRuntimeClass, High, class.NodeSelector["kubernetes.io/os"], name, "RuntimeClass %s selects kubernetes.io/os=%s", name.Str(), class.NodeSelector["kubernetes.io/os"])
		case ok && strings.HasPrefix(class.Handler, "runhcs-wcow-"):
			add(fromRuntimeClass, High, "windows", name, "RuntimeClass %s has the handler %s", name.Str(), class.Handler)
		}
	}
	for _, c := range p.Containers {
		if os, ok := registryOS(p.Facts().Images[c.Image]); ok {
			add(fromRegistry, High, os, c.Get("image"), "the image %s is for %s only", c.Image, os)
		}
	}
	for _, c := range p.Containers {
		if windowsImage(c.Image) {
			add(fromImageName, Medium, "windows", c.Get("image"), "the image %s is by its name one for Windows", c.Image)
		}
	}
	if len(out) == 0 {
		for _, c := range p.Containers {
			if at := windowsContents(c); at.Set() {
				add(fromContents, Low, "windows", at, "it uses %s", at.Path())
			}
		}
	}
	return out
}

// signal returns the first signal from one of the sources.
func (p *Pod) signal(sources ...source) (Signal, bool) {
	for _, s := range p.Signals {
		for _, want := range sources {
			if s.source == want {
				return s, true
			}
		}
	}
	return Signal{}, false
}

func windowsOptions(p *Pod) []Value {
	var out []Value
	for _, at := range append([]Value{p.Spec}, values(p.Containers)...) {
		if v := at.look([]string{"securityContext", "windowsOptions"}); v.Len() > 0 {
			out = append(out, v)
		}
	}
	return out
}

func values(containers []Container) []Value {
	out := make([]Value, len(containers))
	for i, c := range containers {
		out[i] = c.Value
	}
	return out
}

func osLabel(key string) bool { return key == "kubernetes.io/os" || key == "beta.kubernetes.io/os" }

// requirement is one label that a node must have for the pod.
type requirement struct {
	key, value string
	at         Value
	how        string // nodeSelector or nodeAffinity
}

// required lists the labels that every node for the pod must have: its
// nodeSelector, and what all terms of its required affinity agree upon.
func required(p *Pod) []requirement {
	var out []requirement
	sel := p.Spec.look([]string{"nodeSelector"})
	for _, k := range sel.Keys() {
		out = append(out, requirement{k, sel.Get(k).Str(), sel.Get(k), "nodeSelector"})
	}
	terms := affinityTerms(p)
	if len(terms) == 0 {
		return out
	}
	for _, r := range single(terms[0]) {
		everywhere := true
		for _, other := range terms[1:] {
			found := false
			for _, o := range single(other) {
				found = found || o.key == r.key && o.value == r.value
			}
			everywhere = everywhere && found
		}
		if everywhere {
			out = append(out, r)
		}
	}
	return out
}

func affinityTerms(p *Pod) []Value {
	return p.Spec.look([]string{"affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms"}).Items()
}

// single lists the expressions of a term that leave a label one value.
func single(term Value) []requirement {
	var out []requirement
	for _, e := range term.Get("matchExpressions").Items() {
		vals := e.Get("values").Items()
		key := e.Get("key").Str()
		if len(vals) != 1 {
			continue
		}
		switch e.Get("operator").Str() {
		case "In":
			out = append(out, requirement{key, vals[0].Str(), vals[0], "nodeAffinity"})
		case "NotIn": // there are two operating systems
			if other := map[string]string{"windows": "linux", "linux": "windows"}[vals[0].Str()]; osLabel(key) && other != "" {
				out = append(out, requirement{key, other, vals[0], "nodeAffinity"})
			}
		}
	}
	return out
}

// registryOS is the one operating system of an image's platforms.
func registryOS(i Image) (string, bool) {
	os := ""
	for _, p := range i.Platforms {
		if os != "" && p.OS != os {
			return "", false
		}
		os = p.OS
	}
	return os, os != ""
}

// windowsImage says whether the name of an image is one of a Windows image:
// Microsoft's base images, and derived ones that name their base in the tag.
func windowsImage(ref string) bool {
	name := strings.ToLower(ref)
	name, _, _ = strings.Cut(name, "@")
	repo, tag := name, ""
	if i := strings.LastIndexByte(name, ':'); i > strings.LastIndexByte(name, '/') {
		repo, tag = name[:i], name[i+1:]
	}
	repo = strings.TrimPrefix(strings.TrimPrefix(repo, "docker.io/"), "index.docker.io/")
	if strings.HasPrefix(repo, "mcr.microsoft.com/windows") || strings.HasPrefix(repo, "mcr.microsoft.com/dotnet/framework/") ||
		strings.Contains(repo, "windows-host-process-containers-base-image") {
		return true
	}
	if rest, ok := strings.CutPrefix(repo, "microsoft/"); ok {
		for _, n := range []string{"windowsservercore", "nanoserver", "windows", "iis", "aspnet", "dotnet-framework", "wcf", "mssql-server-windows"} {
			if strings.HasPrefix(rest, n) {
				return true
			}
		}
	}
	for _, word := range []string{"nanoserver", "servercore", "ltsc2016", "ltsc2019", "ltsc2022", "ltsc2025"} {
		if strings.Contains(tag, word) {
			return true
		}
	}
	return false
}

// imageBuild is the build that the name of a Windows image gives away.
func imageBuild(ref string) (winver.Build, bool) {
	if !windowsImage(ref) {
		return winver.Build{}, false
	}
	return winver.FromTag(ref)
}

// windowsPath matches C:\x, C:/x and \\.\pipe\x.
func windowsPath(s string) bool {
	return len(s) >= 2 && s[1] == ':' && (s[0]|0x20) >= 'a' && (s[0]|0x20) <= 'z' && (len(s) == 2 || s[2] == '\\' || s[2] == '/') || strings.HasPrefix(s, `\\.\pipe\`)
}

// windowsContents finds what only a Windows container has: its shells as the
// command, paths with a drive.
func windowsContents(c Container) Value {
	for _, list := range []string{"command", "args"} {
		for i, a := range c.look([]string{list}).Items() {
			if windowsPath(a.Str()) || i == 0 && windowsShell(a.Str()) {
				return a
			}
		}
	}
	for _, m := range c.look([]string{"volumeMounts"}).Items() {
		if at := m.Get("mountPath"); windowsPath(at.Str()) {
			return at
		}
	}
	return Value{}
}

func windowsShell(s string) bool {
	switch strings.ToLower(s) {
	case "powershell.exe", "powershell", "cmd", "cmd.exe", "pwsh.exe":
		return true
	}
	return false
}
