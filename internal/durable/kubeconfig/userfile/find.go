// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package userfile

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"

	"k8s.io/client-go/tools/clientcmd"
)

// File is a user's kubeconfig file.
type File struct {
	Path string `json:"path"`
	// who owns it: files are read and written with this user's rights
	UID int `json:"uid"`
	GID int `json:"gid"`
}

// Environment holds the facts that decide which file is the user's.
type Environment struct {
	Getenv func(string) string
	UID    int
	GID    int
	Home   func(uid int) (string, error) // the home directory of a user
}

// Process returns the environment of this process.
func Process() Environment {
	return Environment{Getenv: os.Getenv, UID: os.Geteuid(), GID: os.Getegid(), Home: homeOf}
}

func homeOf(uid int) (string, error) {
	u, err := user.LookupId(strconv.Itoa(uid))
	if err != nil {
		return "", err
	}
	return u.HomeDir, nil
}

// Find returns the file to change: the named one, the first one of KUBECONFIG that
// exists, or ~/.kube/config, as kubectl config does. Under sudo, the user is the one
// who called it.
func Find(named string, e Environment) (File, error) {
	f := File{UID: e.UID, GID: e.GID}
	sudo, err := e.sudo(&f)
	if err != nil {
		return File{}, err
	}
	switch {
	case named != "":
		f.Path = named
	case e.Getenv(clientcmd.RecommendedConfigPathEnvVar) != "":
		rules := clientcmd.ClientConfigLoadingRules{
			Precedence: filepath.SplitList(e.Getenv(clientcmd.RecommendedConfigPathEnvVar)),
		}
		f.Path = rules.GetDefaultFilename()
	default:
		home := e.Getenv("HOME")
		if sudo || home == "" {
			if home, err = e.Home(f.UID); err != nil {
				return File{}, fmt.Errorf("find kubeconfig: home directory of user %d: %w", f.UID, err)
			}
		}
		f.Path = filepath.Join(home, clientcmd.RecommendedHomeDir, clientcmd.RecommendedFileName)
	}
	if f.Path == "" {
		return File{}, errors.New("find kubeconfig: the first file of KUBECONFIG has no name")
	}
	if f.Path, err = filepath.Abs(f.Path); err != nil {
		return File{}, fmt.Errorf("find kubeconfig: %w", err)
	}
	return f, nil
}

// sudo sets the owner to the user who called sudo, and reports whether there is one.
func (e Environment) sudo(f *File) (bool, error) {
	if e.UID != 0 || e.Getenv("SUDO_UID") == "" {
		return false, nil
	}
	for name, id := range map[string]*int{"SUDO_UID": &f.UID, "SUDO_GID": &f.GID} {
		n, err := strconv.ParseUint(e.Getenv(name), 10, 31)
		if err != nil {
			return false, fmt.Errorf("find kubeconfig: %s: %w", name, err)
		}
		*id = int(n)
	}
	return true, nil
}
