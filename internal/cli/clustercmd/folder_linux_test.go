// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package clustercmd

import (
	"archive/tar"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/mullion-k8s/mullion/internal/cli"
	"github.com/mullion-k8s/mullion/internal/host/imageload"
	"github.com/mullion-k8s/mullion/internal/winsys/winver"
)

// peFile returns the headers of a program.
func peFile(machine, attributes uint16) string {
	b := make([]byte, 512)
	copy(b, "MZ")
	b[0x3c] = 0x40
	copy(b[0x40:], "PE\x00\x00")
	binary.LittleEndian.PutUint16(b[0x44:], machine)
	binary.LittleEndian.PutUint16(b[0x40+22:], attributes)
	return string(b)
}

// appFolder makes a folder of files.
func appFolder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		name = filepath.Join(dir, name)
		err := os.MkdirAll(filepath.Dir(name), 0o755)
		if err = errors.Join(err, os.WriteFile(name, []byte(content), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// packed runs the checks and the packing of `mullion load DIR FLAGS`.
func packed(t *testing.T, dir string, flags ...string) (archive string, err error) {
	t.Helper()
	var f folderFlags
	cmd := Load(cli.Streams{})
	cmd.ResetFlags()
	f.add(cmd)
	if err := cmd.ParseFlags(append([]string{dir}, flags...)); err != nil {
		return "", err
	}
	rest, isOne, err := f.take(cmd, cmd.Flags().Args())
	if err != nil {
		return "", err
	}
	if !isOne || !slices.Equal(rest, []string{dir}) {
		t.Fatalf("%q, %v", rest, isOne)
	}
	archive, done, err := f.pack(t.Context(), dir)
	if err == nil {
		t.Cleanup(done)
	}
	return archive, err
}

// configs returns the configurations of the images in an archive.
func configs(t *testing.T, archive string) (out []v1.ConfigFile) {
	t.Helper()
	f, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for tr := tar.NewReader(f); ; {
		if _, err := tr.Next(); errors.Is(err, io.EOF) {
			return out
		} else if err != nil {
			t.Fatal(err)
		}
		var c v1.ConfigFile
		if json.NewDecoder(tr).Decode(&c) == nil && c.Architecture != "" {
			out = append(out, c)
		}
	}
}

func TestPack(t *testing.T) {
	exe := peFile(0x8664, 0x22)
	dir := appFolder(t, map[string]string{"Bin/Node.EXE": exe, "server.js": "x", "run.cmd": "@echo"})
	for _, c := range []struct {
		flags string // separated by blanks
		want  v1.Config
	}{
		{`--entrypoint bin/node.exe -- server.js --port 80`, v1.Config{
			Entrypoint: []string{`C:\app\Bin\Node.EXE`}, Cmd: []string{"server.js", "--port", "80"},
			WorkingDir: `C:\app`}},
		{`--entrypoint c:\srv\BIN\node --workdir c:/srv/ -e A=1 -e B== --user containeruser`, v1.Config{
			Entrypoint: []string{`C:\srv\Bin\Node.EXE`}, WorkingDir: `C:\srv`, Env: []string{"A=1", "B=="},
			User: "containeruser"}},
		{`--entrypoint C:/Windows/System32/cmd.exe --base nanoserver --workdir /`, v1.Config{
			Entrypoint: []string{`C:\Windows\System32\cmd.exe`}, WorkingDir: `C:\`, User: "ContainerUser"}},
		{`--entrypoint run.cmd`, v1.Config{Entrypoint: []string{`C:\app\run.cmd`}, WorkingDir: `C:\app`}},
		{``, v1.Config{Cmd: []string{`c:\windows\system32\cmd.exe`}, WorkingDir: `C:\app`}},
	} {
		archive, err := packed(t, dir, strings.Fields("--tag app:v1 "+c.flags)...)
		if err != nil {
			t.Errorf("%s: %v", c.flags, err)
			continue
		}
		all := configs(t, archive)
		want, err := json.Marshal(c.want)
		if err != nil {
			t.Fatal(err)
		}
		for _, got := range all {
			if text, err := json.Marshal(got.Config); err != nil || string(text) != string(want) {
				t.Errorf("%s: %s, %v, want %s", c.flags, text, err, want)
			}
		}
		images, err := imageload.InspectFile(archive)
		if err != nil || len(images) != len(all) || images[0].Names[0] != "docker.io/library/app:v1" {
			t.Errorf("%s: %+v, %v, and %d configurations", c.flags, images, err, len(all))
		}
		for _, host := range winver.All() {
			if !slices.ContainsFunc(images, func(i imageload.Image) bool {
				return winver.CompatibleOSVersion(host, i.OSVersion)
			}) {
				t.Errorf("no image is for %s", host)
			}
		}
	}
}

func TestPackRefuses(t *testing.T) {
	files := map[string]string{"server.js": "x", "elf": "\x7fELF\x02\x01", "lib.dll": peFile(0x8664, 0x2022),
		"old.exe": peFile(0x14c, 0x102), "arm.exe": peFile(0xaa64, 0x22), "short.exe": "MZ", "a/node.exe": "",
		"z/b.exe": "", "z/1.exe": "", "z/2.exe": "", "z/3.exe": "", "z/4.exe": ""}
	dir := appFolder(t, files)
	for _, c := range [][2]string{ // flags after --tag, and a part of the error or hint
		{"--entrypoint elf", "--entrypoint elf: it is a program for Linux"},
		{"--entrypoint lib.dll", "it is a library"},
		{"--entrypoint old", "it is a 32-bit program"},
		{"--entrypoint arm.exe", "it is a program for another processor (0xaa64)"},
		{"--entrypoint short.exe", "it is not a program for Windows"},
		{"--entrypoint server.js", "name its interpreter"},
		{"--entrypoint a", "it is not a file"},
		{"--entrypoint /bin/node.exe", "no such file in the folder"},
		{"--entrypoint ../node.exe", "no such file in the folder"},
		{"--entrypoint node.exe", "in the folder: a/node.exe, arm.exe, old.exe, short.exe, z/1.exe and 4 more"},
		{"--entrypoint C:/app/x.exe", "C:/app/x.exe: no such file in the folder"},
		{"--workdir D:/app", "want a directory on drive C"},
		{"--workdir app", "want a directory on drive C"},
		{"--workdir C:/a?b", "want a directory on drive C"},
		{"--base windows", "want servercore or nanoserver"},
		{"--env =x", "--env =x: want NAME=VALUE"},
		{"--user bob", "no such account"},
		{"--tag B:1", "must be lowercase"},
		{"--tag b@sha256:" + strings.Repeat("0", 64), "without a digest"},
		{"--tag=", "its image needs a name: add --tag"},
		{"-- server.js", "--entrypoint names, which is missing"},
		{dir, "load it by itself"},
	} {
		_, err := packed(t, dir, strings.Fields("--tag app:v1 "+c[0])...)
		text := ""
		if err != nil {
			text = err.Error()
		}
		for f := (*cli.Failure)(nil); errors.As(err, &f); err = f.Err {
			text += "\n" + f.Hint
		}
		if !strings.Contains(text, c[1]) {
			t.Errorf("%s: %q, want %q", c[0], text, c[1])
		}
	}
	_, err := packed(t, dir, "--tag", "app:v1", "--entrypoint", "a/node.exe server.js")
	f, ok := errors.AsType[*cli.Failure](err)
	if !ok || !strings.Contains(f.Hint, "--entrypoint a/node.exe -- server.js") {
		t.Errorf("arguments in the flag: %v", err)
	}
	for want, dir := range map[string]string{
		"unpacked OCI archive": appFolder(t, map[string]string{"oci-layout": "{}"}), "the folder is empty": t.TempDir(),
	} {
		if _, err := packed(t, dir, "--tag", "a:1"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
