// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"strings"
	"unicode"

	"github.com/mullion-k8s/mullion/internal/cri/store"
)

// credentialSpec holds the fields that the Host Compute Service reads from a
// credential specification for a group managed service account:
// learn.microsoft.com/virtualization/windowscontainers/manage-containers/manage-serviceaccounts.
type credentialSpec struct {
	CmsPlugins       []string
	DomainJoinConfig struct {
		Sid, MachineAccountName, Guid, DnsTreeName, DnsName, NetBiosName string
	}
	ActiveDirectoryConfig struct {
		GroupManagedServiceAccounts []struct{ Name, Scope string }
		HostAccountConfig           struct{ PortableCcgVersion, PluginGUID, PluginInput string }
	}
}

// maxCredentialSpecBytes is Kubernetes' limit (validation.go,
// maxGMSACredentialSpecLength).
const maxCredentialSpecBytes = 64 << 10

// errInvalidJSON is the text of HCS_E_INVALID_JSON (0xc037010d).
//
//nolint:staticcheck // Windows' own words
var errInvalidJSON = errors.New("The virtual machine or container JSON document is invalid.")

// parseCredentialSpec refuses text that is not a JSON object, or has a field of
// the wrong type. The service requires no more: on a node outside the domain,
// such as an emulated host, a container with structurally valid JSON starts
// (KEP-689, keps/sig-windows/689-windows-gmsa, "failure scenarios"). Unknown
// names are ignored.
func parseCredentialSpec(text string) (credentialSpec, error) {
	if n := len(text); n > maxCredentialSpecBytes {
		return credentialSpec{}, fmt.Errorf("the credential spec has %d bytes, want at most %d", n,
			maxCredentialSpecBytes)
	}
	var spec *credentialSpec
	if json.Unmarshal([]byte(text), &spec) != nil || spec == nil {
		return credentialSpec{}, errInvalidJSON
	}
	return *spec, nil
}

// credentialGuard stands for the creation of a container credential guard
// instance. A sandbox with a credential specification has one, and so does each
// container. The error text is the same as in hcsshim
// (internal/credentials/credentials.go) and containerd.
func credentialGuard(text string) (credentialSpec, error) {
	spec, err := parseCredentialSpec(text)
	if err != nil {
		return spec, fmt.Errorf("failed to create containerd task: failed to create shim task: failed to generate "+
			"container credential guard instance: hcs::ModifyServiceSettings: %w: unknown", err)
	}
	return spec, nil
}

// domainFile on drive C has the domain of the container's credential specification,
// for nltest.exe of the stand-ins. On Windows the system gets it from the Host
// Compute Service.
const domainFile = "windows/system32/config/mullion-domain"

// joinDomain takes a container's credential specification, if it has one. Host
// process containers have no use for it (hcsshim's internal/jobcontainers).
func (s *Server) joinDomain(c store.Container, sb store.Sandbox) error {
	text := c.Config.GetWindows().GetSecurityContext().GetCredentialSpec()
	if text == "" || sb.HostProcess {
		return nil
	}
	spec, err := credentialGuard(text)
	if err != nil {
		return err
	}
	lines := oneLine(spec.DomainJoinConfig.DnsName) + "\n" + oneLine(spec.DomainJoinConfig.NetBiosName) + "\n"
	// A link that the image has in the path leads nowhere outside of drive C.
	drive, err := os.OpenRoot(s.dir(c.ID, rootDir))
	if err == nil {
		defer func() { _ = drive.Close() }() // opened for one file
		err = drive.MkdirAll(path.Dir(domainFile), 0o755)
	}
	if err == nil {
		err = drive.WriteFile(domainFile, []byte(lines), 0o644)
	}
	if err != nil {
		return fmt.Errorf("write domain of container %s: %w", c.ID, err)
	}
	return nil
}

// oneLine returns a name without the characters that no domain name has.
func oneLine(name string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return -1
	}, name)
}
