// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package wine

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
)

// processorsFile has the numbers of the processors that work. On an emulated host it shows the host's.
const processorsFile = "sys/devices/system/cpu/online"

// maxProcessorsBytes is far above any list of numbers.
const maxProcessorsBytes = 4096

// WriteProcessors gives a container that was not started yet the list of its host's processors; root is its root
// directory. A container has no /sys. Without the list Wine describes no processor to programs: neither
// GetLogicalProcessorInformation does, nor HKLM\HARDWARE\DESCRIPTION\System\CentralProcessor
// (dlls/ntdll/unix/system.c, create_logical_proc_info), where Node's os.cpus() looks.
func WriteProcessors(root *os.Root) error {
	f, err := os.Open("/" + processorsFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // a machine without sysfs
	}
	if err != nil {
		return fmt.Errorf("read the list of processors: %w", err)
	}
	defer func() { _ = f.Close() }() // opened for reading
	list, err := io.ReadAll(io.LimitReader(f, maxProcessorsBytes))
	if err != nil {
		return fmt.Errorf("read the list of processors: %w", err)
	}
	if err := root.MkdirAll(path.Dir(processorsFile), 0o755); err != nil {
		return fmt.Errorf("write the list of processors: %w", err)
	}
	if err := root.WriteFile(processorsFile, list, 0o644); err != nil {
		return fmt.Errorf("write the list of processors: %w", err)
	}
	return nil
}
