// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/mullion-k8s/mullion/internal/cri/store"
)

// credentialSpec is what the Host Compute Service reads of a credential
// specification for a group managed service account:
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

// maxCredentialSpecBytes is what Kubernetes admits (validation.go,
// maxGMSACredentialSpecLength).
const maxCredentialSpecBytes = 64 << 10

// errInvalidJSON is the text of HCS_E_INVALID_JSON (0xc037010d).
var errInvalidJSON = errors.New("The virtual machine or container JSON document is invalid.") //nolint:staticcheck // Windows' own words

// parseCredentialSpec refuses what the service could not read. Names and
// spellings that it does not know it ignores.
func parseCredentialSpec(text string) (credentialSpec, error) {
	var spec credentialSpec
	d := json.NewDecoder(bytes.NewReader([]byte(text)))
	if len(text) > maxCredentialSpecBytes || d.Decode(&spec) != nil || d.More() {
		return spec, errInvalidJSON
	}
	if !slices.Contains(spec.CmsPlugins, "ActiveDirectory") || spec.DomainJoinConfig.DnsName == "" {
		return spec, errInvalidJSON
	}
	return spec, nil
}

// domainFile in the status directory tells nltest.exe of the stand-ins which
// domain the container has joined.
const domainFile = "domain"

// joinDomain takes a container's credential specification, if it has one. The
// words are hcsshim's and the service's (internal/credentials/credentials.go).
func (s *Server) joinDomain(c store.Container) error {
	text := c.Config.GetWindows().GetSecurityContext().GetCredentialSpec()
	if text == "" {
		return nil
	}
	spec, err := parseCredentialSpec(text)
	if err != nil {
		return fmt.Errorf("failed to create shim task: failed to generate container credential guard instance: hcs::ModifyServiceSettings: %w: unknown", err)
	}
	return os.WriteFile(filepath.Join(s.dir(c.ID, statusDir), domainFile), []byte(spec.DomainJoinConfig.DnsName+"\n"), 0o644)
}
