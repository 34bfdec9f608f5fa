// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/discovery"
	memcached "k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	kubectlget "k8s.io/kubectl/pkg/cmd/get"
	kubectlutil "k8s.io/kubectl/pkg/cmd/util"
)

// reader runs `kubectl get` in this process. Tests that wait for something ask some times
// a second, and each process of kubectl would take a tenth of a second of a processor to
// start, which the cluster needs. What a test changes, it changes with the programs that
// users have.
type reader struct {
	file      *clientcmdapi.Config
	config    *rest.Config
	discovery discovery.CachedDiscoveryInterface
	mapper    meta.RESTMapper
}

// readTimeout is for a control plane that a test has stopped.
const readTimeout = time.Minute

// newReader returns a reader of the cluster that a kubeconfig file names.
func newReader(kubeconfig string) (*reader, error) {
	file, err := clientcmd.LoadFromFile(kubeconfig)
	if err != nil {
		return nil, err
	}
	config, err := clientcmd.NewDefaultClientConfig(*file, nil).ClientConfig()
	if err != nil {
		return nil, err
	}
	config.QPS, config.Timeout = -1, readTimeout
	uncached, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, err
	}
	cached := memcached.NewMemCacheClient(uncached)
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(cached)
	return &reader{file, config, cached, restmapper.NewShortcutExpander(mapper, cached, nil)}, nil
}

// reading is a reader with the flags of one command, as kubectl's code asks for them.
type reading struct {
	*reader
	flags clientcmd.ConfigOverrides
}

var _ genericclioptions.RESTClientGetter = (*reading)(nil)

func (r *reading) ToRESTConfig() (*rest.Config, error) { return rest.CopyConfig(r.config), nil }

func (r *reading) ToDiscoveryClient() (discovery.CachedDiscoveryInterface, error) {
	return r.discovery, nil
}

func (r *reading) ToRESTMapper() (meta.RESTMapper, error) { return r.mapper, nil }

func (r *reading) ToRawKubeConfigLoader() clientcmd.ClientConfig {
	return clientcmd.NewDefaultClientConfig(*r.file, &r.flags)
}

// fatal holds the message of kubectl's code when it would end the process.
type fatal struct {
	message string
	code    int
}

// panicOnFatal lets get return what would end the process. TestMain calls it.
func panicOnFatal() {
	kubectlutil.BehaviorOnFatal(func(message string, code int) { panic(fatal{message, code}) })
}

// get runs `kubectl get` with the arguments behind it, and returns standard output.
func (r *reader) get(ctx context.Context, args ...string) (stdout string, err error) {
	var out, errs bytes.Buffer
	defer func() {
		switch p := recover().(type) {
		case nil:
		case fatal:
			stdout, err = out.String(), fmt.Errorf("exit status %d: %s", p.code,
				strings.TrimSpace(errs.String()+p.message))
		default:
			panic(p)
		}
	}()
	of := &reading{reader: r}
	cmd := kubectlget.NewCmdGet("kubectl", kubectlutil.NewFactory(of),
		genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: &out, ErrOut: &errs})
	cmd.Flags().StringVarP(&of.flags.Context.Namespace, "namespace", "n", "", "")
	cmd.SetArgs(args)
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	err = cmd.ExecuteContext(ctx)
	return out.String(), err
}
