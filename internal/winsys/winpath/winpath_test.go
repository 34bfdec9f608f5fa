// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package winpath

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestClean(t *testing.T) {
	for _, tt := range []struct {
		in, want string
		kind     Kind
	}{
		{"", ".", Relative},
		{`a/b\\c\.`, `a\b\c`, Relative},
		{`..\a\..\..\b`, `..\..\b`, Relative},
		{`c:\x\..\..\y\`, `C:\y`, Drive},
		{"C:/var/lib/kubelet", `C:\var\lib\kubelet`, Drive},
		{"C:", "C:", DriveRelative},
		{"C:a", "C:a", DriveRelative},
		{`C:\`, `C:\`, Drive},
		{`\var\log\pods`, `\var\log\pods`, Rooted},
		{"/etc/x/", `\etc\x`, Rooted},
		{`\\server\share\a\..\b`, `\\server\share\b`, UNC},
		{"//server/share", `\\server\share`, UNC},
		{`\\server`, `\\server`, UNC},
		{`\\.\pipe\docker_engine`, `\\.\pipe\docker_engine`, Device},
		{`\\?\C:\a\.\b`, `C:\a\b`, Drive},
		{`\\?\UNC\s\h\a`, `\\s\h\a`, UNC},
		{`\\?\unix\etc\passwd`, `\\?\unix\etc\passwd`, Device},
	} {
		if got := Clean(tt.in); got != tt.want {
			t.Errorf("Clean(%q) = %q, want %q", tt.in, got, tt.want)
		}
		if got := KindOf(tt.in); got != tt.kind {
			t.Errorf("KindOf(%q) = %v, want %v", tt.in, got, tt.kind)
		}
	}
}

func TestJoin(t *testing.T) {
	for _, tt := range []struct {
		in   []string
		want string
	}{
		{nil, ""},
		{[]string{`C:\`, "a", "b/c"}, `C:\a\b\c`},
		{[]string{`C:\a`, `\b`}, `C:\a\b`},
		{[]string{`C:\a`, `C:\b`}, `C:\a\b`},
		{[]string{"a", "..", "b"}, "b"},
		{[]string{`C:\`}, `C:\`},
	} {
		if got := Join(tt.in...); got != tt.want {
			t.Errorf("Join(%q) = %q, want %q", tt.in, got, tt.want)
		}
	}
}

func TestElements(t *testing.T) {
	for in, want := range map[string]string{
		`C:\a\B`: "a/B", "c:/a": "a", `\a`: "a", "a": "a", `C:\..\..\x`: "x", "C:": "", `\\?\C:\x`: "x",
	} {
		if got, err := splitElements(in); err != nil || strings.Join(got, "/") != want {
			t.Errorf("Elements(%q) = %q, %v, want %q", in, got, err, want)
		}
	}
	for _, in := range []string{`D:\a`, `\\s\h\a`, `\\.\pipe\x`, `C:\a:stream`, "C:\\a\x00b", `\\?\unix\etc`} {
		if got, err := splitElements(in); err == nil {
			t.Errorf("Elements(%q) = %q, want an error", in, got)
		}
	}
}

// tree makes files (content = name), directories (trailing slash) and links
// (name -> target).
func tree(t testing.TB, specs ...string) string {
	t.Helper()
	root := t.TempDir()
	for _, s := range specs {
		name, target, link := strings.Cut(s, " -> ")
		full := filepath.Join(root, name)
		var err error
		if err = os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			t.Fatal(err)
		}
		switch {
		case link:
			err = os.Symlink(strings.ReplaceAll(target, "ROOT", root), full)
		case strings.HasSuffix(s, "/"):
			err = os.MkdirAll(full, 0o755)
		default:
			err = os.WriteFile(full, []byte(name), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestResolve(t *testing.T) {
	root := tree(t,
		"Windows/System32/cmd.exe", "var/lib/kubelet/pods/1/..2024/token", "var/lib/kubelet/pods/1/..data -> ..2024",
		`var/lib/kubelet/pods/1/token -> ..data\token`, `abs -> C:\Windows\system32`, "unix -> ROOT/Windows",
		"rooted -> /Windows", "escape -> ../../../../etc", "escape2 -> /etc/passwd", "loop -> loop", "same/A", "same/a",
		"pipe -> \\\\.\\pipe\\x", "up/link -> ../Windows",
	)
	for in, want := range map[string]string{
		`C:\windows\SYSTEM32\CMD.EXE`:   "Windows/System32/cmd.exe",
		`\var\lib\kubelet\pods\1\token`: "var/lib/kubelet/pods/1/..2024/token",
		`c:/abs/cmd.exe`:                "Windows/System32/cmd.exe",
		`C:\unix\System32`:              "Windows/System32",
		`C:\rooted\System32`:            "Windows/System32",
		`C:\new\Dir`:                    "new/Dir",
		`C:\windows\New\..\x`:           "Windows/x",
		`C:\escape\passwd`:              "etc/passwd",
		`C:\escape2`:                    "etc/passwd",
		`C:\same\a`:                     "same/a",
		`C:\same\A`:                     "same/A",
		`C:\up\link\system32`:           "Windows/System32",
		`C:\`:                           "",
	} {
		got, err := Resolve(root, in)
		if want := filepath.Join(root, want); err != nil || got != want {
			t.Errorf("Resolve(%q) = %q, %v, want %q", in, got, err, want)
		}
	}
	for _, in := range []string{`C:\loop`, `C:\Windows\System32\cmd.exe\x`, `C:\pipe`, `D:\x`, `\\.\pipe\x`, `C:\a:b`} {
		if got, err := Resolve(root, in); err == nil {
			t.Errorf("Resolve(%q) = %q, want an error", in, got)
		}
	}
}

func FuzzClean(f *testing.F) {
	for _, s := range []string{"", `C:\a\..\b`, `\\?\C:\x`, "a/../../b", `\\s\h\..`, "C:..", `\\?\UNC\`,
		`\\.`, `\\?\\`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		c := Clean(s)
		if again := Clean(c); again != c {
			t.Errorf("Clean(%q) = %q, cleaned again %q", s, c, again)
		}
		if elems, err := splitElements(s); err == nil {
			for _, e := range elems {
				if e == ".." || e == "." || e == "" || strings.ContainsAny(e, `\/`) {
					t.Errorf("Elements(%q) has %q", s, e)
				}
			}
		}
	})
}

func FuzzResolve(f *testing.F) {
	for _, s := range []string{`C:\windows\x`, `l1\l2\..\..\x`, `\..\..\etc`, "C:", `L3\passwd`} {
		f.Add(s, `..\..\..\..\etc`)
	}
	f.Fuzz(func(t *testing.T, p, target string) {
		if target == "" || strings.Contains(target, "\x00") || len(target) > 200 {
			t.Skip()
		}
		root := tree(t, "Windows/x", "l1 -> Windows", "Windows/l2 -> ../l1", "l3 -> /etc", "l4 -> "+target)
		got, err := Resolve(root, p)
		if err != nil {
			return
		}
		if got != root && !strings.HasPrefix(got, root+"/") {
			t.Errorf("Resolve(%q) = %q leaves the root", p, got)
		}
		// Nothing on the way may be a link: a mount would follow it.
		rel, _ := filepath.Rel(root, got)
		at := root
		for e := range strings.SplitSeq(rel, "/") {
			at = filepath.Join(at, e)
			if info, err := os.Lstat(at); err == nil && info.Mode()&os.ModeSymlink != 0 {
				t.Errorf("Resolve(%q) = %q, where %s is a link", p, got, at)
			}
		}
	})
}
