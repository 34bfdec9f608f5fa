// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package clustercmd

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/mullion-k8s/mullion/internal/cli"
	"github.com/mullion-k8s/mullion/internal/cluster"
)

// listed is one entry of the output of `mullion list -o json`. Fields are only ever
// added.
type listed struct {
	Name      string   `json:"name"`
	State     string   `json:"state"` // running, down or unreadable
	Message   string   `json:"message,omitempty"`
	Hosts     []string `json:"hosts"`
	APIServer string   `json:"apiServer,omitempty"`
	Context   string   `json:"context,omitempty"`
	Directory string   `json:"directory"`
}

// List is `mullion list`.
func List(s cli.Streams) *cobra.Command {
	var dataDir, output string
	cmd := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List the clusters on this machine",
		Long:    "List the clusters in the data directory, running or not.",
		Example: `  mullion list
  mullion list -o name | xargs -n1 mullion down --name`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return runList(s, dataDir, output) },
	}
	addDataDir(cmd, &dataDir)
	cli.Output(cmd, &output, "text", "json", "name")
	return cmd
}

func runList(s cli.Streams, dataDir, output string) error {
	dir, err := absolute(dataDir)
	if err != nil {
		return err
	}
	names, err := cluster.Names(dir)
	if errors.Is(err, fs.ErrPermission) {
		return cli.Environmentf("run it with sudo", "%w", err)
	}
	if err != nil {
		return err
	}
	clusters := make([]listed, 0, len(names))
	for _, name := range names {
		clusters = append(clusters, look(cluster.Layout{DataDir: dir, Name: name}))
	}
	switch {
	case output == "json":
		e := json.NewEncoder(s.Out)
		e.SetIndent("", "  ")
		return e.Encode(clusters)
	case output == "name":
		for _, c := range clusters {
			fmt.Fprintln(s.Out, c.Name)
		}
		return nil
	case len(clusters) == 0:
		fmt.Fprintf(s.Err, "no clusters in %s\n", dir)
		return nil
	}
	w := tabwriter.NewWriter(s.Out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(w, "NAME\tSTATE\tHOSTS\tAPI SERVER\tCONTEXT")
	for _, c := range clusters {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", c.Name, c.State, strings.Join(c.Hosts, ","), c.APIServer, c.Context)
	}
	return w.Flush()
}

// look returns the list's entry for one cluster. A cluster that cannot be read has an
// entry, too.
func look(l cluster.Layout) listed {
	out := listed{Name: l.Name, State: "down", Hosts: []string{}, Directory: l.Dir()}
	cfg, err := cluster.Load(l)
	if err != nil {
		out.State, out.Message = "unreadable", err.Error()
		return out
	}
	out.APIServer, out.Context = cfg.Network().APIServer(), contextName(l)
	out.Hosts = append(out.Hosts, cfg.Hosts()...)
	_, running, err := cluster.ReadState(l)
	switch {
	case err != nil:
		out.State, out.Message = "unreadable", err.Error()
	case running:
		out.State = "running"
	}
	return out
}
