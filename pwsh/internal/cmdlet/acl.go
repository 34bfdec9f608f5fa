// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package cmdlet

import (
	"errors"
	"io/fs"

	"github.com/mullion-k8s/mullion/pwsh/host"
	"github.com/mullion-k8s/mullion/pwsh/internal/dotnet"
	"github.com/mullion-k8s/mullion/pwsh/internal/interp"
	"github.com/mullion-k8s/mullion/pwsh/internal/value"
)

// aclCmdlets read and change who may use a file.
func aclCmdlets() []*interp.Cmdlet {
	return []*interp.Cmdlet{
		{
			Name: "Get-Acl",
			Params: "Path[]@0.< LiteralPath|PSPath[] Audit?~ AllCentralAccessPolicies?~ InputObject~ Include[]~ " +
				"Exclude[]~ Filter~",
			Fidelity: "files and directories only; shown as a list",
			Process:  getACL,
		},
		{
			Name: "Set-Acl",
			Params: "Path[]@0. AclObject:any@1!< LiteralPath|PSPath[] Passthru? ClearCentralAccessPolicy?~ " +
				"Include[]~ Exclude[]~ Filter~",
			Fidelity: "files and directories only",
			Process:  setACL,
		},
	}
}

func fileSecurity(c *interp.Invocation) (host.FileSecurity, error) {
	if s := c.R.Handlers().Security; s != nil {
		return s, nil
	}
	return nil, interp.NotImplemented("access control, which only Windows has,")
}

// aclPaths returns the full paths that the arguments mean.
func aclPaths(c *interp.Invocation) ([]string, error) {
	var out []string
	for _, p := range append(append([]string{}, c.Strs("Path")...), c.Strs("LiteralPath")...) {
		if d, _, ok := providerPath(p); ok && d != "file" {
			return nil, interp.NotImplemented("access control of the drive " + d + ":")
		}
		if value.HasWildcard(p) && !c.Has("LiteralPath") {
			out = append(out, expand(c.R, p)...)
			continue
		}
		out = append(out, c.R.Path(p))
	}
	return out, nil
}

func aclError(name string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return interp.Failf("System.Management.Automation.ItemNotFoundException", "GetAcl_PathNotFound_Exception",
			"ObjectNotFound", name, "Cannot find path '%s' because it does not exist.", name)
	case errors.Is(err, fs.ErrPermission):
		return interp.Failf("System.UnauthorizedAccessException", "System.UnauthorizedAccessException",
			"PermissionDenied", name, "Attempted to perform an unauthorized operation.")
	}
	return err
}

func getACL(c *interp.Invocation) error {
	s, err := fileSecurity(c)
	if err != nil {
		return err
	}
	paths, err := aclPaths(c)
	if err != nil {
		return err
	}
	if len(paths) == 0 && !c.Has("Path") {
		paths = []string{c.R.Path(".")}
	}
	for _, p := range paths {
		if err := c.Error(writeACL(c, s, p)); err != nil {
			return err
		}
	}
	return nil
}

func writeACL(c *interp.Invocation, s host.FileSecurity, name string) error {
	fi, err := statPath(c.R, name)
	if err != nil {
		return aclError(name, err)
	}
	security, err := s.Security(name)
	if err != nil {
		return aclError(name, err)
	}
	o := &value.Object{Base: dotnet.NewFileSecurity(c.R, security, fi.IsDir())}
	full := "Microsoft.PowerShell.Core\\FileSystem::" + name
	for _, p := range [][2]string{{"Path", full}, {"PSPath", full}, {"PSChildName", interp.LeafPath(name)}} {
		o.Set(p[0], p[1])
	}
	return c.Write(asList(o, "Path", "Owner", "Group", "AccessToString", "Sddl"))
}

func setACL(c *interp.Invocation) error {
	s, err := fileSecurity(c)
	if err != nil {
		return err
	}
	given, ok := dotnet.SecurityOf(c.Any("AclObject"))
	if !ok {
		return badArgument("AclObject", "AclObject must be what Get-Acl returns")
	}
	paths, err := aclPaths(c)
	if err != nil {
		return err
	}
	to := given.Security
	if !given.NewOwner {
		to.Owner = host.Account{}
	}
	for _, p := range paths {
		_, err := statPath(c.R, p)
		if err == nil {
			err = s.SetSecurity(p, to)
		}
		if err := c.Error(aclError(p, err)); err != nil {
			return err
		}
		if c.Switch("Passthru") && err == nil {
			if err := writeACL(c, s, p); err != nil {
				return err
			}
		}
	}
	return nil
}
