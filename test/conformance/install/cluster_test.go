// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package install_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/mullion-k8s/mullion/internal/cli"
	"github.com/mullion-k8s/mullion/internal/testenv"
)

// limit is far above whatever is waited for.
const limit = time.Minute

const adminToken = "admin-of-the-test"

// cluster is the plain cluster.
type cluster struct {
	t          *testing.T
	dir        string
	kubeconfig string
	client     *kubernetes.Clientset
	dynamic    dynamic.Interface
	apiserver  *program
	proxied    string // the ClusterIP that is forwarded
	lastPod    *netip.Addr
	alive      *sync.Map // of channels that close when a pod's process ends, by the pod's UID
}

// program is a running one.
type program struct {
	cmd  *exec.Cmd
	log  *testenv.Buffer
	done chan struct{}
}

func (c *cluster) start(name string, cmd *exec.Cmd) *program {
	c.t.Helper()
	p := &program{cmd: cmd, log: &testenv.Buffer{}, done: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = p.log, p.log
	if err := cmd.Start(); err != nil {
		c.t.Fatalf("start %s: %v", name, err)
	}
	go func() {
		defer close(p.done)
		_ = cmd.Wait() // most are killed
	}()
	c.t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		<-p.done
		if c.t.Failed() {
			lines := strings.Split(p.log.String(), "\n")
			c.t.Logf("%s:\n%s", name, strings.Join(lines[max(0, len(lines)-25):], "\n"))
		}
	})
	return p
}

func (p *program) end(s syscall.Signal) {
	_ = p.cmd.Process.Signal(s) // it may have ended
	<-p.done
}

// newCluster starts etcd, the API server and the controller manager.
func newCluster(t *testing.T) *cluster {
	t.Helper()
	testenv.Need(t, testenv.Root, testenv.Peers)
	first := netip.MustParsePrefix(podRange).Addr()
	c := &cluster{t: t, dir: t.TempDir(), lastPod: &first, alive: &sync.Map{}}
	c.start("etcd", exec.Command(testenv.Bin("peers", "etcd"), "--data-dir="+c.path("etcd"), "--log-level=error",
		"--unsafe-no-fsync"))
	public, private := c.keys()
	tokens := c.write("tokens.csv", adminToken+",admin,admin,system:masters\n")
	c.apiserver = c.start("kube-apiserver", exec.Command(testenv.Bin("peers", "kube-apiserver"),
		"--etcd-servers=http://127.0.0.1:2379", "--bind-address="+serverAddress, "--advertise-address="+serverAddress,
		"--secure-port=6443", "--cert-dir="+c.path("certs"), "--token-auth-file="+tokens,
		"--authorization-mode=Node,RBAC", "--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file="+public, "--service-account-signing-key-file="+private,
		"--service-cluster-ip-range="+serviceRange, "--enable-aggregator-routing=true", "--audit-policy-file="+
			c.write("audit.yaml", auditPolicy), "--audit-log-path="+c.path("audit.log")))
	ca := c.path("certs", "apiserver.crt") // its own, with its authority
	rest := &rest.Config{
		Host:            "https://" + serverAddress + ":6443",
		BearerToken:     adminToken,
		QPS:             -1,
		TLSClientConfig: rest.TLSClientConfig{CAFile: ca},
	}
	c.kubeconfig = c.write("kubeconfig", fmt.Sprintf(`apiVersion: v1
kind: Config
current-context: plain
contexts: [{name: plain, context: {cluster: plain, user: admin}}]
clusters: [{name: plain, cluster: {server: %q, certificate-authority: %q}}]
users: [{name: admin, user: {token: %s}}]
`, rest.Host, ca, adminToken))
	c.eventually("the API server's certificate", func() error {
		info, err := os.Stat(ca)
		if err == nil && info.Size() == 0 {
			err = fmt.Errorf("%s is being written", ca) // clients would take it for no authority
		}
		return err
	})
	cfg, err := clientcmd.BuildConfigFromFlags("", c.kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	cfg.QPS = -1
	if c.client, err = kubernetes.NewForConfig(cfg); err != nil {
		t.Fatal(err)
	}
	if c.dynamic, err = dynamic.NewForConfig(cfg); err != nil {
		t.Fatal(err)
	}
	c.eventually("the API server", func() error {
		return c.client.RESTClient().Get().AbsPath("/readyz").Do(t.Context()).Error()
	})
	c.start("kube-controller-manager", exec.Command(testenv.Bin("peers", "kube-controller-manager"),
		"--kubeconfig="+c.kubeconfig, "--service-account-private-key-file="+private, "--root-ca-file="+ca,
		"--use-service-account-credentials=true",
		// Nodes of the test have no kubelet that renews a lease.
		"--controllers=*,-node-lifecycle-controller", "--leader-elect=false", "--secure-port=0",
		"--concurrent-gc-syncs=5"))
	return c
}

func (c *cluster) path(elem ...string) string {
	return filepath.Join(append([]string{c.dir}, elem...)...)
}

func (c *cluster) write(name, content string) string {
	c.t.Helper()
	if err := os.WriteFile(c.path(name), []byte(content), 0o600); err != nil {
		c.t.Fatal(err)
	}
	return c.path(name)
}

func (c *cluster) read(name string) string {
	c.t.Helper()
	data, err := os.ReadFile(c.path(name))
	if err != nil {
		c.t.Fatal(err)
	}
	return string(data)
}

// keys makes those that ServiceAccount tokens are signed with.
func (c *cluster) keys() (public, private string) {
	c.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		c.t.Fatal(err)
	}
	priv, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		c.t.Fatal(err)
	}
	pub, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		c.t.Fatal(err)
	}
	return c.write("sa.pub", string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: pub}))),
		c.write("sa.key", string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: priv})))
}

// eventually asks until there is no error.
func (c *cluster) eventually(what string, ask func() error) {
	c.t.Helper()
	deadline := time.Now().Add(limit)
	for {
		err := ask()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			c.t.Fatalf("%s: not within %s: %v", what, limit, err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// mullion runs a command in this process, against the cluster.
func (c *cluster) mullion(ctx context.Context, args ...string) (code int, errs string) {
	c.t.Helper()
	var out, narration bytes.Buffer
	args = append([]string{"mullion", args[0], "--kubeconfig", c.kubeconfig}, args[1:]...)
	code = cli.Run(ctx, cli.Streams{In: strings.NewReader(""), Out: &out, Err: &narration}, args, commands())
	return code, narration.String()
}

// must runs a mullion command that must succeed and returns its standard error.
func (c *cluster) must(args ...string) string {
	c.t.Helper()
	code, errs := c.mullion(c.t.Context(), args...)
	if code != 0 {
		c.t.Fatalf("mullion %s: exit code %d\n%s", strings.Join(args, " "), code, errs)
	}
	return errs
}

// ok asks a manager as a kubelet does.
func ok(ctx context.Context, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, resp.Status)
	}
	return nil
}
