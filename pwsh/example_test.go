// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package pwsh_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/mullion-k8s/mullion/pwsh"
	"github.com/mullion-k8s/mullion/pwsh/host"
	"github.com/mullion-k8s/mullion/pwsh/host/hosttest"
)

// A script has the handlers that it is given and no others. This one can print,
// and read one environment variable.
func Example() {
	r, err := pwsh.New(pwsh.Config{Handlers: host.Handlers{
		Stdout: os.Stdout,
		Stderr: os.Stderr,
		Env:    hosttest.Env{"NAME": "pod"},
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer r.Close()
	res, err := r.Run(context.Background(), `1..3 | ForEach-Object { "$env:NAME-$_" }; exit 4`)
	fmt.Println(res.Exit, err)
	// Output:
	// pod-1
	// pod-2
	// pod-3
	// 4 <nil>
}

func ExampleRunner_Eval() {
	r, err := pwsh.New(pwsh.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer r.Close()
	if err := r.Set("limit", 3); err != nil {
		fmt.Println(err)
		return
	}
	values, err := r.Eval(context.Background(), `1..5 | Where-Object { $_ -gt $limit }; @{ sum = 4 + 5 }`)
	fmt.Println(values, err)

	_, err = r.Eval(context.Background(), "$ErrorActionPreference = 'Stop'\n1 / 0")
	if failed, ok := errors.AsType[*pwsh.ScriptError](err); ok {
		fmt.Printf("line %d: %s: %s\n", failed.Line, failed.Type, failed.Message)
	}
	// Output:
	// [4 5 map[sum:9]] <nil>
	// line 2: System.DivideByZeroException: Attempted to divide by zero.
}

func ExampleParse() {
	_, err := pwsh.Parse("deploy.ps1", "if ($ready) {\n  'go'\n", pwsh.Core)
	if mistake, ok := errors.AsType[*pwsh.SyntaxError](err); ok {
		fmt.Println(mistake)
		fmt.Println(mistake.ID, mistake.Incomplete)
	}
	// Output:
	// deploy.ps1:1:13: Missing closing '}' in statement block or type definition.
	// MissingEndCurlyBrace true
}

// A cmdlet that repeats each object of the pipeline.
func ExampleCmdlet() {
	repeat := pwsh.Cmdlet{
		Name:    "Copy-Text",
		Aliases: []string{"cpt"},
		Params:  "Text@0!< Times|n:int Upper?",
		Process: func(c *pwsh.Invocation) error {
			text := c.Text("Text", "")
			if text == "" {
				return c.Error(errors.New("the text is empty"))
			}
			if c.Switch("Upper") {
				text = strings.ToUpper(text)
			}
			for range c.Int("Times", 1) {
				if err := c.Write(text); err != nil {
					return err
				}
			}
			return nil
		},
	}
	r, err := pwsh.New(pwsh.Config{
		Handlers: host.Handlers{Stdout: os.Stdout, Stderr: os.Stdout},
		Cmdlets:  []pwsh.Cmdlet{repeat},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer r.Close()
	const script = `'a', 'b' | Copy-Text -n 2; cpt c -Upper | ForEach-Object { "<$_>" }`
	if _, err := r.Run(context.Background(), script); err != nil {
		fmt.Println(err)
	}
	// Output:
	// a
	// a
	// b
	// b
	// <C>
}

// A type whose objects are Go values.
func ExampleType() {
	type counter struct{ n int }
	r, err := pwsh.New(pwsh.Config{
		Handlers: host.Handlers{Stdout: os.Stdout, Stderr: os.Stdout},
		Types: []pwsh.Type{{
			Name: "Acme.Counter",
			New:  func([]any) (any, error) { return &counter{}, nil },
			Properties: []pwsh.Property{{
				Name: "Count",
				Get:  func(self any) (any, error) { return self.(*counter).n, nil },
			}},
			Methods: []pwsh.Method{{
				Name: "Add",
				Call: func(self any, args []any) (any, error) {
					for _, a := range args {
						self.(*counter).n += int(a.(int32))
					}
					return nil, nil
				},
			}},
		}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer r.Close()
	const script = `$c = [Acme.Counter]::new(); $c.Add(2); $c.Add(3, 4); "count: $($c.Count)"`
	if _, err := r.Run(context.Background(), script); err != nil {
		fmt.Println(err)
	}
	// Output:
	// count: 9
}

// A script that runs often is parsed once.
func ExampleRunner_RunScript() {
	script, err := pwsh.Parse("ready.ps1", `if ($env:READY -eq 'yes') { exit 0 }; 'not ready'; exit 1`, pwsh.Desktop)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, ready := range []string{"no", "yes"} {
		r, err := pwsh.New(pwsh.Config{Handlers: host.Handlers{
			Stdout: os.Stdout,
			Stderr: os.Stderr,
			Env:    hosttest.Env{"READY": ready},
		}})
		if err != nil {
			fmt.Println(err)
			return
		}
		defer r.Close()
		res, err := r.RunScript(context.Background(), script)
		fmt.Println("exit code", res.Exit, err)
	}
	// Output:
	// not ready
	// exit code 1 <nil>
	// exit code 0 <nil>
}
