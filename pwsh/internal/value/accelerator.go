// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package value

import "strings"

// accelerators are the short names of types. Source: about_Type_Accelerators.
// The first name of a type is the one that is shown.
var accelerators = []struct{ short, full string }{
	{"int", "System.Int32"}, {"int32", "System.Int32"}, {"long", "System.Int64"}, {"int64", "System.Int64"},
	{"string", "System.String"}, {"bool", "System.Boolean"}, {"double", "System.Double"}, {"float", "System.Single"},
	{"single", "System.Single"}, {"byte", "System.Byte"}, {"sbyte", "System.SByte"}, {"char", "System.Char"},
	{"int16", "System.Int16"}, {"short", "System.Int16"}, {"uint16", "System.UInt16"}, {"ushort", "System.UInt16"},
	{"uint32", "System.UInt32"}, {"uint", "System.UInt32"}, {"uint64", "System.UInt64"}, {"ulong", "System.UInt64"},
	{"decimal", "System.Decimal"}, {"datetime", "System.DateTime"}, {"timespan", "System.TimeSpan"},
	{"array", "System.Array"}, {"hashtable", "System.Collections.Hashtable"},
	{"ordered", "System.Collections.Specialized.OrderedDictionary"},
	{"regex", "System.Text.RegularExpressions.Regex"}, {"guid", "System.Guid"}, {"version", "System.Version"},
	{"scriptblock", "System.Management.Automation.ScriptBlock"},
	{"switch", "System.Management.Automation.SwitchParameter"}, {"psobject", "System.Management.Automation.PSObject"},
	{"pscustomobject", "System.Management.Automation.PSObject"}, {"object", "System.Object"}, {"void", "System.Void"},
	{"type", "System.Type"}, {"uri", "System.Uri"}, {"ipaddress", "System.Net.IPAddress"}, {"math", "System.Math"},
	{"convert", "System.Convert"}, {"environment", "System.Environment"}, {"xml", "System.Xml.XmlDocument"},
	{"exception", "System.Exception"}, {"pscredential", "System.Management.Automation.PSCredential"},
	{"securestring", "System.Security.SecureString"}, {"bigint", "System.Numerics.BigInteger"},
	{"ipendpoint", "System.Net.IPEndPoint"}, {"mailaddress", "System.Net.Mail.MailAddress"},
	{"cultureinfo", "System.Globalization.CultureInfo"}, {"adsi", "System.DirectoryServices.DirectoryEntry"},
	{"wmi", "System.Management.ManagementObject"}, {"psmoduleinfo", "System.Management.Automation.PSModuleInfo"},
	{"ref", "System.Management.Automation.PSReference"},
	{"runspacefactory", "System.Management.Automation.Runspaces.RunspaceFactory"},
	{"powershell", "System.Management.Automation.PowerShell"},
	{"semver", "System.Management.Automation.SemanticVersion"},
}

// Accelerated returns the full name of a short one.
func Accelerated(name string) (string, bool) {
	for _, a := range accelerators {
		if strings.EqualFold(a.short, name) {
			return a.full, true
		}
	}
	return "", false
}
