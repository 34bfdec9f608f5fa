// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package winbox

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mullion-k8s/mullion/internal/testenv"
	"github.com/mullion-k8s/mullion/pwsh/host"
	"github.com/mullion-k8s/mullion/pwsh/host/hosttest"
)

// fakeSystem is a Windows of known properties.
type fakeSystem struct {
	System // nil
	echo   map[netip.Addr]error
}

func (f fakeSystem) SearchList() []string { return []string{"google.com", "cluster.local"} }

func (f fakeSystem) Echo(_ context.Context, to netip.Addr, _, _ int, _ time.Duration) (EchoReply, error) {
	return EchoReply{From: to, Time: 7 * time.Millisecond, TTL: 126}, f.echo[to]
}

// newHost returns a machine of known properties.
func newHost() host.Handlers {
	return host.Handlers{
		System: &hosttest.System{
			Name: "win-pod", Total: 2 << 30,
			Account: host.Identity{
				Name: `User Manager\ContainerUser`, SID: "S-1-5-93-2-2",
				Groups: []host.IdentityGroup{
					{Name: "Everyone", Type: "Well-known group", SID: "S-1-1-0", Attributes: 7},
					{Name: `BUILTIN\Users`, Type: "Alias", SID: "S-1-5-32-545", Attributes: 7},
					{Name: `Mandatory Label\Medium Mandatory Level`, Type: "Label", SID: "S-1-16-8192",
						Attributes: 0x60},
				},
				Privileges: []host.Privilege{{Name: "SeChangeNotifyPrivilege", Enabled: true}},
			},
			Running: []host.ProcessInfo{
				{File: "System", ID: 4, WorkingSet: 140 << 10}, {File: "cmd.exe", ID: 100, WorkingSet: 4 << 20},
				{File: "server.exe", ID: 101, WorkingSet: 1234 << 20},
			},
		},
		Registry: hosttest.Registry{`HKLM\SOFTWARE\Microsoft\Windows NT\CurrentVersion`: {
			"productname":        {Name: "ProductName", Data: "Windows Server 2019 Datacenter"},
			"currentbuildnumber": {Name: "CurrentBuildNumber", Data: "17763"},
		}},
		Net: &hosttest.Network{Interfaces: []host.Adapter{{Name: "lo", Loopback: true, Up: true}, {
			Name: "vEthernet (Ethernet)", Description: "Hyper-V Virtual Ethernet Adapter", Suffix: "google.com",
			MAC: "00-15-5D-01-02-03", Up: true, Addresses: []netip.Prefix{netip.MustParsePrefix("10.244.1.5/24"),
				netip.MustParsePrefix("fe80::1/64"), netip.MustParsePrefix("fd00::5/64")}, Index: 7,
			Gateways: []netip.Addr{netip.MustParseAddr("10.244.1.1"), netip.MustParseAddr("fe80::2"),
				netip.MustParseAddr("fd00::2")},
			DNS: []netip.Addr{netip.MustParseAddr("10.10.10.10"), netip.MustParseAddr("10.10.10.11")},
		}}},
	}
}

// run runs a tool and returns what it wrote, with plain line ends.
func run(t *testing.T, stdin string, argv ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, errs bytes.Buffer
	env := &Env{Stdin: strings.NewReader(stdin), Stdout: &out, Stderr: &errs, System: fakeSystem{}, Host: newHost(),
		Getenv: os.Getenv}
	code = Run(t.Context(), argv, env)
	return strings.ReplaceAll(out.String(), "\r\n", "\n"), strings.ReplaceAll(errs.String(), "\r\n", "\n"), code
}

func TestRunChoosesByName(t *testing.T) {
	for _, argv := range [][]string{{"hostname"}, {`C:\Windows\System32\HOSTNAME.EXE`}, {"winbox.exe", "hostname"}} {
		if out, _, code := run(t, "", argv...); out != "win-pod\n" || code != 0 {
			t.Errorf("%q: %q, %d", argv, out, code)
		}
	}
	for _, argv := range [][]string{{"winbox"}, {"winbox", "nothing"}, {"nothing.exe"}, nil} {
		if _, errs, code := run(t, "", argv...); code == 0 || !strings.Contains(errs, "ping") {
			t.Errorf("%q: %q, %d", argv, errs, code)
		}
	}
}

// TestTools compares whole outputs; where Windows' own is known, it is that.
func TestTools(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir) // an absolute path would look like an option here
	const file = "log.txt"
	if err := os.WriteFile(file, []byte("first line\r\nSecond Line\r\nthe third\r\nerror: 42 failed\r\n"),
		0o644); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir)
	t.Setenv("PATHEXT", ".COM;.TXT")
	for _, tt := range []struct {
		name  string
		argv  []string
		stdin string
		want  string
		code  int
	}{
		{"whoami", []string{"whoami"}, "", "user manager\\containeruser\n", 0},
		{"whoami/fo", []string{"whoami", "/user", "/fo", "csv", "/nh"}, "",
			"\"user manager\\containeruser\",\"S-1-5-93-2-2\"\n", 0},
		{"whoami/list", []string{"whoami", "/priv", "/fo", "list"}, "",
			"\nPRIVILEGES INFORMATION\n----------------------\n\nPrivilege Name: SeChangeNotifyPrivilege\n" +
				"Description:    Bypass traverse checking\nState:          Enabled\n\n", 0},
		{"whoami/upn", []string{"whoami", "/upn"}, "", "", 1},
		{"whoami/bad", []string{"whoami", "/x"}, "", "", 1},
		{"whoami/nothing", []string{"whoami", "/nh"}, "", "", 1},
		{"find", []string{"find", `"line"`}, "a line\nno\n", "a line\n", 0},
		{"find ignores case", []string{"find", "/i", "LINE", file}, "", "\n---------- " + strings.ToUpper(file) +
			"\nfirst line\nSecond Line\n", 0},
		{"find counts", []string{"find", "/c", "l"}, "l\nx\nl\n", "2\n", 0},
		{"find inverts and numbers", []string{"find", "/v", "/n", "l"}, "l\nx\nl\n", "[2]x\n", 0},
		{"find nothing", []string{"find", "zzz"}, "l\n", "", 1},
		{"findstr", []string{"findstr", "/i", "second third", file}, "", "Second Line\nthe third\n", 0},
		{"findstr literal phrase", []string{"findstr", "/c:the third", file}, "", "the third\n", 0},
		{"findstr expression", []string{"findstr", "/r", "/n", "error:.[0-9][0-9]*", file}, "",
			"4:error: 42 failed\n", 0},
		{"findstr begins", []string{"findstr", "/b", "the", file}, "", "the third\n", 0},
		{"findstr word", []string{"findstr", `\<line\>`, file}, "", "first line\n", 0},
		{"findstr inverts", []string{"findstr", "/v", "i", file}, "", "", 1},
		{"findstr treats RE2 operators as text", []string{"findstr", "/r", "a+b(c"}, "a+b(c\naab\n", "a+b(c\n", 0},
		{"findstr nothing, as critest's pgrep", []string{"findstr", "sleep"}, "", "", 1},
		{"where", []string{"where", "log"}, "", filepath.Join(dir, file) + "\n", 0},
		{"where nothing", []string{"where", "/q", "zzz"}, "", "", 1},
		{"tasklist filter", []string{"tasklist", "/nh", "/fi", "IMAGENAME eq CMD.exe"}, "",
			"cmd.exe                        100 Services                   0      4,096 K\n", 0},
		{"tasklist csv", []string{"tasklist", "/fo", "csv", "/fi", "pid eq 101"}, "",
			"\"Image Name\",\"PID\",\"Session Name\",\"Session#\",\"Mem Usage\"\n" +
				"\"server.exe\",\"101\",\"Services\",\"0\",\"1,263,616 K\"\n", 0},
		{"tasklist none", []string{"tasklist", "/fi", "imagename eq none.exe"}, "",
			"INFO: No tasks are running which match the specified criteria.\n", 0},
		{"nltest without a domain", []string{"nltest", "/parentdomain"}, "",
			"Getting parent domain failed: Status = 1722 0x6ba RPC_S_SERVER_UNAVAILABLE\n", 1},
		{"timeout refuses redirection", []string{"timeout", "/t", "5"}, "", "", 1},
		{"ping the computer itself", []string{"ping", "-n", "1", "localhost"}, "",
			"\nPinging win-pod [127.0.0.1] with 32 bytes of data:\nReply from 127.0.0.1: bytes=32 time<1ms TTL=128\n" +
				"\nPing statistics for 127.0.0.1:\n    Packets: Sent = 1, Received = 1, Lost = 0 (0% loss),\n" +
				"Approximate round trip times in milli-seconds:\n    Minimum = 0ms, Maximum = 0ms, Average = 0ms\n", 0},
		{"ping another", []string{"ping", "-n", "1", "-l", "100", "10.0.0.9"}, "",
			"\nPinging 10.0.0.9 with 100 bytes of data:\nReply from 10.0.0.9: bytes=100 time=7ms TTL=126\n" +
				"\nPing statistics for 10.0.0.9:\n    Packets: Sent = 1, Received = 1, Lost = 0 (0% loss),\n" +
				"Approximate round trip times in milli-seconds:\n    Minimum = 7ms, Maximum = 7ms, Average = 7ms\n", 0},
		{"ping v6", []string{"ping", "-6", "-n", "1", "localhost"}, "",
			"\nPinging win-pod [::1] with 32 bytes of data:\nReply from ::1: time<1ms \n" +
				"\nPing statistics for ::1:\n    Packets: Sent = 1, Received = 1, Lost = 0 (0% loss),\n" +
				"Approximate round trip times in milli-seconds:\n    Minimum = 0ms, Maximum = 0ms, Average = 0ms\n", 0},
		{"ping another in IPv6", []string{"ping", "-6", "-n", "1", "fd00::9"}, "",
			"\nPinging fd00::9 with 32 bytes of data:\nReply from fd00::9: time=7ms \n" +
				"\nPing statistics for fd00::9:\n    Packets: Sent = 1, Received = 1, Lost = 0 (0% loss),\n" +
				"Approximate round trip times in milli-seconds:\n    Minimum = 7ms, Maximum = 7ms, Average = 7ms\n", 0},
		{"ping an address of the other family", []string{"ping", "-4", "fd00::9"}, "",
			"Ping request could not find host fd00::9. Please check the name and try again.\n", 1},
		{"ping an address of the other family", []string{"ping", "-6", "10.0.0.9"}, "",
			"Ping request could not find host 10.0.0.9. Please check the name and try again.\n", 1},
		{"ping with a bad value", []string{"ping", "-n", "0", "localhost"}, "",
			"Bad value for option -n, valid range is from 1 to 2147483647.\n", 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			out, errs, code := run(t, tt.stdin, tt.argv...)
			if out != tt.want || code != tt.code {
				t.Errorf("%q: exit %d\n%s(error: %s)\nwant %d\n%s", tt.argv, code, out, errs, tt.code, tt.want)
			}
		})
	}
}

// TestIPConfig: the lines that critest looks for, among others.
func TestIPConfig(t *testing.T) {
	out, _, code := run(t, "", "ipconfig", "/all")
	want := `
Windows IP Configuration

   Host Name . . . . . . . . . . . . : win-pod
   Primary Dns Suffix  . . . . . . . : 
   Node Type . . . . . . . . . . . . : Hybrid
   IP Routing Enabled. . . . . . . . : No
   WINS Proxy Enabled. . . . . . . . : No
   DNS Suffix Search List. . . . . . : google.com
                                       cluster.local

Ethernet adapter vEthernet (Ethernet):

   Connection-specific DNS Suffix  . : google.com
   Description . . . . . . . . . . . : Hyper-V Virtual Ethernet Adapter
   Physical Address. . . . . . . . . : 00-15-5D-01-02-03
   DHCP Enabled. . . . . . . . . . . : No
   Autoconfiguration Enabled . . . . : Yes
   IPv6 Address. . . . . . . . . . . : fd00::5(Preferred) 
   Link-local IPv6 Address . . . . . : fe80::1%7(Preferred) 
   IPv4 Address. . . . . . . . . . . : 10.244.1.5(Preferred) 
   Subnet Mask . . . . . . . . . . . : 255.255.255.0
   Default Gateway . . . . . . . . . : fe80::2%7
                                       fd00::2
                                       10.244.1.1
   DNS Servers . . . . . . . . . . . : 10.10.10.10
                                       10.10.10.11
   NetBIOS over Tcpip. . . . . . . . : Disabled

`
	if out != want || code != 0 {
		t.Errorf("exit %d\n%s", code, out)
	}
	if out, _, _ := run(t, "", "ipconfig"); !strings.Contains(out,
		"   IPv4 Address. . . . . . . . . . . : 10.244.1.5\n") || strings.Contains(out, "DNS Servers") {
		t.Errorf("short form\n%s", out)
	}
}

func TestPingInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		var out bytes.Buffer
		done := make(chan int)
		go func() {
			done <- Run(ctx, []string{"ping", "-t", "localhost"},
				&Env{Stdout: &out, Stderr: &out, System: fakeSystem{}, Host: newHost()})
		}()
		time.Sleep(9500 * time.Millisecond)
		cancel(ErrInterrupted)
		if code := <-done; code != 0xC000013A {
			t.Errorf("exit %#x", code)
		}
		if n := strings.Count(out.String(), "Reply from 127.0.0.1"); n != 10 {
			t.Errorf("%d replies in 9.5 s", n)
		}
		if !strings.Contains(out.String(), "Sent = 10, Received = 10, Lost = 0 (0% loss)") ||
			!strings.HasSuffix(out.String(), "\r\nControl-C\r\n") {
			t.Errorf("the end: %s", out.String())
		}
	})
}

// TestPingStopped: Windows' ping has no handler for the other events, which end it.
func TestPingStopped(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out bytes.Buffer
	code := Run(ctx, []string{"ping", "-t", "localhost"},
		&Env{Stdout: &out, Stderr: &out, System: fakeSystem{}, Host: newHost()})
	if code != 0xC000013A || strings.Contains(out.String(), "statistics") {
		t.Errorf("exit %#x: %s", code, out.String())
	}
}

func TestPingFailures(t *testing.T) {
	gone := netip.MustParseAddr("10.0.0.1")
	system := fakeSystem{echo: map[netip.Addr]error{gone: errors.New("Request timed out.")}} // Windows' text
	var out bytes.Buffer
	code := Run(t.Context(), []string{"ping", "-n", "1", gone.String()},
		&Env{Stdout: &out, Stderr: &out, System: system, Host: newHost()})
	if code != 1 || !strings.Contains(out.String(), "Request timed out.\r\n") ||
		!strings.Contains(out.String(), "Lost = 1 (100% loss)") {
		t.Errorf("exit %d, %s", code, out.String())
	}
	if text, _, code := run(t, "", "ping", "no-such-host.invalid"); code != 1 ||
		text != "Ping request could not find host no-such-host.invalid. Please check the name and try again.\n" {
		t.Errorf("exit %d, %s", code, text)
	}
}

// TestICMPErrors: an error that came from somewhere names its sender.
func TestICMPErrors(t *testing.T) {
	from := netip.MustParseAddr("fe80::1%7")
	for status, want := range map[uint32]string{
		statusNetUnreachable:  "Reply from fe80::1%7: Destination host unreachable.",
		statusHostUnreachable: "Reply from fe80::1%7: Destination host unreachable.",
		statusExpired:         "Reply from fe80::1%7: TTL expired in transit.",
		statusTimedOut:        "Request timed out.",
		statusGeneralFailure:  "General failure.",
		5:                     "General failure.",
	} {
		if got := icmpReplyError(status, from).Error(); got != want {
			t.Errorf("%d: %q, want %q", status, got, want)
		}
	}
}

func TestNetKeepsAccounts(t *testing.T) {
	t.Setenv("ProgramData", t.TempDir())
	step := func(want string, code int, argv ...string) {
		t.Helper()
		out, errs, got := run(t, "", append([]string{"net"}, argv...)...)
		if got != code || !strings.Contains(out+errs, want) {
			t.Errorf("net %q: exit %d, %s%s; want %d, %q", argv, got, out, errs, code, want)
		}
	}
	step("Administrator            DefaultAccount           Guest", 0, "user")
	step("System error 1376", 2, "localgroup", "hpc-localgroup")
	step("completed successfully", 0, "localgroup", "hpc-localgroup", "/add")
	step("System error 1379", 2, "localgroup", "HPC-localgroup", "/add")
	step("completed successfully", 0, "user", "app", "secret", "/add")
	step("completed successfully", 0, "localgroup", "hpc-localgroup", "app", "/add")
	step("\napp\n", 0, "localgroup", "hpc-localgroup")
	step("*Users *hpc-localgroup", 0, "user", "app")
	step("completed successfully", 0, "user", "app", "/delete")
	step("System error 2221", 2, "user", "app")
	step("not in this stand-in", 1, "use")
}

func TestCurl(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("/ok", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Method", r.Method)
		body := new(bytes.Buffer)
		_, _ = body.ReadFrom(r.Body)
		_, _ = w.Write([]byte("hello " + r.Header.Get("X-Test") + r.Host[:0] + body.String()))
	})
	mux.Handle("/jump", http.RedirectHandler("/ok", http.StatusFound))
	mux.Handle("/loop", http.RedirectHandler("/loop", http.StatusFound))
	srv := httptest.NewServer(mux)
	defer srv.Close()
	secure := httptest.NewUnstartedServer(mux)
	secure.Config.ErrorLog = log.New(io.Discard, "", 0) // the refused handshakes
	secure.StartTLS()
	defer secure.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := l.Addr().String()
	_ = l.Close()
	file := filepath.Join(t.TempDir(), "out")
	for _, tt := range []struct {
		name string
		args []string
		want string
		code int
	}{
		{"get", []string{"-s", srv.URL + "/ok"}, "hello ", 0},
		{"no scheme", []string{strings.TrimPrefix(srv.URL, "http://") + "/ok"}, "hello ", 0},
		{"header and data", []string{"-sH", "X-Test: you ", "-d", "a=1", "--data-urlencode", "b=x y", srv.URL + "/ok"},
			"hello youa=1&b=x+y", 0},
		{"status only", []string{"-s", "-o", "NUL", "-w", `%{http_code}\n`, srv.URL + "/none"}, "404\n", 0},
		{"fail", []string{"-sf", srv.URL + "/none"}, "", 22},
		{"follow", []string{"-sL", srv.URL + "/jump"}, "hello ", 0},
		{"loop", []string{"-sL", srv.URL + "/loop"}, "", 47},
		{"file", []string{"-so", file, srv.URL + "/ok"}, "", 0},
		{"tls refused", []string{"-s", secure.URL + "/ok"}, "", 60},
		{"tls insecure", []string{"-sk", secure.URL + "/ok"}, "hello ", 0},
		{"no connection", []string{"-s", "http://" + closed}, "", 7},
		{"no host", []string{"-s", "http://no-such-host.invalid"}, "", 6},
		{"unknown option", []string{"--nonsense", srv.URL}, "", 2},
		{"no url", []string{"-s"}, "", 2},
		{"other protocol", []string{"-s", "ftp://127.0.0.1/"}, "", 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			out, errs, code := run(t, "", append([]string{"curl.exe"}, tt.args...)...)
			if out != tt.want || code != tt.code {
				t.Errorf("exit %d, %q, error %q; want %d, %q", code, out, errs, tt.code, tt.want)
			}
		})
	}
	if data, err := os.ReadFile(file); err != nil || string(data) != "hello " {
		t.Errorf("file %q, %v", data, err)
	}
	if out, _, _ := run(t, "", "curl", "-sI", srv.URL+"/ok"); !strings.HasPrefix(out, "HTTP/1.1 200 OK\n") ||
		!strings.Contains(out, "X-Method: HEAD\n") {
		t.Errorf("head: %q", out)
	}
}

func TestRedis(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() { done <- serveRedis(ctx, l) }()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	for _, tt := range []struct {
		args, want string
		code       int
	}{
		{"ping", "PONG\n", 0}, {"set key value", "OK\n", 0}, {"get key", "value\n", 0}, {"get none", "\n", 0},
		{"incr n", "1\n", 0}, {"incr n", "2\n", 0}, {"keys *", "key\nn\n", 0}, {"del key n", "2\n", 0},
		{"eval x", "ERR unknown command 'eval' (mullion's stand-in knows a few only)\n", 1},
	} {
		out, errs, code := run(t, "", append([]string{"redis-cli", "-p", port}, strings.Fields(tt.args)...)...)
		if out != tt.want || code != tt.code {
			t.Errorf("%s: exit %d, %q, %q", tt.args, code, out, errs)
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestServiceMonitor(t *testing.T) {
	if _, errs, code := run(t, "", "ServiceMonitor.exe", "spooler"); code != 1 || !strings.Contains(errs, "spooler") {
		t.Errorf("other service: %d, %q", code, errs)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "iisstart.htm"), []byte("start"), 0o644); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	addr, done := make(chan net.Addr, 1), make(chan error, 1)
	logs := filepath.Join(t.TempDir(), "W3SVC1")
	go func() { done <- serveSite(ctx, "127.0.0.1:0", dir, logs, func(a net.Addr) { addr <- a }) }()
	out, _, code := run(t, "", "curl", "-si", "http://"+(<-addr).String()+"/")
	if code != 0 || !strings.Contains(out, "Server: Microsoft-IIS/10.0\n") || !strings.HasSuffix(out, "start") {
		t.Errorf("exit %d, %q", code, out)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	files, err := filepath.Glob(filepath.Join(logs, "u_ex*.log"))
	if err != nil || len(files) != 1 {
		t.Errorf("log files %v, %v", files, err)
	}
}

func TestWhoamiTables(t *testing.T) {
	out, _, code := run(t, "", "whoami", "/all")
	if code != 0 {
		t.Fatal(code)
	}
	testenv.Golden(t, "whoami-all.txt", []byte(out))
}
