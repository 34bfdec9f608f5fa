// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package testenv

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// CombinedOutput runs a command and returns its standard output and standard error,
// as the method of exec.Cmd does, but it returns as soon as the command has ended.
// The first program of Wine in a prefix starts services, which keep the output open
// for some seconds longer; the method would wait for them.
func CombinedOutput(t testing.TB, cmd *exec.Cmd) ([]byte, error) {
	t.Helper()
	file, err := os.Create(filepath.Join(t.TempDir(), "output"))
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = file, file
	err = cmd.Run()
	out, readErr := os.ReadFile(file.Name())
	if fileErr := errors.Join(readErr, file.Close()); fileErr != nil {
		t.Fatal(fileErr)
	}
	return out, err
}
