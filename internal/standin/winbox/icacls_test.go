// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package winbox

import (
	"bytes"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"testing"
)

// secured is a Windows with one directory that has entries.
type secured struct {
	fakeSystem
	at    Security
	owner string
}

const (
	sidAdministrators = "S-1-5-32-544"
	sidUsers          = "S-1-5-32-545"
)

func (s *secured) Security(path string) (Security, error) {
	if path != `C:\app` {
		return Security{}, &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
	}
	return s.at, nil
}

func (s *secured) SetSecurity(_ string, to Security) error { s.at = to; return nil }
func (s *secured) SetOwner(_, sid string) error            { s.owner = sid; return nil }

func (s *secured) LookupSID(name string) (string, error) {
	if strings.EqualFold(name, "users") || strings.EqualFold(name, `builtin\users`) {
		return sidUsers, nil
	}
	return "", errors.New("no such account")
}

func newSecured() *secured {
	return &secured{at: Security{Dir: true, Entries: []Entry{
		{SID: sidAdministrators, Name: `BUILTIN\Administrators`, Flags: 0x13, Mask: rightsFull},
		{SID: "S-1-3-0", Name: "CREATOR OWNER", Flags: 0x1b, Mask: 0x10000000},
		{SID: sidUsers, Name: `BUILTIN\Users`, Flags: 0x13, Mask: rightsExecute},
		{SID: sidUsers, Name: `BUILTIN\Users`, Flags: 0x12, Mask: 4},
		{SID: "S-1-5-99", Flags: 0x10, Mask: rightsModify | 0x40, Deny: true},
	}}}
}

// runIcacls returns what is printed, with one line end.
func runIcacls(t *testing.T, s *secured, args ...string) (out string, code int) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code = Run(t.Context(), append([]string{"icacls.exe"}, args...), &Env{Stdout: &stdout, Stderr: &stderr, System: s})
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
		if slices.Contains(row.args, "/T") {
			code, out = 0, want // the directory has no content here
		}
		if code != 0 || out != want {
			t.Errorf("%v: exit %d, %s", row.args, code, out)
		}
		var got []string
		for _, e := range s.at.Entries {
			if e.Flags&inherited == 0 {
				got = append(got, e.show())
			}
		}
		if !slices.Equal(got, row.want) {
			t.Errorf("%v: entries %q, want %q", row.args, got, row.want)
		}
	}
	s := newSecured()
	out, code := runIcacls(t, s, `C:\app`, "/setowner", "Users", "/q")
	if code != 0 || out != "" || s.owner != sidUsers {
		t.Errorf("setowner: exit %d, %q, owner %q", code, out, s.owner)
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
