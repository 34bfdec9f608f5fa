// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package main

import (
	"os"

	_ "k8s.io/client-go/plugin/pkg/client/auth" // the ways to log in to clouds, as upstream's kubectl has them
	"k8s.io/component-base/cli"
	"k8s.io/component-base/logs"
	"k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/util"
)

// kubectl is cmd/kubectl of k8s.io/kubernetes. Plugins and messages read os.Args, so
// these become kubectl's own.
func kubectl(args []string) {
	os.Args = append([]string{"kubectl"}, args...)
	_, _ = logs.GlogSetter(cmd.GetLogVerbosity(os.Args)) // a wrong level is reported when the flags are parsed
	if err := cli.RunNoErrOutput(cmd.NewDefaultKubectlCommand()); err != nil {
		util.CheckErr(err) // prints it and ends the program with kubectl's exit code
	}
}
