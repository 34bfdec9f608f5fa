// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mullion-k8s/mullion/internal/policy/tree"
	"github.com/mullion-k8s/mullion/internal/winsys/winver"
)

// Confidence is how far a signal can be trusted.
type Confidence int

// The confidences, weakest first.
const (
	Low     Confidence = iota // paths, names of programs, what nodes have pulled, defaults
	Medium                    // names of images
	High                      // RuntimeClass, build labels, a registry's answer
	Certain                   // stated in the pod
)

// signal is something in a pod that indicates its operating system.
type signal struct {
	OS         string
	What       string // "spec.os.name is windows"
	Short      string // "spec.os.name"
	At         tree.Value
	Confidence Confidence
	source     source
}

// source is the kind of a signal; conflicts depend on it.
type source int

const (
	fromName source = iota
	fromOptions
	fromSelector
	fromRuntimeClass
	fromBuildLabel
	fromRegistry
	fromImageName
	fromIsolation
	fromPresence
	fromProgram  // something that only a Windows container starts or mounts
	fromContents // something that hints at one
	fromDefault
)

// isolationAnnotation asked dockershim for Hyper-V isolation.
const isolationAnnotation = "experimental.windows.kubernetes.io/isolation-type"

// signals lists the signals that indicate the pod's operating system, most
// trustworthy first.
func signals(p *pod) []signal {
	var s signalList
	if v := p.Spec.Find("os", "name"); v.Set() {
		s.add(fromName, Certain, v.Str(), v, "spec.os.name", "spec.os.name is %s", v.Str())
	}
	for _, at := range windowsOptions(p) {
		s.add(fromOptions, Certain, "windows", at, "windowsOptions", "windowsOptions are set")
	}
	for _, r := range required(p) {
		short := r.how + " " + r.key + "=" + r.value
		switch {
		case osLabel(r.key):
			s.add(fromSelector, Certain, r.value, r.at, short, "%s selects %s=%s", r.how, r.key, r.value)
		case r.key == buildLabel, r.key == "kubernetes.azure.com/os-sku" && strings.HasPrefix(r.value, "Windows"):
			s.add(fromBuildLabel, High, "windows", r.at, short, "%s selects %s=%s", r.how, r.key, r.value)
		case r.key == "cloud.google.com/gke-windows-os-version":
			s.add(fromBuildLabel, High, "windows", r.at, short, "%s selects %s=%s", r.how, r.key, r.value)
		case r.key == "kubernetes.azure.com/os", r.key == "cattle.io/os":
			s.add(fromBuildLabel, High, r.value, r.at, short, "%s selects %s=%s", r.how, r.key, r.value)
		}
	}
	if name := p.Spec.Find("runtimeClassName"); name.Set() {
		class, ok := p.facts().RuntimeClasses[name.Str()]
		short := "RuntimeClass " + name.Str()
		switch {
		case ok && class.NodeSelector["kubernetes.io/os"] != "":
			s.add(fromRuntimeClass, High, class.NodeSelector["kubernetes.io/os"], name, short,
				"RuntimeClass %s selects kubernetes.io/os=%s", name.Str(), class.NodeSelector["kubernetes.io/os"])
		case ok && strings.HasPrefix(class.Handler, "runhcs-wcow-"):
			s.add(fromRuntimeClass, High, "windows", name, short, "RuntimeClass %s has the handler %s", name.Str(),
				class.Handler)
		}
	}
	imageSignals(p, &s)
	if len(s) == 0 {
		contentSignals(p, &s)
		if os, from := p.defaultOS(); os != "" {
			s.add(fromDefault, Low, os, tree.Value{}, "default of "+from, "the default of %s is %s", from, os)
		}
	}
	return s
}

// signalList collects signals; add drops those for unknown operating systems.
type signalList []signal

func (s *signalList) add(src source, c Confidence, os string, at tree.Value, short, format string, args ...any) {
	if os = strings.ToLower(os); os == "windows" || os == "linux" {
		*s = append(*s, signal{
			OS:         os,
			What:       fmt.Sprintf(format, args...),
			Short:      short,
			At:         at,
			Confidence: c,
			source:     src,
		})
	}
}

// imageSignals adds the signals of the images: from registries, from their
// names, and from the nodes that have them.
func imageSignals(p *pod, s *signalList) {
	for _, c := range p.Containers {
		if os, ok := registryOS(p.facts().Images[c.Image]); ok {
			s.add(fromRegistry, High, os, c.Get("image"), "the image of container "+c.Name,
				"the image %s is only for %s", c.Image, os)
		}
	}
	for _, c := range p.Containers {
		if windowsImage(c.Image) {
			s.add(fromImageName, Medium, "windows",
				c.Get("image"), "the image of container "+c.Name, "the image %s is a Windows image by its name",
				c.Image)
		}
	}
	for _, meta := range []tree.Value{p.Meta, p.Object.Get("metadata")} {
		if a := meta.Find("annotations", isolationAnnotation); a.Str() != "" {
			s.add(fromIsolation, Medium, "windows", a, "annotation isolation-type",
				"the annotation isolation-type is %s", a.Str())
			break
		}
	}
	for _, c := range p.Containers {
		// A registry that names both operating systems knows better than the nodes that happen to have the image.
		if oses := p.facts().PresentImages[c.Image]; len(oses) == 1 && len(p.facts().Images[c.Image].Platforms) == 0 {
			s.add(fromPresence, Low, oses[0], c.Get("image"), "nodes have the image of container "+c.Name,
				"only %s nodes have the image %s", oses[0], c.Image)
		}
	}
}

// contentSignals adds guesses from the programs and mounts of the containers.
func contentSignals(p *pod, s *signalList) {
	for _, c := range p.Containers {
		if at := windowsProgram(c); at.Set() {
			s.add(fromProgram, Low, "windows", at, at.Path().String(), "it uses %s", at.Path())
		}
	}
	for _, c := range p.Containers {
		if at := windowsContents(c); at.Set() && len(*s) == 0 {
			s.add(fromContents, Low, "windows", at, at.Path().String(), "it uses %s", at.Path())
		}
	}
}

// defaultOS returns the operating system of pods without a signal, and where
// that default is set; "" if there is none.
func (p *pod) defaultOS() (os, from string) {
	if os := p.facts().Namespaces[p.Object.Namespace].Labels[DefaultOSLabel]; os != "" {
		return os, "namespace " + p.Object.Namespace
	}
	return p.facts().DefaultOS, "the cluster"
}

// signal returns the first signal from one of the sources.
func (p *pod) signal(sources ...source) (signal, bool) {
	for _, s := range p.Signals {
		if slices.Contains(sources, s.source) {
			return s, true
		}
	}
	return signal{}, false
}

func windowsOptions(p *pod) []tree.Value {
	var out []tree.Value
	for _, at := range append([]tree.Value{p.Spec}, values(p.Containers)...) {
		if v := at.Find("securityContext", "windowsOptions"); v.Len() > 0 {
			out = append(out, v)
		}
	}
	return out
}

func values(containers []container) []tree.Value {
	out := make([]tree.Value, len(containers))
	for i, c := range containers {
		out[i] = c.Value
	}
	return out
}

// buildLabel is the label that the kubelet of a Windows node sets.
const buildLabel = "node.kubernetes.io/windows-build"

func osLabel(key string) bool { return key == "kubernetes.io/os" || key == "beta.kubernetes.io/os" }

// requirement is one label that a node must have for the pod.
type requirement struct {
	key, value string
	at         tree.Value
	how        string // nodeSelector or nodeAffinity
}

// required lists the labels that a node must have for the pod: its
// nodeSelector, and the labels that all terms of its required affinity share.
func required(p *pod) []requirement {
	var out []requirement
	sel := p.Spec.Find("nodeSelector")
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

func affinityTerms(p *pod) []tree.Value {
	return p.Spec.Find("affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution",
		"nodeSelectorTerms").Items()
}

// single lists the expressions of a term that allow only one value of a label.
func single(term tree.Value) []requirement {
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
			if other := map[string]string{"windows": "linux", "linux": "windows"}[vals[0].Str()]; osLabel(key) &&
				other != "" {
				out = append(out, requirement{key, other, vals[0], "nodeAffinity"})
			}
		}
	}
	return out
}

// registryOS returns the operating system of an image if all its platforms
// share one.
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

// windowsImage reports whether an image is a Windows image by its name:
// Microsoft's base images, and derived ones that name their base in the tag.
func windowsImage(ref string) bool {
	name := strings.ToLower(ref)
	name, _, _ = strings.Cut(name, "@")
	repo, tag := name, ""
	if i := strings.LastIndexByte(name, ':'); i > strings.LastIndexByte(name, '/') {
		repo, tag = name[:i], name[i+1:]
	}
	repo = strings.TrimPrefix(strings.TrimPrefix(repo, "docker.io/"), "index.docker.io/")
	if strings.HasPrefix(repo, "mcr.microsoft.com/windows") ||
		strings.HasPrefix(repo, "mcr.microsoft.com/dotnet/framework/") ||
		strings.Contains(repo, "windows-host-process-containers-base-image") {
		return true
	}
	if rest, ok := strings.CutPrefix(repo, "microsoft/"); ok {
		for _, n := range []string{"windowsservercore", "nanoserver", "windows", "iis", "aspnet", "dotnet-framework",
			"wcf", "mssql-server-windows"} {
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
	// "1.0-windows", "windows-1809", "v2-windows-amd64", "1.2-windows2022"
	words := strings.FieldsFunc(tag, func(r rune) bool { return r == '-' || r == '_' || r == '.' })
	return slices.ContainsFunc(words, func(w string) bool {
		return w == "windows" || strings.HasPrefix(w, "windows20") && len(w) == len("windows2022")
	})
}

// baseImage reports whether an image is one of Microsoft's base images, whose
// contents are known, by its repository.
func baseImage(ref string) bool {
	name, _, _ := strings.Cut(strings.ToLower(ref), "@")
	if i := strings.LastIndexByte(name, ':'); i > strings.LastIndexByte(name, '/') {
		name = name[:i]
	}
	repo, ok := strings.CutPrefix(name, "mcr.microsoft.com/")
	return ok &&
		slices.Contains([]string{"windows", "windows/server", "windows/servercore", "windows/nanoserver"}, repo)
}

// imageBuild returns the build that the name of a Windows image reveals.
func imageBuild(ref string) (winver.Build, bool) {
	if !windowsImage(ref) {
		return winver.Build{}, false
	}
	if b, ok := winver.FromTag(ref); ok {
		return b, true
	}
	// Microsoft left the Docker Hub when latest was still Windows Server 2016,
	// and has not moved it since.
	name := strings.TrimPrefix(strings.TrimPrefix(ref, "index."), "docker.io/")
	for _, repo := range []string{"microsoft/windowsservercore", "microsoft/nanoserver", "microsoft/iis"} {
		if tag, ok := strings.CutPrefix(name, repo); ok &&
			(tag == "" || tag == ":latest" || tag == ":windowsservercore") {
			return winver.Find(14393)
		}
	}
	return winver.Build{}, false
}

// windowsPath matches C:\x, C:/x and \\.\pipe\x.
func windowsPath(s string) bool {
	return len(s) >= 2 && s[1] == ':' && (s[0]|0x20) >= 'a' && (s[0]|0x20) <= 'z' &&
		(len(s) == 2 || s[2] == '\\' || s[2] == '/') || strings.HasPrefix(s, `\\.\pipe\`)
}

// windowsProgram finds what only a Windows container has: its shells as the
// command, mounts below a drive.
func windowsProgram(c container) tree.Value {
	command := c.Find("command").Items()
	if len(command) > 0 {
		switch name := strings.ToLower(command[0].Str()); {
		case windowsPath(name), name == "powershell.exe", name == "powershell", name == "cmd.exe", name == "pwsh.exe",
			name == "cmd" && len(command) > 1 && strings.HasPrefix(command[1].Str(), "/"):
			return command[0]
		}
	}
	for _, m := range c.Find("volumeMounts").Items() {
		if at := m.Get("mountPath"); windowsPath(at.Str()) {
			return at
		}
	}
	return tree.Value{}
}

// windowsContents finds what hints at a Windows container: its shells as the
// first argument, arguments that are paths with a drive.
func windowsContents(c container) tree.Value {
	for _, list := range []string{"command", "args"} {
		for i, a := range c.Find(list).Items() {
			if windowsPath(a.Str()) || i == 0 && windowsShell(a.Str()) {
				return a
			}
		}
	}
	return tree.Value{}
}

func windowsShell(s string) bool {
	switch strings.ToLower(s) {
	case "powershell.exe", "powershell", "cmd", "cmd.exe", "pwsh.exe":
		return true
	}
	return false
}
