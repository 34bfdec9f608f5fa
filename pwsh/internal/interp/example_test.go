// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package interp_test

import (
	"context"
	"fmt"
	"os"

	"github.com/mullion-k8s/mullion/pwsh/internal/cmdlet"
	"github.com/mullion-k8s/mullion/pwsh/internal/interp"
)

// A script runs with the handlers that it is given and no others: here it can
// print and read one variable of the environment.
func ExampleRunner() {
	r, err := interp.New(interp.Config{
		Handlers: interp.Handlers{Stdout: os.Stdout, Stderr: os.Stdout, Env: interp.FakeEnv{"NAME": "pod"}},
		Library:  cmdlet.Library(),
		Dir:      "/",
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer r.Close()
	res, err := r.RunText(context.Background(), "", `1..3 | ForEach-Object { "$env:NAME-$_" }; exit 4`)
	fmt.Println(res.Exit, err)
	// Output:
	// pod-1
	// pod-2
	// pod-3
	// 4 <nil>
}
