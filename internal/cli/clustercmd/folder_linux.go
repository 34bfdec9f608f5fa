// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package clustercmd

import (
	"cmp"
	"context"
	"debug/elf"
	"debug/pe"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/distribution/reference"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/spf13/cobra"

	"github.com/mullion-k8s/mullion/internal/cli"
	"github.com/mullion-k8s/mullion/internal/cri/image"
	"github.com/mullion-k8s/mullion/internal/cri/image/imagebuild"
	"github.com/mullion-k8s/mullion/internal/standin"
	"github.com/mullion-k8s/mullion/internal/wine"
	"github.com/mullion-k8s/mullion/internal/winsys/winpath"
	"github.com/mullion-k8s/mullion/internal/winsys/winver"
)

// folderFlags describe the image that `mullion load` makes of a folder, as a Dockerfile
// would: FROM base, WORKDIR, COPY . ., ENV, USER, ENTRYPOINT and, after --, CMD.
type folderFlags struct {
	tag        string
	base       string
	workdir    string
	env        []string
	user       string
	entrypoint string
	args       []string
}

func (f *folderFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVarP(&f.tag, "tag", "t", "", "`name` of a folder's image, such as app:v1")
	flags.StringVar(&f.entrypoint, "entrypoint", "",
		"`program` of a folder's image: a path in the folder, or that of another program on C:")
	flags.StringVar(&f.workdir, "workdir", `C:\app`, "`directory` for the folder's files, where its program starts")
	flags.StringArrayVarP(&f.env, "env", "e", nil, "`NAME=VALUE` for the environment of a folder's image (repeatable)")
	flags.StringVar(&f.user, "user", "", "`account` of a folder's image (default: that of the base)")
	f.base = string(image.ServerCore)
	cli.OneOf(cmd, &f.base, "base", "", "`base` of a folder's image: servercore or nanoserver",
		string(image.ServerCore), string(image.NanoServer))
}

func isFolder(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.IsDir()
}

// take checks the flags and arguments of `mullion load`, and takes the arguments after --
// that belong to a folder's program. It returns the others, and whether they are a folder.
func (f *folderFlags) take(cmd *cobra.Command, args []string) (rest []string, isOne bool, err error) {
	if cmd.ArgsLenAtDash() == 1 && isFolder(args[0]) {
		args, f.args = args[:1], args[1:]
	}
	i := slices.IndexFunc(args, isFolder)
	if i < 0 {
		for _, name := range []string{"tag", "base", "workdir", "env", "user", "entrypoint"} {
			if cmd.Flags().Changed(name) {
				return nil, false, cli.Usagef("--%s is for the image of a folder, and %s is not one", name, args[0])
			}
		}
		return args, false, nil
	}
	dir := args[i]
	if len(args) > 1 {
		return nil, false, cli.Usagef("%s is a folder: load it by itself, because --tag names one image", dir)
	}
	if _, err := os.Stat(filepath.Join(dir, "oci-layout")); err == nil {
		return nil, false, cli.WithHint(cli.Usagef("%s is an unpacked OCI archive, not the folder of a program", dir),
			"'tar -C %s -c . | mullion load -' loads it", dir)
	}
	return args, true, f.check(dir)
}

// check completes the settings and refuses those that no image can have.
func (f *folderFlags) check(dir string) error {
	if f.tag == "" {
		return cli.WithHint(cli.Usagef("%s is a folder, and its image needs a name: add --tag", dir),
			"for example: mullion load %s --tag app:v1 --entrypoint app.exe (--name selects the cluster)", dir)
	}
	named, err := reference.ParseNormalizedNamed(f.tag)
	if err != nil {
		return cli.Usagef("--tag %s: %w", f.tag, err)
	}
	if _, ok := named.(reference.Digested); ok {
		return cli.Usagef("--tag %s: want a name and a tag, such as app:v1, without a digest", f.tag)
	}
	f.tag = reference.TagNameOnly(named).String()
	for _, e := range f.env {
		if strings.Index(e, "=") < 1 {
			return cli.Usagef("--env %s: want NAME=VALUE", e)
		}
	}
	if _, ok := wine.FindAccount(f.user, ""); f.user != "" && !ok {
		return cli.Usagef("--user %s: images have no such account; they have ContainerAdministrator and "+
			"ContainerUser", f.user)
	}
	if len(f.args) > 0 && f.entrypoint == "" {
		return cli.Usagef("the arguments after -- are for the program that --entrypoint names, which is missing")
	}
	clean := winpath.Clean(f.workdir)
	if winpath.KindOf(f.workdir) == winpath.Rooted {
		clean = winpath.SystemDrive + clean
	}
	below, ok := strings.CutPrefix(clean, winpath.SystemDrive+`\`)
	if ok && below != "" {
		_, err = image.NameKey(strings.ReplaceAll(below, `\`, "/"))
	}
	if !ok || err != nil {
		return cli.Usagef(`--workdir %s: want a directory on drive C: C:/app or, in quotes, 'C:\app'`, f.workdir)
	}
	f.workdir = clean
	return nil
}

// pack writes an archive with the image of a folder for each build of Windows, because a
// host runs images of its own build only. The images share the layer.
func (f *folderFlags) pack(ctx context.Context, dir string) (file string, done func(), err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return "", nil, fmt.Errorf("pack folder: %w", err)
	}
	defer root.Close() // opened for reading
	cfg := standin.Config(image.BaseKind(f.base))
	cfg.WorkingDir, cfg.Env, cfg.User = f.workdir, f.env, cmp.Or(f.user, cfg.User)
	if f.entrypoint != "" {
		program, err := f.program(root)
		if err != nil {
			return "", nil, err
		}
		cfg.Entrypoint, cfg.Cmd = []string{program}, f.args
	}
	images, err := f.images(ctx, root, cfg)
	if err != nil {
		return "", nil, fmt.Errorf("pack folder %s: %w", dir, err)
	}
	return keep("folder "+dir, func(w io.Writer) error { return imagebuild.WriteIndex(w, f.tag, images...) })
}

func (f *folderFlags) images(ctx context.Context, root *os.Root, cfg v1.Config) ([]*imagebuild.Image, error) {
	below := strings.ReplaceAll(f.workdir[len(`C:\`):], `\`, "/")
	layer, err := imagebuild.Streamed(func(w io.Writer) error { return imagebuild.TarFolder(ctx, w, root, below) })
	if err != nil {
		return nil, err
	}
	var out []*imagebuild.Image
	for _, build := range winver.All() {
		if build.HostOnly {
			continue // such a host runs the images of the build before
		}
		img, err := imagebuild.Build(imagebuild.Spec{Build: build, Base: f.base, Config: cfg,
			Layers: []imagebuild.Layer{{Finished: layer, CreatedBy: "COPY . " + f.workdir}}})
		if err != nil {
			return nil, err
		}
		out = append(out, img)
	}
	return out, nil
}

// program returns the path of the entry point in a container. Like all names on
// Windows, it matches whatever its case, and ".exe" may be left out.
func (f *folderFlags) program(root *os.Root) (string, error) {
	name, dir := winpath.Clean(f.entrypoint), strings.TrimSuffix(f.workdir, `\`)+`\`
	if winpath.KindOf(f.entrypoint) == winpath.Drive {
		if dir == winpath.SystemDrive+`\` || len(name) < len(dir) || !strings.EqualFold(name[:len(dir)], dir) {
			return name, nil // it may be a program of the base image
		}
		name = name[len(dir):]
	}
	for _, name := range []string{name, name + ".exe"} {
		if winpath.KindOf(name) != winpath.Relative || strings.HasPrefix(name, "..") {
			break
		}
		found, err := winpath.ResolveIn(root, name)
		if err != nil {
			continue
		}
		err = checkProgram(root, found)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return "", cli.Usagef("--entrypoint %s: %w", f.entrypoint, err)
		}
		return dir + strings.ReplaceAll(found, "/", `\`), nil
	}
	hint := "programs in the folder: " + programs(root, name) +
		"\na program of the base needs its whole path, such as C:/Windows/System32/cmd.exe"
	if first, arguments, ok := strings.Cut(f.entrypoint, " "); ok {
		hint += fmt.Sprintf("\narguments follow --: --entrypoint %s -- %s", first, arguments)
	}
	return "", cli.WithHint(cli.Usagef("--entrypoint %s: no such file in the folder", f.entrypoint), "%s", hint)
}

// shownPrograms is how many programs the hint lists.
const shownPrograms = 5

// programs lists the programs of a folder: those of the wanted name first, then the least deep.
func programs(root *os.Root, wanted string) string {
	var all []string
	_ = fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && strings.EqualFold(path.Ext(name), ".exe") {
			all = append(all, name)
		}
		return nil // the layer needs a directory that cannot be read, and reports it
	})
	wanted = strings.TrimSuffix(strings.ToLower(wanted[strings.LastIndex(wanted, `\`)+1:]), ".exe") + ".exe"
	depth := func(name string) int {
		if strings.ToLower(path.Base(name)) == wanted {
			return 0
		}
		return 1 + strings.Count(name, "/")
	}
	slices.SortStableFunc(all, func(a, b string) int { return depth(a) - depth(b) })
	shown := strings.Join(all[:min(len(all), shownPrograms)], ", ")
	if more := len(all) - shownPrograms; more > 0 {
		shown += fmt.Sprintf(" and %d more", more)
	}
	return cmp.Or(shown, "none")
}

// checkProgram refuses a file that the hosts cannot start: they run 64-bit programs for
// Windows, and batch files.
func checkProgram(root *os.Root, name string) error {
	info, err := root.Stat(name)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return errors.New("it is not a file")
	}
	if ext := strings.ToLower(path.Ext(name)); ext == ".cmd" || ext == ".bat" {
		return nil
	}
	f, err := root.Open(name)
	if err != nil {
		return err
	}
	defer f.Close() // opened for reading
	program, err := pe.NewFile(f)
	head := make([]byte, len(elf.ELFMAG))
	_, _ = f.ReadAt(head, 0) // a file that is not read is not a program either
	switch {
	case string(head) == elf.ELFMAG:
		return errors.New("it is a program for Linux: build it for Windows (with Go: GOOS=windows GOARCH=amd64)")
	case err != nil:
		return fmt.Errorf("it is not a program for Windows (.exe); for a script, name its interpreter, "+
			"and the script after --: %w", err)
	case program.Characteristics&pe.IMAGE_FILE_DLL != 0:
		return errors.New("it is a library, not a program")
	case program.Machine == pe.IMAGE_FILE_MACHINE_I386:
		return errors.New("it is a 32-bit program, and the hosts run 64-bit ones only: build it for amd64")
	case program.Machine != pe.IMAGE_FILE_MACHINE_AMD64:
		return fmt.Errorf("it is a program for another processor (%#x): build it for amd64", program.Machine)
	}
	return nil
}
