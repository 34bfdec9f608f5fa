// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/discovery"
	memcached "k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/tools/remotecommand"
	kubectlapply "k8s.io/kubectl/pkg/cmd/apply"
	kubectldelete "k8s.io/kubectl/pkg/cmd/delete"
	kubectlexec "k8s.io/kubectl/pkg/cmd/exec"
	kubectlget "k8s.io/kubectl/pkg/cmd/get"
	kubectllogs "k8s.io/kubectl/pkg/cmd/logs"
	kubectlutil "k8s.io/kubectl/pkg/cmd/util"
	kubectlwait "k8s.io/kubectl/pkg/cmd/wait"
)

// kubectl runs kubectl's commands in this process. A test run has a thousand of them, and
// each process of kubectl would take a tenth of a second of a processor to start, which the
// cluster needs. It is the code that `mullion kubectl` runs, of the same version. What is
// particular to the program is tested with the program: terminals, standard input,
// kubeconfig files, port-forward.
type kubectl struct {
	file      *clientcmdapi.Config
	config    *rest.Config
	discovery discovery.CachedDiscoveryInterface
	mapper    meta.RESTMapper
}

// readTimeout is for a control plane that a test has stopped.
const readTimeout = time.Minute

// newKubectl returns the kubectl of the cluster that a kubeconfig file names.
func newKubectl(kubeconfig string) (*kubectl, error) {
	file, err := clientcmd.LoadFromFile(kubeconfig)
	if err != nil {
		return nil, err
	}
	config, err := clientcmd.NewDefaultClientConfig(*file, nil).ClientConfig()
	if err != nil {
		return nil, err
	}
	config.QPS = -1
	uncached, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, err
	}
	cached := memcached.NewMemCacheClient(uncached)
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(cached)
	return &kubectl{file, config, cached, restmapper.NewShortcutExpander(mapper, cached, nil)}, nil
}

// command is one command, as kubectl's code asks for its configuration.
type command struct {
	*kubectl
	flags    clientcmd.ConfigOverrides
	timeout  time.Duration
	warnings io.Writer
}

var _ genericclioptions.RESTClientGetter = (*command)(nil)

func (c *command) ToRESTConfig() (*rest.Config, error) {
	config := rest.CopyConfig(c.config)
	config.Timeout = c.timeout
	config.WarningHandler = rest.NewWarningWriter(c.warnings, rest.WarningWriterOptions{Deduplicate: true})
	return config, nil
}

func (c *command) ToDiscoveryClient() (discovery.CachedDiscoveryInterface, error) {
	return c.discovery, nil
}

func (c *command) ToRESTMapper() (meta.RESTMapper, error) { return c.mapper, nil }

func (c *command) ToRawKubeConfigLoader() clientcmd.ClientConfig {
	return clientcmd.NewDefaultClientConfig(*c.file, &c.flags)
}

// fatal holds the message of kubectl's code when it would end the process.
type fatal struct {
	message string
	code    int
}

// panicOnFatal lets run return what would end the process. TestMain calls it.
func panicOnFatal() {
	kubectlutil.BehaviorOnFatal(func(message string, code int) { panic(fatal{message, code}) })
}

// commands are those that run knows.
var commands = map[string]func(kubectlutil.Factory, genericiooptions.IOStreams) *cobra.Command{
	"apply": func(f kubectlutil.Factory, s genericiooptions.IOStreams) *cobra.Command {
		return kubectlapply.NewCmdApply("kubectl", f, s)
	},
	"delete": kubectldelete.NewCmdDelete,
	"exec":   newExec,
	"get": func(f kubectlutil.Factory, s genericiooptions.IOStreams) *cobra.Command {
		return kubectlget.NewCmdGet("kubectl", f, s)
	},
	"logs": kubectllogs.NewCmdLogs,
	"wait": func(f kubectlutil.Factory, s genericiooptions.IOStreams) *cobra.Command {
		return kubectlwait.NewCmdWait(f, s)
	},
}

// runs reports whether run knows a command with its flags. It has no standard input, and of
// kubectl's global flags only -n.
func (k *kubectl) runs(args []string) bool {
	if commands[args[0]] == nil {
		return false
	}
	flags := args
	if end := slices.Index(args, "--"); end >= 0 {
		flags = args[:end]
	}
	return !slices.ContainsFunc(flags, func(arg string) bool {
		return arg == "-" || arg == "-i" || arg == "-it" || strings.HasPrefix(arg, "--request-timeout")
	})
}

// run runs a command that runs accepts, and returns standard output.
func (k *kubectl) run(ctx context.Context, args ...string) (stdout string, err error) {
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
	of := &command{kubectl: k, warnings: &errs}
	streams := genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: &out, ErrOut: &errs}
	if args[0] == "get" {
		of.timeout = readTimeout
	}
	cmd := commands[args[0]](kubectlutil.NewFactory(kubectlutil.NewMatchVersionFlags(of)), streams)
	cmd.Flags().StringVarP(&of.flags.Context.Namespace, "namespace", "n", "", "")
	cmd.SetArgs(args[1:])
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	err = cmd.ExecuteContext(ctx)
	return out.String(), err
}

// newExec returns kubectl's exec without -i, which ends with its context: a test may give a
// command less time than it takes.
func newExec(factory kubectlutil.Factory, streams genericiooptions.IOStreams) *cobra.Command {
	options := &kubectlexec.ExecOptions{StreamOptions: kubectlexec.StreamOptions{IOStreams: streams}}
	cmd := &cobra.Command{Use: "exec", Run: func(cmd *cobra.Command, args []string) {
		options.Executor = executor{&kubectlexec.DefaultRemoteExecutor{}, cmd.Context()}
		kubectlutil.CheckErr(options.Complete(factory, cmd, args, cmd.ArgsLenAtDash()))
		kubectlutil.CheckErr(options.Validate())
		kubectlutil.CheckErr(options.Run())
	}}
	kubectlutil.AddPodRunningTimeoutFlag(cmd, time.Minute)
	kubectlutil.AddContainerVarFlags(cmd, &options.ContainerName, "")
	return cmd
}

// executor is kubectl's with a context.
type executor struct {
	*kubectlexec.DefaultRemoteExecutor
	ctx context.Context
}

func (e executor) Execute(target *url.URL, config *rest.Config, stdin io.Reader, stdout, stderr io.Writer, tty bool,
	sizes remotecommand.TerminalSizeQueue) error {
	return e.ExecuteWithContext(e.ctx, target, config, stdin, stdout, stderr, tty, sizes)
}
