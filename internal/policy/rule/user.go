// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package rule

import (
	"regexp"
	"strings"

	"github.com/mullion-k8s/mullion/internal/policy"
	"github.com/mullion-k8s/mullion/internal/policy/tree"
)

// The limits and patterns of validateWindowsSecurityContextOptions in
// k8s.io/kubernetes v1.36.3, pkg/apis/core/validation. Lengths are bytes.
const (
	userDomainMax = 256 // exclusive
	userNameMax   = 104 // inclusive; documents still say 20
)

// userPatterns are upstream's regular expressions. Regexps are immutable.
var userPatterns = struct{ control, netBIOS, dns, badChars, onlyDots *regexp.Regexp }{
	control: regexp.MustCompile(`[[:cntrl:]]+`),
	netBIOS: regexp.MustCompile(`^[^\\/:\*\?"<>|\.][^\\/:\*\?"<>|]{0,14}$`),
	dns: regexp.MustCompile(`^[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?(?:\.[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,` +
		`61}[a-zA-Z0-9])?)*$`),
	badChars: regexp.MustCompile(`["/\\:;|=,\+\*\?<>@\[\]]`),
	onlyDots: regexp.MustCompile(`^[\. ]+$`),
}

// CheckUserName returns the API server's error messages for a runAsUserName. It
// returns nil if the name is valid.
func CheckUserName(name string) []string {
	switch {
	case name == "":
		return []string{"runAsUserName cannot be an empty string"}
	case userPatterns.control.MatchString(name):
		return []string{"runAsUserName cannot contain control characters"}
	case strings.Count(name, `\`) > 1:
		return []string{"runAsUserName cannot contain more than one backslash"}
	}
	domain, user, hasDomain := strings.Cut(name, `\`)
	if !hasDomain {
		domain, user = "", name
	}
	var out []string
	if len(domain) >= userDomainMax {
		out = append(out, "runAsUserName's Domain length must be under 256 characters")
	}
	if hasDomain && !userPatterns.netBIOS.MatchString(domain) && !userPatterns.dns.MatchString(domain) {
		out = append(out, "runAsUserName's Domain doesn't match the NetBios nor the DNS format")
	}
	if user == "" {
		out = append(out, "runAsUserName's User cannot be empty")
	} else if len(user) > userNameMax {
		out = append(out, "runAsUserName's User length must not be longer than 104 characters")
	}
	if userPatterns.onlyDots.MatchString(user) {
		out = append(out, "runAsUserName's User cannot contain only periods or spaces")
	}
	if userPatterns.badChars.MatchString(user) {
		out = append(out, "runAsUserName's User cannot contain the following characters: \"/\\:;|=,+*?<>@[]")
	}
	return out
}

const srcSecurityContext = "k8s.io/kubernetes pkg/kubelet/kuberuntime: security_context_windows.go"

// userRules are about the user that a container runs as.
func userRules() []Rule {
	return []Rule{
		{
			Code:     "WIN103",
			Title:    "invalid `runAsUserName`",
			Severity: policy.Error,
			Field:    "securityContext.windowsOptions.runAsUserName",
			Why: `A user name is USER or DOMAIN\USER: at most one backslash, no control characters, a NetBIOS or DNS ` +
				`domain, a user of at most 104 bytes without "/\:;|=,+*?<>@[]. user@domain and domain/user are not ` +
				`names.`,
			Fix:     "write USER or DOMAIN\\USER; in a double-quoted YAML string, double the backslash",
			Sources: []string{srcValidateWO, srcRunAsUserName},
			Proof:   "test/conformance/validation.TestUserNames",
			pod:     checkUserNames,
		},
		{
			Code:     "WIN204",
			Title:    "`runAsNonRoot` with ContainerAdministrator",
			Severity: policy.Error,
			Field:    "securityContext.windowsOptions.runAsUserName",
			Why: "The kubelet treats ContainerAdministrator, in upper or lower case, as root and does not create " +
				"the container (CreateContainerConfigError).",
			Fix:     "set runAsUserName: ContainerUser",
			Sources: []string{srcSecurityContext, "k8s.io/kubernetes test/e2e/windows: security_context.go"},
			Proof:   "test/e2e.TestRunAsNonRoot",
			pod:     checkAdministratorByName,
		},
		{
			Code:     "WIN205",
			Title:    "`runAsNonRoot` with an image that runs as ContainerAdministrator",
			Severity: policy.Warning,
			Field:    "containers[*].image",
			Why: "If runAsUserName is not set, the kubelet checks the image's user and treats " +
				"ContainerAdministrator as root.",
			Fix:     "set runAsUserName: ContainerUser",
			Sources: []string{srcSecurityContext},
			pod:     checkAdministratorOfImage,
		},
		{
			Code:     "WIN206",
			Title:    "`runAsNonRoot` without effect",
			Severity: policy.Warning,
			Field:    "securityContext.runAsNonRoot",
			Why: "Without runAsUserName, an image that names no user (Server Core) passes the check of runAsNonRoot " +
				"and " +
				`runs as ContainerAdministrator. NT AUTHORITY\SYSTEM passes too: the check compares one name only.`,
			Fix:     "set runAsUserName: ContainerUser together with runAsNonRoot",
			Sources: []string{srcSecurityContext, srcPersistentStorage},
			pod:     checkNonRootTrap,
		},
		{
			Code:     "WIN207",
			Title:    "a user that the image must have",
			Severity: policy.Info,
			Field:    "securityContext.windowsOptions.runAsUserName",
			Why: `The user must exist in the image; otherwise the sandbox or the container does not start: "The user ` +
				`name or password is incorrect."`,
			Fix:     "create the user in the image, or use ContainerUser",
			Sources: []string{"k8s.io/kubernetes test/e2e/windows: security_context.go"},
			pod:     checkUserExists,
		},
	}
}

func checkAdministratorByName(p *policy.Pod, r reporter) {
	for _, c := range p.Containers {
		if u := p.Option(c, "runAsUserName"); p.NonRoot(c).True() &&
			strings.EqualFold(u.Str(), "ContainerAdministrator") {
			r.at(u, "container %s: runAsNonRoot is true and runAsUserName is %s, which counts as root", c.Name, u.Str())
		}
	}
}

func checkAdministratorOfImage(p *policy.Pod, r reporter) {
	for _, c := range p.Containers {
		user := p.Facts().Images[c.Image].User
		if p.NonRoot(c).True() && !p.Option(c, "runAsUserName").Set() &&
			strings.EqualFold(user, "ContainerAdministrator") {
			r.at(c.Get("image"), "container %s: runAsNonRoot is true and the image's user is %s, which counts as root",
				c.Name, user)
		}
	}
}

func checkUserExists(p *policy.Pod, r reporter) {
	for _, c := range p.Containers {
		if u := p.Option(c, "runAsUserName"); u.Str() != "" && !p.IsHostProcess(c) && !wellKnownUser(u.Str()) &&
			len(CheckUserName(u.Str())) == 0 {
			r.at(u, "container %s: the user %s must exist in the image %s", c.Name, u.Str(), c.Image)
		}
	}
}

// wellKnownUser reports whether every Windows image has the user.
func wellKnownUser(name string) bool {
	switch strings.ToLower(name) {
	case "containeruser", "containeradministrator":
		return true
	}
	domain, _, ok := strings.Cut(strings.ToLower(name), `\`)
	return ok && (domain == "nt authority" || domain == "user manager")
}

func checkUserNames(p *policy.Pod, r reporter) {
	for _, at := range append([]tree.Value{p.Spec}, policy.ContainerValues(p.Containers)...) {
		v := at.Find("securityContext", "windowsOptions", "runAsUserName")
		if !v.Set() {
			continue
		}
		for _, msg := range CheckUserName(v.Str()) {
			if userPatterns.control.MatchString(v.Str()) {
				msg += "; a backslash in double quotes begins an escape: double it"
			}
			r.at(v, "%s", msg)
		}
	}
}

func checkNonRootTrap(p *policy.Pod, r reporter) {
	if !p.Windows() {
		return
	}
	for _, c := range p.Containers {
		at, user := p.NonRoot(c), p.Option(c, "runAsUserName")
		switch {
		case !at.True():
		case p.IsHostProcess(c):
			r.at(at, "container %s: runAsNonRoot has no effect on a HostProcess container; it passes although the "+
				"account is privileged", c.Name)
		case strings.EqualFold(user.Str(), `NT AUTHORITY\SYSTEM`):
			r.at(at, "container %s: runAsNonRoot does not keep NT AUTHORITY\\SYSTEM out", c.Name)
		case !user.Set() && p.Facts().Images[c.Image].User == "" && !strings.Contains(strings.ToLower(c.Image),
			"nanoserver"):
			r.at(at, "container %s: runAsNonRoot without runAsUserName: an image without a user runs as "+
				"ContainerAdministrator", c.Name)
		}
	}
}
