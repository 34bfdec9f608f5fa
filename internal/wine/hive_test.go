// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package wine

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mullion-k8s/mullion/internal/testenv"
	"github.com/mullion-k8s/mullion/internal/winsys/winver"
)

const sampleHive = `WINE REGISTRY Version 2
;; All keys relative to REGISTRY\\Machine

#arch=win64

[Software\\Classes\\*\\shellex] 1795250080
#time=1dd7993268890ac
@="default"
"name \"quoted\" = odd"="x=y"

[Software\\Microsoft\\Windows NT\\CurrentVersion] 1795250080
#time=1dd79932698bd60
"CSDVersion"="Service Pack 1"
"CurrentBuild"="7601"
"DigitalProductId"=hex:00,00,\
  00,01

[Software\\Microsoft\\Windows NT\\CurrentVersion\\AeDebug] 1795250080
"Auto"="1"

`

func TestHiveRoundTrip(t *testing.T) {
	h, err := parseHive([]byte(sampleHive))
	if err != nil {
		t.Fatal(err)
	}
	if got := string(h.bytes()); got != sampleHive {
		t.Errorf("written back:\n%s", got)
	}
}

func TestHiveEdit(t *testing.T) {
	h, err := parseHive([]byte(sampleHive))
	if err != nil {
		t.Fatal(err)
	}
	h.apply([]change{
		{key: `software\microsoft\windows nt\currentversion`, values: []value{
			{"CurrentBuild", "17763"}, {"CSDVersion", nil}, {"UBR", uint32(7919)}, {"Path", expand(`%SystemRoot%\x`)},
			{"List", []string{"a", "b"}}, {"Unicode", "Grüße"},
		}},
		{key: `Software\Microsoft\Windows NT\CurrentVersion\AeDebug`, remove: true},
		{key: `System\New`},
	})
	testenv.Golden(t, "hive_edit.reg", h.bytes())
}

func TestBuildChanges(t *testing.T) {
	var b bytes.Buffer
	for _, build := range winver.All() {
		h := &hive{header: []string{"; " + build.String()}}
		h.apply(buildChanges(build.WithUBR(1)))
		b.Write(h.bytes())
	}
	testenv.Golden(t, "builds.reg", b.Bytes())
}

// TestNoDebugger: no build has Wine's debugger for programs that crash.
func TestNoDebugger(t *testing.T) {
	h, err := parseHive([]byte(sampleHive))
	if err != nil {
		t.Fatal(err)
	}
	for _, build := range winver.All() {
		h.apply(buildChanges(build))
		if strings.Contains(string(h.bytes()), "AeDebug") {
			t.Errorf("%s has AeDebug:\n%s", build, h.bytes())
		}
	}
}

func TestHiveErrors(t *testing.T) {
	for name, text := range map[string]string{
		"empty":          "",
		"another format": "REGEDIT4\n",
		"open key":       "WINE REGISTRY Version 2\n[Key\n",
		"loose text":     "WINE REGISTRY Version 2\n[Key] 1\nnonsense\n",
		"open name":      "WINE REGISTRY Version 2\n[Key] 1\n\"name\n",
	} {
		if _, err := parseHive([]byte(text)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// FuzzHive: what can be read is written back to the same keys and values.
func FuzzHive(f *testing.F) {
	f.Add([]byte(sampleHive))
	f.Add([]byte("WINE REGISTRY Version 2\n[a]\n\"\\\\\"=dword:1\n@=\"\"\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		h, err := parseHive(data)
		if err != nil {
			return
		}
		first := h.bytes()
		again, err := parseHive(first)
		if err != nil {
			t.Fatalf("%v\n%q", err, first)
		}
		if second := again.bytes(); !bytes.Equal(first, second) {
			t.Errorf("%q\n%q", first, second)
		}
	})
}

func TestRenameUser(t *testing.T) {
	in := `"USERPROFILE"="C:\\users\\Administrator"` + "\n" + `"Owner"="Administrator"` + "\n" +
		`"Group"="Administrators"`
	got := string(renameUser([]byte(in), "Administrator", "ContainerAdministrator"))
	want := strings.NewReplacer(`\\Administrator"`, `\\ContainerAdministrator"`, `="Administrator"`,
		`="ContainerAdministrator"`).Replace(in)
	if got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}

func TestValueNames(t *testing.T) {
	dir := t.TempDir()
	const text = "WINE REGISTRY Version 2\n\n[System\\\\ControlSet001\\\\Services\\\\X] 1\n#time=1\n@=\"d\"\n" +
		"\"10.0.0.0,255.0.0.0,10.1.1.1,1\"=\"\"\n\"second\"=dword:00000001\n\n[Other] 1\n\"third\"=\"\"\n"
	if err := os.WriteFile(filepath.Join(dir, "system.reg"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string][]string{
		`system\currentcontrolset\services\x`: {"10.0.0.0,255.0.0.0,10.1.1.1,1", "second"},
		`System\CurrentControlSet\Services`:   nil,
	} {
		if got, err := ValueNames(dir, key); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %q, %v; want %q", key, got, err, want)
		}
	}
	if _, err := ValueNames(filepath.Join(dir, "no"), "x"); err == nil {
		t.Error("a prefix that is not there has values")
	}
}
