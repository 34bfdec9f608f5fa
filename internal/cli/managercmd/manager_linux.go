// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package managercmd has the command `mullion manager`, which the pods of an
// installation run. It turns flags into the configuration of package manager.
package managercmd

import (
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"strings"

	"github.com/spf13/cobra"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	"github.com/mullion-k8s/mullion/internal/cli"
	"github.com/mullion-k8s/mullion/internal/manager"
	"github.com/mullion-k8s/mullion/internal/manager/inventory"
	"github.com/mullion-k8s/mullion/internal/manager/registration"
	"github.com/mullion-k8s/mullion/internal/policy"
	"github.com/mullion-k8s/mullion/internal/registry/lookup"
)

// flags holds the command's flags.
type flags struct {
	kubeconfig, namespace, listen, service, url, clientCA    string
	health, metrics                                          string
	taint, rulesPolicy, owner, log, defaultOS, registryCerts string
	admission                                                string
	insecure                                                 []string
	leaderElect, noGMSA, noRegistries, randomHostname        bool
	storage                                                  bool
}

// New returns the command.
func New(s cli.Streams) *cobra.Command {
	var f flags
	cmd := &cobra.Command{
		Use:   "manager",
		Short: "Run the admission webhooks and controllers of a cluster",
		Long: `Serve the admission webhooks: they place pods on nodes that can run them, reject
objects that cannot work on Windows, with the reason and the fix, and fill in
credential specs (GMSA). The manager also maintains a RuntimeClass for each
Windows build and the labels and taints of Windows nodes. If no node can run a
pod, it records the reason on the pod.

'mullion install' runs the manager in a cluster, and 'mullion up' in its control
plane. It creates its own certificates, stores them in a Secret and renews them.
It registers the webhooks once they answer. Several managers can run at the same
time: all of them serve the webhooks, one runs the controllers.`,
		Example: `  mullion manager                                  # in a pod of 'mullion install'
  mullion manager --kubeconfig admin.kubeconfig --listen 192.0.2.1:9443 --url https://192.0.2.1:9443
  mullion manager --rules-failure-policy Fail --windows-taint os=windows:NoSchedule`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := f.config(s)
			if err != nil {
				return err
			}
			klog.SetSlogLogger(c.Log) // client-go logs through klog
			return manager.Run(cmd.Context(), c)
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig `file` (default: the credentials of the pod)")
	fl.StringVar(&f.namespace, "namespace", inventory.Namespace,
		"`namespace` of the certificates, the Lease and the Service")
	fl.StringVar(&f.listen, "listen", ":9443", "`address` on which the webhooks listen")
	fl.StringVar(&f.service, "service", inventory.Service,
		"`name` of the Service in front of the webhooks")
	fl.StringVar(&f.url, "url", "", "`URL` of the webhooks for the API server, instead of a Service")
	fl.StringVar(&f.clientCA, "client-ca", "", "PEM `file` with CA certificates; clients of the webhooks must "+
		"present a certificate that one of them signed")
	fl.StringVar(&f.health, "health", ":8081", "`address` of /livez and /readyz (plain HTTP); empty for none")
	fl.StringVar(&f.metrics, "metrics", ":8080",
		"`address` of /metrics, in Prometheus' format (plain HTTP); empty for none")
	fl.BoolVar(&f.leaderElect, "leader-elect", true, "elect one of several managers to run the controllers")
	fl.StringVar(&f.taint, "windows-taint", "", "`taint` for every Windows node, such as os=windows:NoSchedule; "+
		"empty for none")
	fl.StringVar(&f.admission, "admission", string(policy.AdmissionEnforce), "`mode` for findings in namespaces "+
		"without admission labels: enforce refuses objects that cannot run, warn only warns, off does neither")
	fl.StringVar(&f.rulesPolicy, "rules-failure-policy", "Ignore",
		"`policy` for objects when the rules webhook does not answer: Ignore admits them, Fail rejects them")
	fl.BoolVar(&f.noGMSA, "no-gmsa", false, "leave GMSA to another webhook")
	fl.BoolVar(&f.randomHostname, "gmsa-random-hostname", false, "give each pod with a GMSA its own host name")
	fl.StringVar(&f.defaultOS, "default-os", "linux",
		"operating `system` of pods that do not specify one: linux or windows")
	fl.StringVar(&f.registryCerts, "registry-certs", "",
		"`folder` with CA certificates of registries, laid out like containerd's certs.d")
	fl.StringSliceVar(&f.insecure, "insecure-registry", nil, "`registries` that may be queried over plain HTTP")
	fl.BoolVar(&f.noRegistries, "no-registries", false, "do not query registries for the platforms of images")
	fl.BoolVar(&f.storage, "storage", false, "create the StorageClass mullion-local and provision its volumes")
	fl.StringVar(&f.owner, "owner-cluster-role", "",
		"`name` of the ClusterRole that owns the certificates and webhook configurations: they are deleted with it")
	fl.StringVar(&f.log, "log-level", "info", "minimum `level` to log: debug, info, warn or error")
	return cmd
}

// config turns the flags into a Config.
func (f flags) config(s cli.Streams) (manager.Config, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(f.log)); err != nil {
		return manager.Config{}, cli.Usagef("--log-level %q: want debug, info, warn or error", f.log)
	}
	c := manager.Config{
		Listen: f.listen, URL: f.url, Namespace: f.namespace, Health: f.health, Metrics: f.metrics,
		RulesFailurePolicy: admissionregistrationv1.FailurePolicyType(f.rulesPolicy),
		NoGMSA:             f.noGMSA, RandomHostname: f.randomHostname, OwnerClusterRole: f.owner, OwnProcess: true,
		Storage:        f.storage,
		LeaderElection: f.leaderElect, DefaultOS: f.defaultOS, Admission: policy.Admission(f.admission),
		// A loopback address in an image's name refers to the node.
		Registry: lookup.Config{Off: f.noRegistries, CertsDir: f.registryCerts, Insecure: f.insecure, NoLoopback: true},
		Log:      slog.New(slog.NewTextHandler(s.Err, &slog.HandlerOptions{Level: level})),
	}
	if f.url == "" {
		c.Service = registration.Service{Namespace: f.namespace, Name: f.service}
	}
	if f.taint != "" {
		t, err := policy.ParseWindowsTaint(f.taint)
		if err != nil {
			return c, cli.Usagef("--windows-taint: %w", err)
		}
		c.WindowsTaint = t
	}
	if f.clientCA != "" {
		pem, err := os.ReadFile(f.clientCA)
		if err != nil {
			return c, cli.Usagef("--client-ca: %w", err)
		}
		c.ClientCA = pem
	}
	c.REST = &rest.Config{} // validate the rest first: that needs no cluster
	if err := c.Validate(); err != nil {
		return c, cli.Usagef("%w", err)
	}
	var err error
	c.REST, err = f.client()
	return c, err
}

// client finds the cluster.
func (f flags) client() (*rest.Config, error) {
	if f.kubeconfig == "" {
		cfg, err := rest.InClusterConfig()
		if errors.Is(err, rest.ErrNotInCluster) {
			return nil, cli.Environmentf("outside a cluster, pass a kubeconfig: mullion manager --kubeconfig FILE "+
				"--url https://ADDRESS:9443", "not running in a pod")
		}
		if err != nil {
			return nil, fmt.Errorf("find the cluster: %w", err)
		}
		return cfg, nil
	}
	cfg, err := clientcmd.BuildConfigFromFlags("", f.kubeconfig)
	if err != nil {
		return nil, cli.Usagef("--kubeconfig: %w", err)
	}
	if u, err := url.Parse(cfg.Host); err == nil && u.Scheme == "http" && !strings.HasPrefix(u.Host, "127.") &&
		!strings.HasPrefix(u.Host, "localhost") {
		return nil, cli.Usagef("--kubeconfig: the server %s does not use TLS", cfg.Host)
	}
	return cfg, nil
}
