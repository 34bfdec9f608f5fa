// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package rule

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/mullion-k8s/mullion/internal/policy"
	"github.com/mullion-k8s/mullion/internal/policy/tree"
)

// credentialSpecMaxBytes is the API's limit on inlined credential specs.
// k8s.io/kubernetes pkg/apis/core/validation, maxGMSACredentialSpecLength.
const credentialSpecMaxBytes = 64 << 10

const (
	srcGMSA     = "https://kubernetes.io/docs/tasks/configure-pod-container/configure-gmsa/"
	srcGMSATrap = "https://learn.microsoft.com/virtualization/windowscontainers/" +
		"manage-containers/gmsa-troubleshooting"
	srcGMSAHook   = "github.com/kubernetes-sigs/windows-gmsa admission-webhook"
	srcValidateWO = "k8s.io/kubernetes pkg/apis/core/validation: validateWindowsSecurityContextOptions"
)

// gmsaRules are about group managed service accounts.
func gmsaRules() []Rule {
	return []Rule{
		{
			Code:     "WIN101",
			Title:    "invalid `gmsaCredentialSpecName`",
			Severity: policy.Error,
			Field:    "securityContext.windowsOptions.gmsaCredentialSpecName",
			Why: "The field names a resource, so it must be a DNS subdomain in lower case. gmsa-WebApp1, from the " +
				"Kubernetes documentation, is not valid.",
			Fix:     "write the name of the GMSACredentialSpec, in lower case",
			Sources: []string{srcValidateWO},
			Proof:   "test/conformance/validation.TestEveryField",
			pod:     eachOption("gmsaCredentialSpecName", checkCredentialSpecName),
		},
		{
			Code:     "WIN102",
			Title:    "empty or too large `gmsaCredentialSpec`",
			Severity: policy.Error,
			Field:    "securityContext.windowsOptions.gmsaCredentialSpec",
			Why:      "Inlined contents must not be empty and must be at most 64 KiB.",
			Fix:      "leave the field to the webhook",
			Sources:  []string{srcValidateWO},
			Proof:    "test/conformance/validation.TestEveryField",
			pod:      eachOption("gmsaCredentialSpec", checkCredentialSpecSize),
		},
		{
			Code:     "WIN318",
			Title:    "`gmsaCredentialSpecName` needs the webhook",
			Severity: policy.Info,
			Field:    "securityContext.windowsOptions.gmsaCredentialSpecName",
			Why: "The kubelet passes on only gmsaCredentialSpec, which the GMSA webhook fills in. Without the " +
				"webhook the name is ignored.",
			Fix:     "install the windows-gmsa webhook",
			Sources: []string{"k8s.io/kubernetes pkg/kubelet/kuberuntime: kuberuntime_container_windows.go"},
			pod:     checkNameWithoutContents,
		},
		{
			Code:     "WIN320",
			Title:    "GMSA by annotation",
			Severity: policy.Warning,
			Field:    "metadata.annotations",
			Why:      "The alpha annotations have been ignored since Kubernetes 1.16.",
			Fix:      "use windowsOptions.gmsaCredentialSpecName",
			Sources:  []string{srcGMSA},
			pod:      checkGMSAAnnotations,
		},
		{
			Code:     "WIN504",
			Title:    "GMSA with a user that does not use it",
			Severity: policy.Warning,
			Field:    "securityContext.windowsOptions.runAsUserName",
			Why:      "Only NT AUTHORITY\\NETWORK SERVICE and NT AUTHORITY\\SYSTEM appear as the GMSA on the network.",
			Fix:      `set runAsUserName: NT AUTHORITY\NETWORK SERVICE, or run an application pool as it`,
			Sources:  []string{srcGMSATrap},
			pod:      checkGMSAUser,
		},
		{
			Code:     "WIN506",
			Title:    "GMSA with one `hostname` for several pods",
			Severity: policy.Warning,
			Field:    "hostname",
			Why: "Several pods that share a GMSA and a host name occasionally lose their trust relationship with " +
				"the domain.",
			Fix:     "remove hostname, or let the webhook make one (randomHostname)",
			Sources: []string{srcGMSATrap},
			pod:     checkGMSAHostname,
		},
		{
			Code:     "WIN507",
			Title:    "incomplete credential spec",
			Severity: policy.Warning,
			Field:    "credspec",
			Why: "A credential spec has the plug-in ActiveDirectory, the SID of the domain (S-1-5-21-…), the " +
				"account's name without domain and $, two entries for the account (scope DNS name and NetBIOS " +
				"name), and DnsName and DnsTreeName; HostAccountConfig has PortableCcgVersion 1, PluginGUID and " +
				"PluginInput.",
			Fix:     "recreate it with New-CredentialSpec",
			Sources: []string{srcGMSATrap, srcGMSAHook + "/../deploy/gmsa-crd.yml"},
			kinds:   []string{"GMSACredentialSpec"},
			object:  checkCredentialSpec,
		},
		{
			Code:     "WIN509",
			Title:    "inlined GMSA without a name",
			Severity: policy.Warning,
			Field:    "securityContext.windowsOptions.gmsaCredentialSpec",
			Why: "The webhook refuses contents that do not name their resource. Without that check, no component " +
				"verifies that the pod may use the account.",
			Fix:     "set gmsaCredentialSpecName and leave the contents to the webhook",
			Sources: []string{srcGMSAHook + "/webhook.go"},
			pod:     checkContentsWithoutName,
		},
		{
			Code:     "WIN510",
			Title:    "GMSA on an init or ephemeral container",
			Severity: policy.Warning,
			Field:    "initContainers[*].securityContext.windowsOptions",
			Why: "The upstream webhook handles only the pod and its regular containers: on init and ephemeral " +
				"containers it neither fills in the contents nor authorises them.",
			Fix:     "set it on the pod",
			Sources: []string{srcGMSAHook + "/webhook.go"},
			pod:     checkGMSAContainers,
		},
		{
			Code:     "WIN511",
			Title:    "deprecated version of GMSACredentialSpec",
			Severity: policy.Warning,
			Field:    "apiVersion",
			Why:      "windows.k8s.io/v1alpha1 is deprecated.",
			Fix:      "write windows.k8s.io/v1",
			Sources:  []string{srcGMSAHook + "/../deploy/gmsa-crd.yml"},
			kinds:    []string{"GMSACredentialSpec"},
			object:   checkCredentialSpecVersion,
		},
	}
}

func checkCredentialSpecName(p *policy.Pod, v tree.Value, r reporter) {
	for _, msg := range validation.IsDNS1123Subdomain(v.Str()) {
		r.at(v, "gmsaCredentialSpecName %q: %s", v.Str(), msg)
	}
}

func checkCredentialSpecSize(p *policy.Pod, v tree.Value, r reporter) {
	if n := len(v.Str()); n == 0 || n > credentialSpecMaxBytes {
		r.at(v, "gmsaCredentialSpec has %d bytes; want 1 to %d", n, credentialSpecMaxBytes)
	}
}

func checkNameWithoutContents(p *policy.Pod, r reporter) {
	for _, o := range policy.WindowsOptions(p) {
		if v := o.Get("gmsaCredentialSpecName"); v.Set() && !o.Get("gmsaCredentialSpec").Set() {
			r.at(v, "gmsaCredentialSpecName has an effect only where the GMSA webhook is installed")
		}
	}
}

func checkGMSAAnnotations(p *policy.Pod, r reporter) {
	a := p.Meta.Find("annotations")
	for _, k := range a.Keys() {
		if k == "pod.alpha.windows.kubernetes.io/gmsa-credential-spec-name" ||
			strings.HasSuffix(k, ".container.alpha.windows.kubernetes.io/gmsa-credential-spec-name") {
			r.at(a.Get(k), "the annotation %s is ignored", k)
		}
	}
}

func checkGMSAUser(p *policy.Pod, r reporter) {
	for _, c := range p.Containers {
		u := p.Option(c, "runAsUserName")
		if s := strings.ToLower(u.Str()); p.Option(c, "gmsaCredentialSpecName").Set() && s != "" &&
			s != `nt authority\system` && s != `nt authority\network service` && s != `nt authority\networkservice` {
			r.at(u, "container %s: %s does not use the GMSA on the network", c.Name, u.Str())
		}
	}
}

func checkGMSAHostname(p *policy.Pod, r reporter) {
	v := p.Spec.Find("hostname")
	if n, _ := p.Object.Get("spec", "replicas").Int(); v.Set() && !p.Bare && (n > 1 || p.Object.Kind == "DaemonSet") &&
		usesGMSA(p) {
		r.at(v, "all pods of this %s have the host name %s", p.Object.Kind, v.Str())
	}
}

func checkContentsWithoutName(p *policy.Pod, r reporter) {
	for _, o := range policy.WindowsOptions(p) {
		if v := o.Get("gmsaCredentialSpec"); v.Set() && !o.Get("gmsaCredentialSpecName").Set() {
			r.at(v, "gmsaCredentialSpec is set without gmsaCredentialSpecName")
		}
	}
}

func checkGMSAContainers(p *policy.Pod, r reporter) {
	for _, c := range p.Containers {
		o := c.Find("securityContext", "windowsOptions")
		if c.List != "containers" && (o.Get("gmsaCredentialSpecName").Set() || o.Get("gmsaCredentialSpec").Set()) {
			r.at(o, "container %s: the GMSA webhook ignores %s", c.Name, c.List)
		}
	}
}

func checkCredentialSpecVersion(o *policy.Object, r reporter) {
	if v := o.Get("apiVersion"); v.Str() == "windows.k8s.io/v1alpha1" {
		r.at(v, "windows.k8s.io/v1alpha1 is deprecated").Edit(tree.Replace, v.Path(), "windows.k8s.io/v1")
	}
}

// eachOption calls f with an option of the pod and of every container.
func eachOption(name string, f func(*policy.Pod, tree.Value, reporter)) func(*policy.Pod, reporter) {
	return func(p *policy.Pod, r reporter) {
		for _, at := range append([]tree.Value{p.Spec}, policy.ContainerValues(p.Containers)...) {
			if v := at.Find("securityContext", "windowsOptions", name); v.Set() {
				f(p, v, r)
			}
		}
	}
}

func usesGMSA(p *policy.Pod) bool {
	return slices.ContainsFunc(policy.WindowsOptions(p), func(o tree.Value) bool {
		return o.Get("gmsaCredentialSpecName").Set()
	})
}

func checkCredentialSpec(o *policy.Object, r reporter) {
	spec := o.Get("credspec")
	if !spec.Set() {
		r.as(policy.Error, spec,
			"credspec is missing: the webhook answers 417, cred spec %s does not have a credspec key",
			o.Name)
		return
	}
	plugins, _ := json.Marshal(spec.Get("CmsPlugins").Raw())
	if !strings.Contains(string(plugins), `"ActiveDirectory"`) {
		r.at(spec.Get("CmsPlugins"), "CmsPlugins does not contain ActiveDirectory")
	}
	join := spec.Get("DomainJoinConfig")
	if sid := join.Get("Sid"); !strings.HasPrefix(sid.Str(), "S-1-5-21-") {
		r.at(sid, "Sid %q is not the SID of a domain (S-1-5-21-…)", sid.Str())
	}
	for _, k := range []string{"DnsName", "DnsTreeName"} {
		if v := join.Get(k); !strings.Contains(v.Str(), ".") {
			r.at(v, "%s %q is not a fully qualified name", k, v.Str())
		}
	}
	accountName := func(v tree.Value) {
		if s := v.Str(); s == "" || strings.ContainsAny(s, `$\@`) {
			r.at(v, "%q: want the account's name without domain and without $", s)
		}
	}
	accountName(join.Get("MachineAccountName"))
	accounts := spec.Get("ActiveDirectoryConfig", "GroupManagedServiceAccounts")
	if accounts.Len() < 2 {
		r.at(accounts, "GroupManagedServiceAccounts has %d entries; want one with the DNS name and one with the "+
			"NetBIOS name of the domain as Scope", accounts.Len())
	}
	for _, a := range accounts.Items() {
		accountName(a.Get("Name"))
	}
	if host := spec.Get("ActiveDirectoryConfig", "HostAccountConfig"); host.Set() {
		if v := host.Get("PortableCcgVersion"); fmt.Sprint(v.Raw()) != "1" {
			r.at(v, "PortableCcgVersion must be 1")
		}
		if v := host.Get("PluginGUID"); !strings.HasPrefix(v.Str(), "{") {
			r.at(v, "PluginGUID %q must be a GUID in braces", v.Str())
		}
		if v := host.Get("PluginInput"); v.Str() == "" {
			r.at(v, "PluginInput is missing")
		}
	}
}
