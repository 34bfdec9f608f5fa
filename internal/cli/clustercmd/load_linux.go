// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package clustercmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"

	"github.com/distribution/reference"
	"github.com/spf13/cobra"

	"github.com/mullion-k8s/mullion/internal/cli"
	"github.com/mullion-k8s/mullion/internal/cluster"
	"github.com/mullion-k8s/mullion/internal/host/imageload"
	"github.com/mullion-k8s/mullion/internal/manager/facts"
	"github.com/mullion-k8s/mullion/internal/winsys/winver"
)

// Load is `mullion load`.
func Load(s cli.Streams) *cobra.Command {
	var t target
	var nodes []string
	var folder folderFlags
	cmd := &cobra.Command{
		Use:   "load ARCHIVE|IMAGE|FOLDER... [-- ARGUMENT...]",
		Short: "Load images onto the hosts: from archives, from Docker or containerd, or made of a folder",
		Long: `Load images onto the hosts, so that pods can use them without a registry. An
argument is an OCI or Docker archive (plain or gzip; '-' for standard input), or
the name of an image in docker, nerdctl or podman on this machine. If a file has
that name, the file is loaded. Each host gets the images for its operating system
and build.

A folder becomes an image for Windows of each build, as of a Dockerfile with the
lines FROM (the stand-in of --base), WORKDIR, COPY . ., ENV, USER, ENTRYPOINT and
CMD (the arguments after --). The same folder and flags give the same image.`,
		Example: `  mullion load app.tar db.tar
  mullion load app:v1                  # from docker, nerdctl or podman
  docker save app:v1 | mullion load -
  mullion load ./app --tag app:v1 --entrypoint app.exe -- --port 80`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			args, isFolder, err := folder.take(cmd, args)
			if err != nil {
				return err
			}
			l, cfg, err := t.existing()
			if err != nil {
				return err
			}
			archive := func(ctx context.Context, name string) (string, func(), error) { return archiveOf(ctx, s, name) }
			if isFolder {
				archive = folder.pack
			}
			var errs []error
			for _, arg := range args {
				errs = append(errs, runLoad(cmd.Context(), s, l, cfg, arg, archive, nodes))
			}
			return joined(errs)
		},
	}
	t.add(cmd)
	folder.add(cmd)
	cmd.Flags().StringSliceVar(&nodes, "nodes", nil,
		"`hosts` to load onto (default: all that can run the images)")
	return cmd
}

// joined joins errors; one alone keeps its hint.
func joined(errs []error) error {
	errs = slices.DeleteFunc(errs, func(err error) bool { return err == nil })
	if len(errs) == 1 {
		return errs[0]
	}
	return errors.Join(errs...)
}

// runLoad loads an archive onto hosts. archive returns its path, and a function that removes it if it is temporary.
func runLoad(ctx context.Context, s cli.Streams, l cluster.Layout, cfg cluster.Config, file string,
	archive func(ctx context.Context, name string) (path string, done func(), err error), nodes []string) error {
	p := cli.NewProgress(s.Err)
	defer p.Close()
	line := p.Start("reading %s", file)
	path, done, err := archive(ctx, file)
	if err == nil {
		defer done()
		if len(nodes) == 0 {
			nodes, err = fitting(cfg, path)
		}
	}
	if err != nil {
		line.Fail("%s was not loaded", file)
		return err
	}
	var errs []error
	var loaded []imageload.Image
	var placed []placedImage
	for _, n := range nodes {
		line.Set("loading %s onto %s", file, n)
		images, err := loadOnto(ctx, l, n, path)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", n, err))
			continue
		}
		loaded = append(loaded, images...)
		placed = place(placed, n, images)
	}
	if len(placed) == 0 {
		line.Fail("%s was not loaded", file)
	}
	for i, image := range placed {
		if i > 0 {
			line = p.Start("%s", image.Name)
		}
		about := image.platform()
		if image.Size > 0 {
			about += ", " + size(image.Size)
		}
		line.Done("%s (%s) on %s", image.Name, about, strings.Join(image.Hosts, ", "))
	}
	if err := record(ctx, l, loaded); err != nil {
		// The images are loaded: pods that select a host can use them.
		p.Start("recording the images").Fail("pods with these images need a nodeSelector: %v", err)
	}
	for _, w := range warnings(loaded) {
		fmt.Fprintf(s.Err, "mullion: warning: %s\n", w)
	}
	return errors.Join(errs...)
}

// warnings lists, once each, what may surprise the user of the images.
func warnings(images []imageload.Image) []string {
	var all []string
	for _, i := range images {
		for _, name := range i.Names {
			if i.NoBase {
				all = append(all, name+": no host recognizes layers of Microsoft's base images in it: only Wine's "+
					"directories lie below it, without the programs of a stand-in")
			}
			if strings.HasSuffix(name, ":latest") {
				all = append(all, name+": Kubernetes pulls the tag latest from a registry: use another tag, or set "+
					"imagePullPolicy: IfNotPresent")
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// archiveOf returns an archive: the file with that name or, if it does not exist, the
// archive that a program with an image store saves for the name.
func archiveOf(ctx context.Context, s cli.Streams, name string) (path string, done func(), err error) {
	_, missing := os.Stat(name)
	if name == "-" || !errors.Is(missing, fs.ErrNotExist) {
		return spool(s.In, name)
	}
	nothing := fmt.Errorf("open archive: open %s: %w", name, syscall.ENOENT)
	if _, err := reference.ParseNormalizedNamed(name); err != nil {
		return "", nil, nothing
	}
	path, done, err = keep("image", func(io.Writer) error { return nil })
	if err != nil {
		return "", nil, err
	}
	var said []string
	for _, program := range []string{"docker", "nerdctl", "podman"} {
		if _, err := exec.LookPath(program); err != nil {
			continue
		}
		out, err := exec.CommandContext(ctx, program, "save", "--output", path, name).CombinedOutput()
		if err == nil {
			return path, done, nil
		}
		said = append(said, fmt.Sprintf("%s save %s: %s", program, name, lastLine(out)))
	}
	done()
	if len(said) > 0 {
		return "", nil, cli.WithHint(nothing, "%s", strings.Join(said, "\n"))
	}
	return "", nil, nothing
}

// fitting returns the hosts that can run an image of the archive.
func fitting(cfg cluster.Config, archive string) ([]string, error) {
	images, err := imageload.InspectFile(archive)
	if err != nil {
		return nil, err
	}
	return hostsFor(cfg, images)
}

// hostsFor returns the hosts that can run one of the images.
func hostsFor(cfg cluster.Config, images []imageload.Image) ([]string, error) {
	var nodes []string
	for _, name := range cfg.WindowsHosts() {
		build, err := cfg.Build(name)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(images, func(i imageload.Image) bool {
			return i.OS == "windows" && winver.CompatibleOSVersion(build, i.OSVersion)
		}) {
			nodes = append(nodes, name)
		}
	}
	if slices.Contains(imageload.Systems(images), "linux") {
		nodes = append(nodes, cfg.LinuxHosts()...)
	}
	if len(nodes) == 0 {
		var platforms []string
		for _, i := range images {
			platforms = append(platforms, i.Platform())
		}
		slices.Sort(platforms)
		return nil, cli.WithHint(fmt.Errorf("the images are for %s, and no host of cluster %q can run them",
			strings.Join(slices.Compact(platforms), ", "), cfg.Name),
			"'mullion node add%s --windows BUILD' or '--linux' adds a host", nameFlag(cfg.Name))
	}
	return nodes, nil
}

// record adds the images to the records of placement, which cannot always derive the
// platform from the name.
func record(ctx context.Context, l cluster.Layout, images []imageload.Image) error {
	var all []facts.Loaded
	for _, i := range images {
		for _, name := range i.Names {
			// An unnamed image has only a digest, and no pod can refer to it.
			if !strings.HasPrefix(name, "sha256:") {
				all = append(all, facts.Loaded{Reference: name, OS: i.OS, Arch: i.Arch, OSVersion: i.OSVersion})
			}
		}
	}
	if len(all) == 0 {
		return nil
	}
	client, err := cluster.Client(l)
	if err != nil {
		return err
	}
	return facts.RecordLoaded(ctx, client, "", all)
}

func loadOnto(ctx context.Context, l cluster.Layout, node, path string) ([]imageload.Image, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open archive: %w", err)
	}
	defer f.Close()
	return imageload.Send(ctx, l.ImageSocket(node), f)
}

// spool copies standard input to a file, because it is read once per host.
func spool(in io.Reader, file string) (path string, done func(), err error) {
	if file != "-" {
		return file, func() {}, nil
	}
	return keep("standard input", func(w io.Writer) error {
		_, err := io.Copy(w, in)
		return err
	})
}

// keep writes an archive to a temporary file, which done removes.
func keep(of string, write func(io.Writer) error) (path string, done func(), err error) {
	f, err := os.CreateTemp("", "mullion-load-*.tar")
	if err != nil {
		return "", nil, fmt.Errorf("keep %s: %w", of, err)
	}
	done = func() { _ = os.Remove(f.Name()) }
	if err = errors.Join(write(f), f.Close()); err != nil {
		done()
		return "", nil, fmt.Errorf("keep %s: %w", of, err)
	}
	return f.Name(), done, nil
}
