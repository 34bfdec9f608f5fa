// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package winbox

import (
	"bytes"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/mullion-k8s/mullion/pwsh/host"
	"github.com/mullion-k8s/mullion/pwsh/host/hosttest"
)

// secured is a machine with one directory, which has entries.
type secured struct{ *memory }

// memory renames the embedded type, whose name is that of a method.
type memory = hosttest.Security

const (
	sidAdministrators = "S-1-5-32-544"
	sidUsers          = "S-1-5-32-545"
)

func (s *secured) Security(path string) (host.Security, error) {
	if path != `C:\app` {
		return host.Security{}, &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
	}
	return s.All, nil
}

func newSecured() *secured {
	all := func(sid, name string, rights uint32) host.AccessRule {
		return host.AccessRule{Account: host.Account{SID: sid, Name: name}, Rights: rights, Inherited: true,
			Inheritance: 3}
	}
	rules := []host.AccessRule{
		all(sidAdministrators, `BUILTIN\Administrators`, rightsFull), all("S-1-3-0", "CREATOR OWNER", 0x10000000),
		all(sidUsers, `BUILTIN\Users`, rightsExecute), all(sidUsers, `BUILTIN\Users`, 4),
		all("S-1-5-99", "", rightsModify|0x40),
	}
	rules[1].Propagation, rules[3].Inheritance = 2, 1
	rules[4].Inheritance, rules[4].Deny = 0, true
	return &secured{&memory{
		All:   host.Security{Owner: host.Account{SID: sidAdministrators}, Rules: rules},
		Known: []host.Account{{SID: sidUsers, Name: "users"}},
	}}
}

// runIcacls returns what is printed, with one line end.
func runIcacls(t *testing.T, s *secured, args ...string) (out string, code int) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	drive := hosttest.Drive{Dir: t.TempDir()}
	if err := drive.MkdirAll(`C:\app`, 0o755); err != nil {
		t.Fatal(err)
	}
	code = Run(t.Context(), append([]string{"icacls.exe"}, args...),
		&Env{Stdout: &stdout, Stderr: &stderr, Host: host.Handlers{Security: s, Files: drive}})
	return strings.ReplaceAll(stderr.String()+stdout.String(), "\r\n", "\n"), code
}

func TestIcaclsShows(t *testing.T) {
	want := `C:\app BUILTIN\Administrators:(I)(OI)(CI)(F)
       CREATOR OWNER:(I)(OI)(CI)(IO)(F)
       BUILTIN\Users:(I)(OI)(CI)(RX)
       BUILTIN\Users:(I)(CI)(AD)
       S-1-5-99:(I)(DENY)(M,DC)

Successfully processed 1 files; Failed processing 0 files
`
	if got, code := runIcacls(t, newSecured(), `C:\app`); got != want || code != 0 {
		t.Errorf("exit %d, %s\nwant %s", code, got, want)
	}
}

func TestIcaclsChanges(t *testing.T) {
	for _, row := range []struct {
		args []string
		want []string // the entries that are not inherited
	}{
		{[]string{"/grant", `Users:(OI)(CI)M`}, []string{"Users:(OI)(CI)(M)"}},
		{[]string{"/grant", "*S-1-1-0:(RD,X)", "/T"}, []string{"*S-1-1-0:(RD,X)"}},
		{[]string{"/grant", "Users:R", "/deny", "Users:W"}, []string{"Users:(DENY)(W)", "Users:(R)"}},
		{[]string{"/grant", "Users:R", "/grant", "Users:W"}, []string{"Users:(R,W)"}},
		{[]string{"/grant", "Users:F", "/grant:r", "Users:R"}, []string{"Users:(R)"}},
		{[]string{"/grant", "Users:F", "/remove", "Users"}, nil},
		{[]string{"/grant", "Users:F", "/remove:d", "Users"}, []string{"Users:(F)"}},
		{[]string{"/grant", "Users:F", "/reset"}, nil},
		{[]string{"/inheritance:r", "/grant", "Users:F"}, []string{"Users:(F)"}},
		{[]string{"/inheritance:d"}, []string{
			`BUILTIN\Administrators:(OI)(CI)(F)`, "CREATOR OWNER:(OI)(CI)(IO)(F)", `BUILTIN\Users:(OI)(CI)(RX)`,
			`BUILTIN\Users:(CI)(AD)`, "S-1-5-99:(DENY)(M,DC)",
		}},
	} {
		s := newSecured()
		out, code := runIcacls(t, s, append([]string{`C:\app`}, row.args...)...)
		want := "processed file: C:\\app\nSuccessfully processed 1 files; Failed processing 0 files\n"
		if code != 0 || out != want {
			t.Errorf("%v: exit %d, %s", row.args, code, out)
		}
		var got []string
		for _, e := range s.All.Rules {
			if !e.Inherited {
				got = append(got, showRule(e))
			}
		}
		if s.All.Owner.SID != sidAdministrators {
			t.Errorf("%v: the owner is now %s", row.args, s.All.Owner.SID)
		}
		if !slices.Equal(got, row.want) {
			t.Errorf("%v: entries %q, want %q", row.args, got, row.want)
		}
	}
	s := newSecured()
	out, code := runIcacls(t, s, `C:\app`, "/setowner", "Users", "/q")
	if code != 0 || out != "" || s.All.Owner.SID != sidUsers {
		t.Errorf("setowner: exit %d, %q, owner %q", code, out, s.All.Owner.SID)
	}
}

func TestIcaclsRefuses(t *testing.T) {
	for _, row := range []struct {
		args []string
		want string
		code int
	}{
		{[]string{`C:\nowhere`}, "C:\\nowhere: The system cannot find the file specified.\n" +
			"Successfully processed 0 files; Failed processing 1 files\n", 2},
		{[]string{`C:\app`, "/grant", "Stranger:F"}, "Stranger: No mapping between account names and security IDs " +
			"was done.\nSuccessfully processed 0 files; Failed processing 1 files\n", 1332},
		{[]string{`C:\app`, "/grant", "Users"}, "Invalid parameter \"Users\"\n", 87},
		{[]string{`C:\app`, "/grant", "Users:Q"}, "Invalid parameter \"Users:Q\"\n", 87},
		{[]string{`C:\app`, "/grant"}, "Invalid parameter \"/grant\"\n", 87},
		{[]string{`C:\app`, "/save", "file"}, "Invalid parameter \"/save\"\n", 87},
		{[]string{`C:\app`, "/inheritance:x"}, "Invalid parameter \"/inheritance:x\"\n", 87},
	} {
		if got, code := runIcacls(t, newSecured(), row.args...); got != row.want || code != row.code {
			t.Errorf("%v: exit %d, %q; want %d, %q", row.args, code, got, row.code, row.want)
		}
	}
	if _, code := runIcacls(t, newSecured()); code != 87 {
		t.Errorf("without arguments: exit %d", code)
	}
}
