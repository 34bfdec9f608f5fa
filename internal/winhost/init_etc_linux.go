// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package winhost

import (
	"fmt"
	"os"
	"path/filepath"
)

// etc writes the few files of /etc that programs of the host read.
func etc(c Config) error {
	files := map[string]string{
		"/etc/hostname":      c.Name + "\n",
		"/etc/hosts":         fmt.Sprintf("127.0.0.1 localhost\n%s %s\n", c.Address.Addr(), c.Name),
		"/etc/resolv.conf":   fmt.Sprintf("nameserver %s\n", c.Nameserver),
		"/etc/nsswitch.conf": "hosts: files dns\n",
		"/etc/passwd": "root:x:0:0:root:/root:/usr/sbin/nologin\n" +
			"nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
		"/etc/group": "root:x:0:\nnogroup:x:65534:\n",
		// Wine looks for fonts in every process that could draw; there are no
		// fonts.
		"/etc/fonts/fonts.conf": "<?xml " +
			"version=\"1.0\"?><fontconfig><cachedir>/tmp/fontconfig</cachedir></fontconfig>\n",
	}
	for name, content := range files {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return fmt.Errorf("write %s: %w", name, err)
		}
		if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
			return fmt.Errorf("write %s: %w", name, err)
		}
	}
	// Wine puts its socket below /run/user/UID if that exists.
	for _, d := range []string{netnsDir, machineDir, "/root", filepath.Join(nodeDir, "logs"), socketsDir,
		filepath.Join(socketsDir, "0")} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return fmt.Errorf("make %s: %w", d, err)
		}
	}
	return nil
}

// machineFiles are the files by which the machine resolves names.
type machineFiles map[string][]byte

// readMachineFiles reads them while the machine's root is still there.
func readMachineFiles() machineFiles {
	files := machineFiles{}
	for _, name := range []string{"resolv.conf", "hosts"} {
		// Without them names cannot be resolved, and pulling images reports that.
		if content, err := os.ReadFile(filepath.Join("/etc", name)); err == nil {
			files[name] = content
		}
	}
	return files
}

// write puts them where machineDialer looks.
func (f machineFiles) write() error {
	for name, content := range f {
		if err := os.WriteFile(filepath.Join(machineDir, name), content, 0o644); err != nil {
			return fmt.Errorf("write %s of the machine: %w", name, err)
		}
	}
	return nil
}
