// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package cmdlet

import (
	"io/fs"
	"time"

	"github.com/mullion-k8s/mullion/pwsh/host"
)

// noFiles is a file system without files. Commands report their usual errors.
type noFiles struct{}

func (noFiles) OpenFile(string, int, fs.FileMode) (host.File, error) { return nil, fs.ErrNotExist }
func (noFiles) Stat(string) (fs.FileInfo, error)                     { return nil, fs.ErrNotExist }
func (noFiles) Lstat(string) (fs.FileInfo, error)                    { return nil, fs.ErrNotExist }
func (noFiles) ReadDir(string) ([]fs.DirEntry, error)                { return nil, fs.ErrNotExist }
func (noFiles) MkdirAll(string, fs.FileMode) error                   { return fs.ErrPermission }
func (noFiles) Remove(string) error                                  { return fs.ErrNotExist }
func (noFiles) RemoveAll(string) error                               { return fs.ErrNotExist }
func (noFiles) Rename(string, string) error                          { return fs.ErrNotExist }
func (noFiles) Symlink(string, string) error                         { return fs.ErrPermission }
func (noFiles) Readlink(string) (string, error)                      { return "", fs.ErrNotExist }
func (noFiles) Chtimes(string, time.Time, time.Time) error           { return fs.ErrNotExist }
func (noFiles) TempDir() string                                      { return "/" }
func (noFiles) Drives() []string                                     { return nil }
