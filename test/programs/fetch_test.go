// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package programs

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mullion-k8s/mullion/internal/testenv"
)

// fetchLimit is for one package: the largest has 160 MB.
const fetchLimit = 5 * time.Minute

// fetch returns the archive of a package. Archives stay for the next run. The checksum is that of the table each time.
func fetch(ctx context.Context, name, version, integrity string) (string, error) {
	dir := testenv.Bin(".cache", "programs")
	file := filepath.Join(dir, strings.NewReplacer("@", "", "/", "-").Replace(name)+"-"+version+".tgz")
	if check(file, integrity) == nil {
		return file, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, fetchLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "npm", "pack", "--silent", "--pack-destination", dir, name+"@"+version)
	cmd.Dir = dir // a directory without a package.json
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("npm pack %s@%s: %w: %s", name, version, err, out)
	}
	return file, check(file, integrity)
}

// check compares a file with the checksum that npm's registry gives, sha512- and base64.
func check(file, integrity string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	sum := sha512.New()
	if _, err := io.Copy(sum, f); err != nil {
		return err
	}
	if got := "sha512-" + base64.StdEncoding.EncodeToString(sum.Sum(nil)); got != integrity {
		return fmt.Errorf("%s has the checksum %s, want %s", filepath.Base(file), got, integrity)
	}
	return nil
}

// unpack writes the files of a package into a directory, without the first directory of their names.
func unpack(archive, dir string) (err error) {
	f, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		_, name, _ := strings.Cut(h.Name, "/")
		if h.Typeflag != tar.TypeReg || name == "" {
			continue
		}
		if err := root.MkdirAll(filepath.Dir(name), 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		if err := write(root, name, r); err != nil {
			return err
		}
	}
}

func write(root *os.Root, name string, from io.Reader) error {
	f, err := root.Create(name)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, from)
	return errors.Join(err, f.Close())
}

// TestFetch: a package whose checksum is another one is refused by its name.
func TestFetch(t *testing.T) {
	file := filepath.Join(t.TempDir(), "p-1.0.0.tgz")
	if err := os.WriteFile(file, []byte("changed"), 0o644); err != nil {
		t.Fatal(err)
	}
	err := check(file, "sha512-x")
	if err == nil || !strings.HasPrefix(err.Error(), "p-1.0.0.tgz has the checksum sha512-") {
		t.Errorf("%v", err)
	}
}
