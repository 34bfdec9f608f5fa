// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package console_test

import (
	"context"
	"fmt"
	"os"

	"github.com/mullion-k8s/mullion/pwsh/console"
	"github.com/mullion-k8s/mullion/pwsh/host"
	"github.com/mullion-k8s/mullion/pwsh/host/hosttest"
)

// A probe of a pod, as Windows PowerShell runs it.
func ExampleMain() {
	handlers := host.Handlers{
		Stdout: os.Stdout,
		Stderr: os.Stderr,
		Env:    hosttest.Env{"COMPUTERNAME": "WEB-1"},
	}
	args := []string{"-NoProfile", "-Command", `"checking $env:COMPUTERNAME"; exit 3`}
	code := console.Main(context.Background(), nil, "powershell.exe", args, handlers, false, false, "/")
	fmt.Println("exit code", code)
	// Output:
	// checking WEB-1
	// exit code 3
}

// The first plain argument is a command for powershell.exe and a file for
// pwsh.exe.
func ExampleParseArgs() {
	for _, name := range []string{"powershell.exe", "pwsh.exe"} {
		o, err := console.ParseArgs(name, []string{"-NoLogo", "deploy.ps1", "-Force"})
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%s: command %q, file %q with %q\n", name, o.Command, o.File, o.FileArgs)
	}
	// Output:
	// powershell.exe: command "deploy.ps1 -Force", file "" with []
	// pwsh.exe: command "", file "deploy.ps1" with ["-Force"]
}
