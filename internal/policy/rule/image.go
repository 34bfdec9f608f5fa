// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package rule

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mullion-k8s/mullion/internal/policy"
	"github.com/mullion-k8s/mullion/internal/policy/tree"
	"github.com/mullion-k8s/mullion/internal/winsys/winver"
)

const (
	srcCompat  = "https://learn.microsoft.com/virtualization/windowscontainers/deploy-containers/version-compatibility"
	srcMatcher = "github.com/containerd/platforms platform_windows_compat.go"
	srcLife    = "https://learn.microsoft.com/virtualization/windowscontainers/deploy-containers/base-image-lifecycle"
)

// imageRules are about images, and the builds of Windows that they fit.
func imageRules() []Rule {
	return []Rule{
		{
			Code:     "WIN221",
			Title:    "an image that is not for Windows",
			Severity: policy.Error,
			Field:    "containers[*].image",
			Why: "A Windows node cannot pull an image without a Windows platform: \"no match for platform in " +
				"manifest\".",
			Fix:     "use a Windows image, or select Linux nodes",
			Sources: []string{srcMatcher},
			Proof:   "test/e2e.TestRegistry",
			pod:     checkImageOS,
		},
		{
			Code:     "WIN222",
			Title:    "an image without a platform for the nodes' builds",
			Severity: policy.Error,
			Field:    "containers[*].image",
			Why: `No entry of the image's index fits the build of any Windows node: ErrImagePull, "no match for ` +
				`platform in manifest".`,
			Fix:     "use a tag for the nodes' build",
			Sources: []string{srcMatcher},
			Proof:   "internal/cri/image.TestPullChoosesThePlatform",
			pod:     eachImage(checkIndexBuilds),
		},
		{
			Code:     "WIN223",
			Title:    "an image of another build",
			Severity: policy.Error,
			Field:    "containers[*].image",
			Why: `A single image is pulled regardless of its build, and then fails to start: "The container ` +
				`operating system ` +
				`does not match the host operating system." (0xc0370101)`,
			Fix:     "use a tag for the nodes' build",
			Sources: []string{srcCompat, "github.com/microsoft/hcsshim osversion: CheckHostAndContainerCompat"},
			Proof:   "test/e2e.TestRegistry",
			pod:     eachImage(checkImageBuild),
		},
		{
			Code:     "WIN336",
			Title:    "an image without a build",
			Severity: policy.Warning,
			Field:    "containers[*].image",
			Why: "Microsoft's base images (servercore, nanoserver, server) have had no tag latest since April 2019. " +
				"Other Windows images may have one, for all builds or for any single one.",
			Fix:     "pin the build, for example :ltsc2022",
			Sources: []string{srcCompat},
			pod:     checkTags,
		},
		{
			Code:     "WIN337",
			Title:    "an image from Microsoft's retired repositories",
			Severity: policy.Warning,
			Field:    "containers[*].image",
			Why: "Microsoft has moved its images off Docker Hub: microsoft/iis, microsoft/nanoserver and others are " +
				"gone or years old.",
			Fix:     "use mcr.microsoft.com/windows/…",
			Sources: []string{"https://azure.microsoft.com/blog/microsoft-syndicates-container-catalog/"},
			pod:     checkRetiredImages,
		},
		{
			Code:     "WIN412",
			Title:    "no node can run the image",
			Severity: policy.Error,
			Field:    "containers[*].image",
			Why: "With process isolation a host runs only images of the same build. Windows Server 2025 and later " +
				"also run images of Windows Server 2022 and later.",
			Fix:     "use an image for the nodes' build, or add nodes",
			Sources: []string{srcCompat, "github.com/microsoft/hcsshim osversion: CheckHostAndContainerCompat"},
			Proof:   provenOnCluster,
			pod:     checkNodesBuild,
		},
		{
			Code:     "WIN413",
			Title:    "an image of an unsupported Windows version",
			Severity: policy.Warning,
			Field:    "containers[*].image",
			Why: "The semi-annual releases get no updates any more, Windows Server 2016 gets them until January " +
				"2027, and no supported Kubernetes version runs on either.",
			Fix:     "use ltsc2022 or ltsc2025",
			Sources: []string{srcLife},
			pod:     checkEndOfLife,
		},
		{
			Code:     "WIN701",
			Title:    "images of several builds in one pod",
			Severity: policy.Error,
			Field:    "containers",
			Why:      "All containers of a pod run on one host; no host can run these together with process isolation.",
			Fix:      "use images of one build",
			Sources:  []string{srcCompat},
			Proof:    provenOnCluster,
			pod:      checkBuildMix,
		},
		{
			Code:     "WIN702",
			Title:    "the selected build cannot run the image",
			Severity: policy.Error,
			Field:    "nodeSelector[node.kubernetes.io/windows-build]",
			Why:      "The pod selects nodes of a build that cannot run the image.",
			Fix:      "make the image and node.kubernetes.io/windows-build agree",
			Sources:  []string{srcCompat},
			Proof:    provenOnCluster,
			pod:      checkSelectedBuild,
		},
		{
			Code:     "WIN703",
			Title:    "an ltsc2022 image on Windows Server 2025 with an old containerd",
			Severity: policy.Warning,
			Field:    "containers[*].image",
			Why: "containerd before 1.7.6 compares builds as text: on Windows Server 2025 it finds no platform for " +
				"an ltsc2022 image in an index.",
			Fix:     "update containerd on the node",
			Sources: []string{"https://github.com/containerd/containerd/pull/9069"},
			pod:     checkOldContainerd,
		},
		{
			Code:     "WIN753",
			Title:    "csi-proxy with a known vulnerability",
			Severity: policy.Warning,
			Field:    "containers[*].image",
			Why:      "csi-proxy up to 1.1.2 lets users of the cluster run commands on the node (CVE-2023-3893).",
			Fix:      "use v1.1.3 or newer",
			Sources:  []string{"https://github.com/kubernetes/kubernetes/issues/119594"},
			pod:      checkCSIProxy,
		},
	}
}

func checkImageOS(p *policy.Pod, r reporter) {
	if !p.Windows() {
		return
	}
	for _, c := range p.Containers {
		if i, ok := p.Facts().Images[c.Image]; ok && len(i.Platforms) > 0 {
			if os, ok := policy.RegistryOS(i); ok && os != "windows" {
				r.at(c.Get("image"), "container %s: the image %s is only for %s", c.Name, c.Image, os)
			}
		} else if linuxImage(c.Image) {
			r.as(policy.Warning, c.Get("image"),
				"container %s: %s is published only for Linux, but the pod is for Windows (%s)", c.Name, c.Image,
				p.Signals[0].What)
		}
	}
}

// linuxImage reports whether an image is known to be published for Linux only,
// by its repository or its tag.
func linuxImage(ref string) bool {
	if policy.WindowsImage(ref) || strings.Contains(ref, "windows") {
		return false
	}
	name, _, _ := strings.Cut(ref, "@")
	if i := strings.LastIndexByte(name, ':'); i > strings.LastIndexByte(name, '/') {
		if linuxTag(name[i+1:]) {
			return true
		}
		name = name[:i]
	}
	for _, prefix := range []string{"index.docker.io/", "docker.io/", "library/"} {
		name = strings.TrimPrefix(name, prefix)
	}
	if strings.HasPrefix(name, "gcr.io/distroless/") || strings.HasPrefix(name, "bitnami/") {
		return true
	}
	return slices.Contains([]string{
		"almalinux", "alpine", "amazonlinux", "busybox", "centos", "curlimages/curl", "debian", "fedora",
		"grafana/grafana", "haproxy", "httpd", "mariadb", "mcr.microsoft.com/mssql/server", "memcached", "mysql",
		"nginx", "nginxinc/nginx-unprivileged", "node", "oraclelinux", "php", "postgres", "prom/prometheus", "rabbitmq",
		"redis", "registry.k8s.io/ingress-nginx/controller", "rockylinux", "ruby", "ubuntu", "wordpress",
	}, name)
}

// linuxTag reports whether a tag names a distribution of Linux, as the tags of
// .NET, Python and other images for several systems do: 8.0-alpine3.19,
// 3.12-bookworm.
func linuxTag(tag string) bool {
	words := strings.FieldsFunc(strings.ToLower(tag), func(r rune) bool { return r == '-' || r == '_' || r == '.' })
	return slices.ContainsFunc(words, func(w string) bool {
		return slices.Contains([]string{
			"alpine", "azurelinux", "bookworm", "bullseye", "buster", "debian", "focal", "jammy", "linux", "mariner",
			"noble", "trixie", "ubi", "ubuntu",
		}, strings.TrimRight(w, "0123456789"))
	})
}

func checkIndexBuilds(p *policy.Pod, c policy.Container, i policy.Image, r reporter) {
	if i.Index && len(p.NodesForImages()) > 0 && !anyNodeRuns(p, i) && policy.HasOS(i, "windows") {
		r.unlessIsolated(p, policy.Error, c, "container %s: the image %s has %s; the nodes are %s",
			c.Name, c.Image, platformsText(i), nodesText(p.NodesForImages()))
	}
}

func checkImageBuild(p *policy.Pod, c policy.Container, i policy.Image, r reporter) {
	if !i.Index && len(p.NodesForImages()) > 0 && !anyNodeRuns(p, i) && policy.HasOS(i, "windows") {
		r.unlessIsolated(p, policy.Error, c, "container %s: the image %s is built for %s; the nodes are %s",
			c.Name, c.Image, platformsText(i), nodesText(p.NodesForImages()))
	}
}

func checkTags(p *policy.Pod, r reporter) {
	if p.Windows() {
		for _, c := range p.Containers {
			checkTag(p, c, r)
		}
	}
}

func checkRetiredImages(p *policy.Pod, r reporter) {
	for _, c := range p.Containers {
		checkRetired(c, r)
	}
}

func checkEndOfLife(p *policy.Pod, r reporter) {
	for _, c := range p.Containers {
		// An image of a retired repository must first be replaced. An image that no
		// node can run already has a finding.
		if !c.HasBuild || lifeEnd(c.Build) == "" || retired(c.Image) || len(nodesWithout(p, c)) > 0 {
			continue
		}
		r.at(c.Get("image"), "container %s: %s is built for %s%s", c.Name, c.Image, c.Build, lifeEnd(c.Build))
	}
}

// lifeEnd returns words about a build that is out of support, to follow its name;
// "" for others.
func lifeEnd(b winver.Build) string {
	if b.Number == 17763 || b.Number >= 20348 {
		return ""
	}
	return fmt.Sprintf(" (no updates after %s)", b.EndOfLife())
}

func checkOldContainerd(p *policy.Pod, r reporter) {
	for _, c := range p.Containers {
		for _, n := range p.Facts().WindowsNodes() {
			if b := c.Build; c.HasBuild && b.Number == 20348 && n.Build.Number == 26100 && n.Containerd != "" &&
				policy.Older(n.Containerd, 7, 6) {
				r.at(c.Get("image"),
					"container %s: node %s runs containerd %s, which finds no platform for ltsc2022 images", c.Name,
					n.Name, n.Containerd)
			}
		}
	}
}

func checkCSIProxy(p *policy.Pod, r reporter) {
	for _, c := range p.Containers {
		repo, tag, ok := strings.Cut(c.Image[strings.LastIndexByte(c.Image, '/')+1:], ":v")
		if ok && repo == "csi-proxy" && policy.Older(tag, 1, 3) {
			r.at(c.Get("image"), "container %s: %s has CVE-2023-3893", c.Name, c.Image)
		}
	}
}

// checkRetired suggests the repository to which Microsoft moved the image.
func checkRetired(c policy.Container, r reporter) {
	if !retired(c.Image) {
		return
	}
	text := fmt.Sprintf("container %s: %s is in one of Microsoft's retired repositories on Docker Hub",
		c.Name, c.Image)
	if c.HasBuild {
		text += ", of " + c.Build.String()
	}
	f := r.at(c.Get("image"), "%s", text)
	name, _, _ := strings.Cut(c.Image[strings.Index(c.Image, "microsoft/")+len("microsoft/"):], ":")
	moved := map[string]string{
		"iis":               "windows/servercore/iis:windowsservercore-ltsc2022",
		"windowsservercore": "windows/servercore:ltsc2022",
		"nanoserver":        "windows/nanoserver:ltsc2022",
		"aspnet":            "dotnet/framework/aspnet:4.8-windowsservercore-ltsc2022",
		"dotnet-framework":  "dotnet/framework/runtime:4.8-windowsservercore-ltsc2022",
	}
	if to := moved[name]; to != "" {
		f.Fix = "use mcr.microsoft.com/" + to + ", or the tag of your nodes' build"
	}
}

// retired reports whether an image is in a repository that Microsoft has
// abandoned.
func retired(image string) bool {
	return strings.HasPrefix(strings.TrimPrefix(strings.TrimPrefix(image, "docker.io/"), "index.docker.io/"),
		"microsoft/")
}

func eachImage(f func(*policy.Pod, policy.Container, policy.Image, reporter)) func(*policy.Pod, reporter) {
	return func(p *policy.Pod, r reporter) {
		if !p.Windows() {
			return
		}
		for _, c := range p.Containers {
			if i, ok := p.Facts().Images[c.Image]; ok && len(i.Platforms) > 0 {
				f(p, c, i, r)
			}
		}
	}
}

func anyNodeRuns(p *policy.Pod, i policy.Image) bool {
	if policy.HyperV(p) || p.HostProcess && !i.Index {
		return true
	}
	for _, n := range p.NodesForImages() {
		for _, pl := range i.Platforms {
			if pl.OS == "windows" && (n.Build.Number == 0 || winver.CompatibleOSVersion(n.Build, pl.OSVersion)) {
				return true
			}
		}
	}
	return false
}

func platformsText(i policy.Image) string {
	var out []string
	for _, p := range i.Platforms {
		out = append(out, strings.TrimSpace(p.OS+" "+p.OSVersion))
	}
	return strings.Join(out, ", ")
}

func nodesText(nodes []*policy.Node) string {
	var out []string
	for _, b := range policy.BuildsOf(nodes) {
		out = append(out, b.String())
	}
	return strings.Join(out, ", ")
}

func checkTag(p *policy.Pod, c policy.Container, r reporter) {
	if strings.Contains(c.Image, "@") || retired(c.Image) {
		return
	}
	_, tag, _ := strings.Cut(c.Image[strings.LastIndexByte(c.Image, '/')+1:], ":")
	if tag != "" && tag != "latest" {
		return
	}
	if policy.BaseImage(c.Image) {
		r.at(c.Get("image"), "container %s: %s has no tag latest", c.Name, c.Image)
		return
	}
	// Others keep latest, often as an index of all builds.
	if policy.WindowsImage(c.Image) && len(p.Facts().Images[c.Image].Platforms) == 0 {
		f := r.as(policy.Info, c.Get("image"), "container %s: the tag does not name the build of %s", c.Name, c.Image)
		switch {
		case strings.HasSuffix(strings.TrimSuffix(c.Image, ":latest"), "/windows/servercore/iis"):
			f.Fix = "pin the build: :windowsservercore-ltsc2022"
		default:
			f.Fix = "pin the tag that names your nodes' build"
		}
	}
}

// builds returns the builds of the pod's images by their names, per container.
func builds(p *policy.Pod) map[string]winver.Build {
	out := map[string]winver.Build{}
	for _, c := range p.Containers {
		if len(p.Facts().Images[c.Image].Platforms) > 0 {
			continue // separate rules use the registry's answer
		}
		if c.HasBuild && p.PulledByBuild(&c) {
			out[c.Name] = c.Build
		}
	}
	return out
}

// unlessIsolated reports an image that no node can run, but only as a warning
// if placement finds a RuntimeClass with Hyper-V isolation for it.
func (r reporter) unlessIsolated(p *policy.Pod, s policy.Severity, c policy.Container, format string, args ...any) {
	if class, _ := p.HyperVClass(); class != "" {
		s, format, args = policy.Warning, format+"; only RuntimeClass %s, with Hyper-V isolation, can run it",
			append(args, class)
	}
	r.as(s, c.Get("image"), format, args...)
}

// nodesWithout returns the nodes that the pod may use, if not a single one can
// run an image whose name reveals its build, and nil otherwise.
func nodesWithout(p *policy.Pod, c policy.Container) []*policy.Node {
	if !c.HasBuild || !p.Windows() || policy.HyperV(p) {
		return nil
	}
	nodes := p.NodesForImages()
	if p.SelectsBuild() { // another rule checks whether that build fits
		nodes = p.Facts().WindowsNodes()
	}
	b, ok := builds(p)[c.Name]
	runs := func(n *policy.Node) bool { return n.Build.Number == 0 || winver.Compatible(n.Build, b) }
	if !ok || slices.ContainsFunc(nodes, runs) {
		return nil
	}
	return nodes
}

func checkNodesBuild(p *policy.Pod, r reporter) {
	for _, c := range p.Containers {
		nodes := nodesWithout(p, c)
		if len(nodes) == 0 {
			continue
		}
		none := "no node"
		if len(nodes) < len(p.Facts().WindowsNodes()) {
			none = "no node that the pod may use"
		}
		severity := policy.Warning // a tag is only a name
		if strings.HasPrefix(c.Image, "mcr.microsoft.com/windows") {
			severity = policy.Error
		}
		r.unlessIsolated(p, severity, c, "container %s: %s is built for %s%s; %s can run it. Nodes: %s",
			c.Name, c.Image, c.Build, lifeEnd(c.Build), none, nodesText(nodes))
	}
}

func checkBuildMix(p *policy.Pod, r reporter) {
	if !p.Windows() || policy.HyperV(p) {
		return
	}
	nodes := p.NodesForImages()
	alone := len(nodes) > 0 && len(p.Fitting(nodes, false)) == 0
	for i := range p.Containers {
		alone = alone && slices.ContainsFunc(nodes, func(n *policy.Node) bool {
			return p.Runs(&p.Containers[i], n, false)
		})
	}
	if alone {
		r.at(p.Spec.Get("containers"),
			"each image runs on some node, but no node runs all of them: %s; the nodes are %s",
			imagesText(p), nodesText(nodes))
		return
	}
	builds := builds(p)
	if len(builds) < 2 {
		return
	}
	for _, host := range winver.All() {
		runs := true
		for _, b := range builds {
			runs = runs && winver.Compatible(host, b)
		}
		if runs {
			return
		}
	}
	r.at(p.Spec.Get("containers"), "no host can run all of them: %s", imagesText(p))
}

// imagesText describes the known builds of a pod's images.
func imagesText(p *policy.Pod) string {
	var text []string
	builds := builds(p)
	for _, c := range p.Containers {
		if i, ok := p.Facts().Images[c.Image]; ok && policy.HasOS(i, "windows") {
			text = append(text, c.Name+" "+platformsText(i))
		} else if b, ok := builds[c.Name]; ok {
			text = append(text, c.Name+" "+b.String())
		}
	}
	return strings.Join(text, ", ")
}

func checkSelectedBuild(p *policy.Pod, r reporter) {
	if policy.HyperV(p) {
		return
	}
	builds := builds(p)
	check := func(at tree.Value, value, how string) {
		host, err := winver.Parse(value)
		if err != nil {
			r.as(policy.Warning, at, "%s: %s is not a known Windows build", how, value)
			return
		}
		for _, c := range p.Containers {
			if b, ok := builds[c.Name]; ok && !winver.Compatible(host, b) {
				r.at(at, "%s selects %s, which cannot run %s, built for %s", how, host, c.Image, b)
			}
		}
	}
	for _, q := range policy.Required(p) {
		if q.Key == policy.BuildLabel {
			check(q.At, q.Value, q.How)
		} else if b, ok := policy.VendorBuild(q.Key, q.Value); ok {
			check(q.At, b.Label(), q.How)
		}
	}
	name := p.Spec.Find("runtimeClassName")
	if v := p.Facts().RuntimeClasses[name.Str()].NodeSelector[policy.BuildLabel]; v != "" {
		check(name, v, "RuntimeClass "+name.Str())
	}
}
