// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package winhost

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/mullion-k8s/mullion/internal/agent"
	"github.com/mullion-k8s/mullion/internal/atomicfile"
	"github.com/mullion-k8s/mullion/internal/logkey"
	"github.com/mullion-k8s/mullion/internal/winhost/paged"
)

// program is a Windows executable of the host: its file in Config.Bin and its
// place on C:.
type program struct{ file, path string }

func programs() []program {
	const cni = `C:\Program Files\containerd\cni\bin`
	return []program{
		{"mullion.exe", agent.ProgramDir + `\mullion.exe`},
		{"kubelet.exe", agent.ProgramDir + `\kubelet.exe`},
		{"kube-proxy.exe", agent.ProgramDir + `\kube-proxy.exe`},
		{"win-bridge.exe", cni + `\win-bridge.exe`},
		{"host-local.exe", cni + `\host-local.exe`},
	}
}

// pagePrograms makes paged copies of the programs in the cache, unless they are
// there, and says by which name below the cache each is found. All hosts map
// the same files, so their pages are in memory once.
func pagePrograms(bin, cache string, log *slog.Logger) (map[string]string, error) {
	names := map[string]string{}
	dir := filepath.Join(cache, "programs")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("lay out programs: %w", err)
	}
	for _, p := range programs() {
		from := filepath.Join(bin, "windows", p.file)
		st, err := os.Stat(from)
		if err != nil {
			return nil, fmt.Errorf("lay out programs: %w (run `make build`)", err)
		}
		sum := sha256.Sum256(fmt.Appendf(nil, "%s %d %d", p.file, st.Size(), st.ModTime().UnixNano()))
		name := strings.TrimSuffix(p.file, ".exe") + "-" + hex.EncodeToString(sum[:6]) + ".exe"
		names[p.file] = filepath.Join("programs", name)
		to := filepath.Join(dir, name)
		if _, err := os.Stat(to); err == nil {
			continue
		}
		content, err := os.ReadFile(from)
		if err != nil {
			return nil, fmt.Errorf("lay out programs: %w", err)
		}
		out, err := paged.Convert(content)
		if errors.Is(err, paged.ErrUnsuitable) {
			log.Warn("program is used as it is", logkey.File, p.file, logkey.Reason, err)
			out, err = content, nil
		}
		if err != nil {
			return nil, fmt.Errorf("lay out %s: %w", p.file, err)
		}
		if err := atomicfile.Write(to, out, 0o755); err != nil {
			return nil, fmt.Errorf("lay out programs: %w", err)
		}
		dropOlder(dir, strings.TrimSuffix(p.file, ".exe"), name)
	}
	return names, nil
}

// dropOlder removes the copies of former builds. Hosts that use one keep it:
// they have it mounted.
func dropOlder(dir, program, keep string) {
	old, err := filepath.Glob(filepath.Join(dir, program+"-????????????.exe"))
	if err != nil {
		return // impossible: the pattern is valid
	}
	for _, o := range old {
		if filepath.Base(o) != keep {
			_ = os.Remove(o) // a leftover costs disk, no more
		}
	}
}

// installPrograms binds the programs to their places.
// Preconditions: the prefix is mounted.
func installPrograms(names map[string]string) error {
	for _, p := range programs() {
		target := onDisk(p.path)
		err := makeTarget(target, false)
		if err == nil {
			err = unix.Mount(filepath.Join(cacheDir, names[p.file]), target, "", unix.MS_BIND, "")
		}
		if errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("%w (was the cache emptied while the host started?)", err)
		}
		if err != nil {
			return fmt.Errorf("install %s: %w", p.file, err)
		}
	}
	return nil
}
