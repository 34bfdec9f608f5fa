// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package rowtest runs scripts in tests and compares their output.
//
// Rows are kept in text archives: a line "-- name --", a script, a line
// "-- prints --" and the script's output. Standard error follows standard
// output behind a line "!". "{{}}" in the output matches any text. Tags may
// follow the name in brackets: [7] runs the row as PowerShell 7, and [windows]
// with Windows' paths, line ends and programs.
package rowtest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mullion-k8s/mullion/pwsh"
	"github.com/mullion-k8s/mullion/pwsh/host"
	"github.com/mullion-k8s/mullion/pwsh/host/hosttest"
	"github.com/mullion-k8s/mullion/pwsh/oshost"
)

// Row is a script with its output.
type Row struct {
	Name, Script, Want string
	Core               bool // as PowerShell 7
	Windows            bool // with Windows' rules
}

const prints = "prints"

// Rows print local times; they must not depend on where they run.
func init() { time.Local = time.FixedZone("here", 0) } // not time.UTC itself, or all times would be of kind Utc

// Load reads an archive of rows.
func Load(t testing.TB, file string) []Row {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var rows []Row
	var into *string
	for line := range strings.Lines(string(content)) {
		name, ok := header(line)
		switch {
		case ok && name == prints && len(rows) > 0:
			into = &rows[len(rows)-1].Want
		case ok:
			rows = append(rows, newRow(name))
			into = &rows[len(rows)-1].Script
		case into == nil:
			t.Fatalf("%s does not begin with a line \"-- name --\"", file)
		default:
			*into += line
		}
	}
	for i := range rows {
		rows[i].Script = strings.TrimSuffix(rows[i].Script, "\n")
	}
	return rows
}

func header(line string) (string, bool) {
	s, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "-- ")
	if !ok {
		return "", false
	}
	return strings.CutSuffix(s, " --")
}

func newRow(header string) Row {
	name, tags, _ := strings.Cut(header, " [")
	list := strings.Fields(strings.TrimSuffix(tags, "]"))
	return Row{Name: name, Core: slices.Contains(list, "7"), Windows: slices.Contains(list, "windows")}
}

// Test runs each row as a subtest.
func Test(t *testing.T, rows []Row) {
	t.Helper()
	seen := map[string]bool{}
	for _, x := range rows {
		if seen[x.Name] {
			t.Errorf("two rows are named %q", x.Name)
		}
		seen[x.Name] = true
		t.Run(x.Name, func(t *testing.T) {
			out, errs := run(t, x)
			got := out
			if errs != "" {
				got += "!\n" + errs
			}
			if !Like(strings.TrimSuffix(got, "\n"), strings.TrimSuffix(x.Want, "\n")) {
				t.Errorf("script: %s\n--- got\n%s\n--- want\n%s", x.Script, got, x.Want)
			}
		})
	}
}

// run runs the script of a row.
func run(t testing.TB, x Row) (stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	h, _ := Handlers(t, &out, &errs)
	cfg := pwsh.Config{Handlers: h, Dir: t.TempDir(), MaxStatements: 5_000_000}
	if x.Core {
		cfg.Edition = pwsh.Core
	}
	if x.Windows {
		cfg.Handlers, cfg.Windows, cfg.Dir = onWindows(t, h, cfg.Dir), true, `C:\work`
	}
	r, err := pwsh.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if _, err := r.Run(ctx, x.Script); err != nil {
		t.Fatalf("run: %v\nstdout: %s\nstderr: %s", err, out.String(), errs.String())
	}
	if x.Windows {
		return strings.ReplaceAll(out.String(), "\r\n", "\n"), strings.ReplaceAll(errs.String(), "\r\n", "\n")
	}
	return out.String(), errs.String()
}

// Like reports whether a text is as wanted; {{}} matches any text.
func Like(got, want string) bool {
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

// Handlers returns handlers that leave the machine alone: everything but files
// and programs is a table, and the clock stands still.
func Handlers(t testing.TB, out, errs io.Writer) (host.Handlers, *hosttest.Network) {
	t.Helper()
	h := oshost.New(strings.NewReader(""), out, errs)
	h.Env = hosttest.Env{
		"PATH":         os.Getenv("PATH"),
		"COMPUTERNAME": "POD-1",
		"POD_NAME":     "web-0",
		"TEMP":         t.TempDir(),
	}
	n := network()
	h.Net = n
	h.System = system()
	h.Security = security()
	h.Registry = hosttest.Registry{
		"HKLM":               {},
		`HKLM\SOFTWARE`:      {},
		`HKLM\SOFTWARE\Acme`: {"version": {Name: "Version", Kind: "String", Data: "1.2"}},
	}
	h.Now = func() time.Time { return time.Date(2026, 11, 21, 8, 15, 30, 123456700, time.UTC) }
	return h, n
}

// security has the rules of a projected volume on Windows, as kubernetes.io shows them.
func security() *hosttest.Security {
	administrators := host.Account{SID: "S-1-5-32-544", Name: `BUILTIN\Administrators`}
	system := host.Account{SID: "S-1-5-18", Name: `NT AUTHORITY\SYSTEM`}
	users := host.Account{SID: "S-1-5-32-545", Name: `BUILTIN\Users`}
	return &hosttest.Security{
		All: host.Security{Owner: administrators, Group: system, Rules: []host.AccessRule{
			{Account: system, Rights: 0x1f01ff, Inherited: true},
			{Account: administrators, Rights: 0x1f01ff, Inherited: true},
			{Account: users, Rights: 0x1200a9, Inherited: true},
		}},
		Known: []host.Account{administrators, system, users},
	}
}

func network() *hosttest.Network {
	return &hosttest.Network{
		Hosts: map[string][]netip.Addr{
			"kubernetes.default.svc.cluster.local": {netip.MustParseAddr("10.96.0.1")},
			"localhost":                            {netip.MustParseAddr("::1"), netip.MustParseAddr("127.0.0.1")},
		},
		Aliases:  map[string]string{"www.example.com": "web.example.com"},
		Texts:    map[string][]string{"example.com": {"v=spf1 -all"}},
		Services: map[string][]*net.SRV{"_http._tcp.web": {{Target: "web-0.web.", Port: 80, Priority: 1, Weight: 5}}},
		Mail:     map[string][]*net.MX{"example.com": {{Host: "mail.example.com.", Pref: 10}}},
		Servers:  map[string][]*net.NS{"example.com": {{Host: "ns.example.com."}}},
		Others: map[string]host.Resolver{"10.96.0.10": &hosttest.Network{Hosts: map[string][]netip.Addr{
			"web.default.svc.cluster.local": {netip.MustParseAddr("10.96.7.7")},
		}}},
		Interfaces: []host.Adapter{
			{
				Index:     1,
				Name:      "Loopback Pseudo-Interface 1",
				Loopback:  true,
				Up:        true,
				Addresses: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/8")},
			},
			{
				Index:       4,
				Name:        "vEthernet (Ethernet)",
				Description: "Hyper-V Virtual Ethernet Container Adapter",
				MAC:         "00-15-5D-00-04-01",
				Up:          true,
				MTU:         1500,
				BitsPerSec:  10_000_000_000,
				Addresses:   []netip.Prefix{netip.MustParsePrefix("10.244.1.7/24")},
				Gateways:    []netip.Addr{netip.MustParseAddr("10.244.1.1")},
				DNS:         []netip.Addr{netip.MustParseAddr("10.96.0.10")},
				Suffix:      "default.svc.cluster.local",
			},
		},
		Protocols: []host.IPInterface{
			{Index: 1, MTU: 1500, Metric: 75, AutomaticMetric: true},
			{Index: 4, MTU: 1500, Metric: 15, AutomaticMetric: true},
			{Index: 4, IPv6: true, MTU: 1500, Metric: 15, AutomaticMetric: true},
		},
		Table: []host.Route{{
			Interface:   4,
			Alias:       "vEthernet (Ethernet)",
			Destination: netip.MustParsePrefix("0.0.0.0/0"),
			NextHop:     netip.MustParseAddr("10.244.1.1"),
			Metric:      256,
		}},
	}
}

// system returns a container of Windows Server 2022.
func system() *hosttest.System {
	started := time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)
	return &hosttest.System{
		Name: "POD-1",
		User: "ContainerAdministrator",
		Home: `C:\Users\ContainerAdministrator`,
		Account: host.Identity{
			Name: `User Manager\ContainerAdministrator`,
			SID:  "S-1-5-93-2-1",
			Groups: []host.IdentityGroup{
				{SID: "S-1-1-0", Name: "Everyone"},
				{SID: "S-1-5-32-544", Name: `BUILTIN\Administrators`},
			},
		},
		Running: []host.ProcessInfo{
			{
				ID:         4242,
				Parent:     1000,
				Name:       "powershell",
				Path:       `C:\Windows\System32\WindowsPowerShell\v1.0\powershell.exe`,
				Started:    started,
				CPU:        1500 * time.Millisecond,
				WorkingSet: 64 << 20,
				Threads:    12,
			},
			{
				ID:         1000,
				Name:       "CExecSvc",
				Started:    started,
				CPU:        20 * time.Millisecond,
				WorkingSet: 5 << 20,
				Threads:    4,
			},
			{
				ID:         1200,
				Parent:     1000,
				Name:       "w3wp",
				Path:       `C:\Windows\System32\inetsrv\w3wp.exe`,
				Started:    started,
				WorkingSet: 12 << 20,
				Threads:    9,
			},
		},
		Known: []host.ServiceInfo{
			{Name: "W3SVC", DisplayName: "World Wide Web Publishing Service", Status: "Running",
				StartType: "Automatic"},
			{Name: "Dnscache", DisplayName: "DNS Client", Status: "Running", StartType: "Automatic"},
			{Name: "AppIDSvc", DisplayName: "Application Identity", Status: "Stopped", StartType: "Manual"},
		},
		Version: "10.0.20348.2402",
		Boot:    started,
		Width:   120,
		Height:  30,
		Total:   8 << 30,
		Free:    3 << 30,
	}
}

// onWindows changes the handlers to Windows': a drive C:, and the program
// echoargs.exe, which prints its arguments and its input.
func onWindows(t testing.TB, h host.Handlers, dir string) host.Handlers {
	t.Helper()
	for _, d := range []string{"work", "Temp", "Users/ContainerAdministrator", "Windows/System32"} {
		if err := os.MkdirAll(filepath.Join(dir, filepath.FromSlash(d)), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	h.Files = hosttest.Drive{Dir: dir}
	h.Env = hosttest.Env{
		"PATH":         `C:\Windows\System32;C:\Windows`,
		"PATHEXT":      ".COM;.EXE;.BAT;.CMD",
		"COMPUTERNAME": "POD-1",
		"SystemRoot":   `C:\Windows`,
		"TEMP":         `C:\Temp`,
		"USERPROFILE":  `C:\Users\ContainerAdministrator`,
	}
	const program = `C:\Windows\System32\echoargs.exe`
	h.LookPath = func(name, _ string) (string, bool) {
		name = strings.TrimSuffix(strings.ToLower(name), ".exe")
		return program, name == "echoargs" || name == `c:\windows\system32\echoargs`
	}
	h.Exec = echoArgs
	return h
}

// echoArgs prints each argument in angle brackets, then its input in square
// ones. "exit N" as the first arguments is the exit code.
func echoArgs(_ context.Context, p host.Process) (int, error) {
	for i, a := range p.Args {
		fmt.Fprintf(p.Stdout, "%d <%s>\r\n", i, a)
	}
	if p.Stdin != nil {
		b, err := io.ReadAll(p.Stdin)
		if err != nil {
			return 0, err
		}
		if len(b) > 0 {
			fmt.Fprintf(p.Stdout, "[%s]\r\n", strings.TrimRight(string(b), "\r\n"))
		}
	}
	if len(p.Args) > 1 && p.Args[0] == "exit" {
		return strconv.Atoi(p.Args[1])
	}
	return 0, nil
}
