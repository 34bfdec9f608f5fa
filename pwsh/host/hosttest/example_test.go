// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package hosttest_test

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"

	"github.com/mullion-k8s/mullion/pwsh"
	"github.com/mullion-k8s/mullion/pwsh/host"
	"github.com/mullion-k8s/mullion/pwsh/host/hosttest"
)

// A script sees a directory of the machine as drive C.
func ExampleDrive() {
	dir, err := os.MkdirTemp("", "drive")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	if err := os.WriteFile(filepath.Join(dir, "Hosts.txt"), []byte("win-1\nwin-2\n"), 0o600); err != nil {
		fmt.Println(err)
		return
	}
	eval(host.Handlers{Files: hosttest.Drive{Dir: dir}}, `Get-Content C:\HOSTS.TXT | ForEach-Object { $_.ToUpper() }`)
	// Output:
	// WIN-1
	// WIN-2
}

// Names resolve to what the table says, without a DNS server.
func ExampleNetwork() {
	table := &hosttest.Network{Hosts: map[string][]netip.Addr{
		"db.example": {netip.MustParseAddr("10.0.0.7")},
	}}
	eval(host.Handlers{Net: table}, `(Resolve-DnsName db.example -Type A).IPAddress`)
	// Output:
	// 10.0.0.7
}

// eval prints the objects that a script writes.
func eval(h host.Handlers, script string) {
	r, err := pwsh.New(pwsh.Config{Handlers: h, Windows: true, Dir: `C:\`})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer r.Close()
	values, err := r.Eval(context.Background(), script)
	for _, v := range values {
		fmt.Println(v)
	}
	if err != nil {
		fmt.Println(err)
	}
}
