// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package wine

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/mullion-k8s/mullion/internal/console/condrv"
	"github.com/mullion-k8s/mullion/internal/durable"
	"github.com/mullion-k8s/mullion/internal/logkey"
	"github.com/mullion-k8s/mullion/internal/wine/launch"
)

// layoutVersion is part of every hash. Raise it when the code that builds a
// runtime, a prefix or a container root changes their content.
const layoutVersion = 11

// Runtime is Debian's Wine with this project's DLLs.
type Runtime struct {
	// Dir holds the runtime, laid out like a root directory: usr/lib/wine/wine64
	// and so on. Read-only; shared by all hosts, whose /usr it has, and containers.
	Dir string

	cacheDir string
	hash     string
	log      *slog.Logger
}

// runtimePrefix begins the names of runtimes in the cache.
const runtimePrefix = "wine-"

// OpenRuntime returns the runtime that consists of the directories wine and native in
// binDir, which `make build` fills. It is built in cacheDir on first use (about a second:
// files are hard-linked where the file system allows it).
func OpenRuntime(ctx context.Context, cacheDir, binDir string, log *slog.Logger) (*Runtime, error) {
	d, err := findDistribution(filepath.Join(binDir, distributionDir))
	if err != nil {
		return nil, err
	}
	own, err := ownFiles(filepath.Join(binDir, "native"))
	if err != nil {
		return nil, err
	}
	hash, err := d.hash(own)
	if err != nil {
		return nil, err
	}
	r := &Runtime{Dir: filepath.Join(cacheDir, runtimePrefix+hash), cacheDir: cacheDir, hash: hash, log: log}
	err = once(ctx, r.Dir, func(tmp string) error {
		log.InfoContext(ctx, "build Wine runtime", logkey.Path, r.Dir)
		if err := fill(tmp, d.entries, own); err != nil {
			return err
		}
		return r.numberConsoleHost(tmp)
	})
	if err != nil {
		return nil, fmt.Errorf("build Wine runtime: %w", err)
	}
	return r, nil
}

// NamedRuntime returns a runtime that OpenRuntime has built in cacheDir, whatever is
// installed now: programs that already run use it, and must not meet another one after
// an upgrade.
func NamedRuntime(cacheDir, name string, log *slog.Logger) (*Runtime, error) {
	dir := filepath.Join(cacheDir, name)
	if _, err := os.Stat(dir); err != nil {
		return nil, fmt.Errorf("open Wine runtime: %w", err)
	}
	return &Runtime{Dir: dir, cacheDir: cacheDir, hash: strings.TrimPrefix(name, runtimePrefix), log: log}, nil
}

// numberConsoleHost writes into the console host of the runtime in dir which
// server request it is to use.
func (r *Runtime) numberConsoleHost(dir string) error {
	number, err := requestNumber(filepath.Join(dir, filepath.Dir(serverPath), "wineserver"), condrv.RequestName)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(dir, pePath, consoleHost), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(binary.LittleEndian.AppendUint32(nil, number), condrv.NumberOffset)
	return errors.Join(err, f.Close())
}

// distributionDir is the directory beside mullion's programs that holds the unpacked
// packages of native/packages.txt.
const distributionDir = "wine"

// consoleHost is the program that Wine starts for each console (cmd/conhost).
const consoleHost = "conhost.exe"

// ownFiles lists our DLLs and programs, and the places they take in a runtime.
func ownFiles(nativeDir string) ([]entry, error) {
	var own []entry
	for _, name := range append(inFront(), "computenetwork.dll", "vmcompute.dll", winemendDLL, consoleHost) {
		own = append(own, entry{filepath.Join(nativeDir, name), filepath.Join(pePath, name)})
	}
	own = append(own, entry{filepath.Join(nativeDir, "init"), strings.TrimPrefix(InitPath, "/")})
	for _, e := range own {
		if _, err := os.Stat(e.from); err != nil {
			return nil, fmt.Errorf("find our DLLs: %w (run `make build`)", err)
		}
	}
	return own, nil
}

// fill makes the content of a runtime in dir.
func fill(dir string, entries, own []entry) error {
	ours := map[string]bool{}
	for _, e := range own {
		ours[e.to] = true
	}
	for _, e := range entries {
		to := e.to
		if ours[to] {
			if !slices.Contains(inFront(), filepath.Base(to)) {
				continue // replaced as a whole
			}
			to = behind(to)
		}
		if to == filepath.Join(pePath, patchedModule) {
			if err := addImport(e.from, filepath.Join(dir, to), winemendDLL); err != nil {
				return err
			}
			continue
		}
		if err := link(e.from, filepath.Join(dir, to)); err != nil {
			return err
		}
		// The Unix half of a module is looked for under the module's own name.
		if so := filepath.Join(unixPath, "ws2_32.so"); to == so {
			if err := link(e.from, filepath.Join(dir, behind(so))); err != nil {
				return err
			}
		}
	}
	for _, e := range own {
		if err := installOwn(e.from, filepath.Join(dir, e.to)); err != nil {
			return err
		}
	}
	for _, place := range launch.FillMounts() {
		if err := os.Mkdir(filepath.Join(dir, place), 0o755); err != nil {
			return fmt.Errorf("make place for a mount: %w", err)
		}
	}
	return nil
}

// inFront lists our modules that forward to Wine's, which must stay reachable
// under another name.
func inFront() []string { return []string{"iphlpapi.dll", "pdh.dll", "ws2_32.dll"} }

// behind returns the name of the Wine module to which this project's module
// forwards: ws2_32w.dll for ws2_32.dll.
func behind(path string) string {
	ext := filepath.Ext(path)
	return strings.TrimSuffix(path, ext) + "w" + ext
}

// builtinMark marks a DLL as Wine's own for Wine's loader, so it may be loaded from
// Wine's directory instead of system32. It follows the DOS header
// (server/mapping.c, get_image_params).
const (
	builtinMark   = "Wine builtin DLL\x00"
	builtinOffset = 0x40
)

func installOwn(from, to string) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return fmt.Errorf("install our DLL: %w", err)
	}
	perm := fs.FileMode(0o755)
	if ext := filepath.Ext(to); ext != "" {
		perm = 0o644
		if err := markBuiltin(data); err != nil {
			return fmt.Errorf("install our module %s: %w", from, err)
		}
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return fmt.Errorf("install our DLL: %w", err)
	}
	if err := os.WriteFile(to, data, perm); err != nil {
		return fmt.Errorf("install our DLL: %w", err)
	}
	return nil
}

func markBuiltin(pe []byte) error {
	header, err := peHeaderOffset(pe)
	if err != nil {
		return err
	}
	if header < builtinOffset+32 {
		return errors.New("no room for the builtin mark: linked without a DOS stub")
	}
	clear(pe[builtinOffset:header])
	copy(pe[builtinOffset:], builtinMark)
	return nil
}

// link makes to the same file as from: a hard link, or a copy where they lie
// on different file systems.
func link(from, to string) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return fmt.Errorf("link %s: %w", to, err)
	}
	real, err := filepath.EvalSymlinks(from)
	if err != nil {
		return fmt.Errorf("link %s: %w", to, err)
	}
	err = os.Link(real, to)
	if errors.Is(err, syscall.EXDEV) || errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EMLINK) {
		return copyFile(real, to)
	}
	if err != nil {
		return fmt.Errorf("link %s: %w", to, err)
	}
	return nil
}

func copyFile(from, to string) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("copy %s: %w", from, err)
		}
	}()
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }() // opened for reading
	info, err := in.Stat()
	if err != nil {
		return err
	}
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, info.Mode().Perm())
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close(), os.Chtimes(to, info.ModTime(), info.ModTime()))
}

// once builds the directory dir with make, unless it exists. It is built under
// another name and renamed, so that a directory of the final name is complete;
// a lock file keeps two processes from building the same one.
func once(ctx context.Context, dir string, make func(tmp string) error) (err error) {
	if _, err := os.Stat(dir); err == nil {
		return nil
	}
	parent := filepath.Dir(dir)
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return err
	}
	building, err := durable.WaitLock(ctx, filepath.Join(parent, ".lock-"+filepath.Base(dir)), durable.Exclusive)
	if err != nil {
		return err
	}
	defer building.Unlock()
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		return err // nil: another process has built it meanwhile
	}
	// A leftover of an interrupted run has the same name and goes first.
	tmp := filepath.Join(parent, ".tmp-"+filepath.Base(dir))
	if err := os.RemoveAll(tmp); err != nil {
		return err
	}
	if err := os.Mkdir(tmp, 0o755); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(tmp))
		}
	}()
	if err := make(tmp); err != nil {
		return err
	}
	return os.Rename(tmp, dir)
}
