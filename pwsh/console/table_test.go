// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package console

import (
	"bytes"
	"context"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mullion-k8s/mullion/pwsh/host"
	"github.com/mullion-k8s/mullion/pwsh/host/hosttest"
	"github.com/mullion-k8s/mullion/pwsh/internal/cmdlet"
	"github.com/mullion-k8s/mullion/pwsh/internal/interp"
	"github.com/mullion-k8s/mullion/pwsh/internal/syntax"
	"github.com/mullion-k8s/mullion/pwsh/oshost"
)

// row is a script with what it prints: standard output, then, behind a line
// "!", standard error. A pattern in {{ }} stands for anything.
type row struct {
	name, script, want string
	core               bool // as pwsh.exe
}

// fakes are handlers without effects on the machine: the environment, network
// and registry are tables, files are those of a temporary directory.
func fakes(t testing.TB, out, err *bytes.Buffer) (host.Handlers, *hosttest.Network) {
	t.Helper()
	h := oshost.New(strings.NewReader(""), out, err)
	h.Env = hosttest.Env{"PATH": os.Getenv("PATH"), "COMPUTERNAME": "POD-1", "POD_NAME": "web-0", "TEMP": t.TempDir()}
	n := &hosttest.Network{
		Hosts: map[string][]netip.Addr{"kubernetes.default.svc.cluster.local": {netip.MustParseAddr("10.96.0.1")}, "localhost": {netip.MustParseAddr("::1"), netip.MustParseAddr("127.0.0.1")}},
		Interfaces: []host.Adapter{
			{Index: 1, Name: "Loopback Pseudo-Interface 1", Loopback: true, Up: true, Addresses: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/8")}},
			{Index: 4, Name: "vEthernet (Ethernet)", Description: "Hyper-V Virtual Ethernet Container Adapter", MAC: "00-15-5D-00-04-01", Up: true, MTU: 1500, BitsPerSec: 10_000_000_000,
				Addresses: []netip.Prefix{netip.MustParsePrefix("10.244.1.7/24")}, Gateways: []netip.Addr{netip.MustParseAddr("10.244.1.1")}, DNS: []netip.Addr{netip.MustParseAddr("10.96.0.10")}},
		},
		Table: []host.Route{{Interface: 4, Alias: "vEthernet (Ethernet)", Destination: netip.MustParsePrefix("0.0.0.0/0"), NextHop: netip.MustParseAddr("10.244.1.1"), Metric: 256}},
	}
	h.Net = n
	h.Registry = hosttest.Registry{"HKLM": {}, `HKLM\SOFTWARE`: {}, `HKLM\SOFTWARE\Acme`: {"version": {Name: "Version", Kind: "String", Data: "1.2"}}}
	h.Now = func() time.Time { return time.Date(2026, 11, 21, 8, 15, 30, 123456700, time.UTC) }
	return h, n
}

func runScript(t testing.TB, script string, core bool) (stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	h, _ := fakes(t, &out, &errs)
	edition := syntax.Desktop
	if core {
		edition = syntax.Core
	}
	r, err := interp.New(interp.Config{Handlers: h, Library: cmdlet.Library(), Edition: edition, Dir: t.TempDir(), MaxSteps: 5_000_000})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if _, err := r.RunText(ctx, "", script); err != nil {
		t.Fatalf("run: %v\nstdout: %s\nstderr: %s", err, out.String(), errs.String())
	}
	return out.String(), errs.String()
}

func runRows(t *testing.T, rows []row) {
	t.Helper()
	seen := map[string]bool{}
	for _, x := range rows {
		if seen[x.name] {
			t.Errorf("two rows are named %q", x.name)
		}
		seen[x.name] = true
		t.Run(x.name, func(t *testing.T) {
			out, errs := runScript(t, x.script, x.core)
			got := out
			if errs != "" {
				got += "!\n" + errs
			}
			if !like(strings.TrimSuffix(got, "\n"), strings.TrimSuffix(x.want, "\n")) {
				t.Errorf("script: %s\n--- got\n%s\n--- want\n%s", x.script, got, x.want)
			}
		})
	}
}

// like compares with {{…}} standing for anything.
func like(got, want string) bool {
	parts := strings.Split(want, "{{}}")
	if len(parts) == 1 {
		return got == want
	}
	if !strings.HasPrefix(got, parts[0]) {
		return false
	}
	got = got[len(parts[0]):]
	for _, p := range parts[1 : len(parts)-1] {
		i := strings.Index(got, p)
		if i < 0 {
			return false
		}
		got = got[i+len(p):]
	}
	return strings.HasSuffix(got, parts[len(parts)-1])
}

// seeds are the scripts of every table, for the fuzz targets.
func seeds() []string {
	var all []string
	for _, rows := range [][]row{languageRows, operatorRows, flowRows, functionRows, errorRows, typeRows, objectRows, textRows, fileRows, netRows, viewRows, coreRows, refusedRows} {
		for _, r := range rows {
			all = append(all, r.script)
		}
	}
	return all
}

func TestLanguage(t *testing.T)  { runRows(t, languageRows) }
func TestOperators(t *testing.T) { runRows(t, operatorRows) }
func TestFlow(t *testing.T)      { runRows(t, flowRows) }
func TestFunctions(t *testing.T) { runRows(t, functionRows) }
func TestErrors(t *testing.T)    { runRows(t, errorRows) }
func TestTypes(t *testing.T)     { runRows(t, typeRows) }
func TestObjects(t *testing.T)   { runRows(t, objectRows) }
func TestText(t *testing.T)      { runRows(t, textRows) }
func TestFiles(t *testing.T)     { runRows(t, fileRows) }
func TestNetwork(t *testing.T)   { runRows(t, netRows) }
func TestViews(t *testing.T)     { runRows(t, viewRows) }
func TestCore(t *testing.T)      { runRows(t, coreRows) }
func TestRefused(t *testing.T)   { runRows(t, refusedRows) }

func writeFile(t testing.TB, name, text string) string {
	t.Helper()
	p := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(p, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return p
}
