// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package mullion holds the rules of the repository as tests: what may import
// what, how files are named, what every file begins with.
package mullion

import (
	"bufio"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"
)

const module = "github.com/mullion-k8s/mullion"

// sources calls f for every Go file of the repository's modules.
func sources(t *testing.T, f func(name string)) {
	t.Helper()
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name == "bin" || name == "testdata" || (name != "." && strings.HasPrefix(d.Name(), ".")) {
				return filepath.SkipDir
			}
			return nil
		}
		if strings.HasSuffix(name, ".go") {
			f(filepath.ToSlash(name))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// layers numbers the floors on which packages stand; the longest matching prefix
// counts. Imports point to lower floors, or stay within the prefix. See
// ARCHITECTURE.md.
var layers = map[string]int{
	// vocabulary: names, formats and files of all floors
	"internal/durable":         0,
	"internal/fault":           0,
	"internal/hns/schema":      0,
	"internal/logkey":          0,
	"internal/netplane/accept": 0,
	"internal/netplane/intent": 0,
	"internal/testenv":         0,
	"internal/version":         0,
	"internal/winsys":          0,
	// engines: one subject each
	"internal/agent/netpolicy":     1,
	"internal/agent/storage":       1,
	"internal/console":             1,
	"internal/controlplane/config": 1,
	"internal/hns":                 1,
	"internal/netplane/compile":    1,
	"internal/netplane/tcpip":      1,
	"internal/nodeapi":             1,
	"internal/policy":              1,
	"internal/supervise":           1,
	// adapters: one program or interface outside each
	"internal/agent":                       2,
	"internal/cgroup":                      2,
	"internal/durable/kubeconfig/userfile": 2,
	"internal/hns/hnstest":                 2,
	"internal/host/imageload":              2,
	"internal/lint":                        2,
	"internal/manager/inventory":           2,
	"internal/netplane":                    2,
	"internal/registry":                    2,
	"internal/wine":                        2,
	// combinations: the container runtime, the parts of the manager
	"internal/agent/netpolicy/policytest":      3, // it sends packets
	"internal/cri":                             3,
	"internal/host":                            3,
	"internal/manager/certificate":             3,
	"internal/manager/controller":              3,
	"internal/manager/otherwebhooks":           3,
	"internal/manager/webhook":                 3,
	"internal/registry/lookup":                 3,
	"internal/manager/controller/localvolume":  4,
	"internal/manager/controller/podlimit":     4,
	"internal/manager/controller/podreason":    4,
	"internal/manager/controller/runtimeclass": 4,
	"internal/manager/controller/windowsnode":  4,
	"internal/manager/facts":                   4,
	"internal/manager/gmsa":                    4,
	"internal/standin":                         4,
	"internal/manager/registration":            5,
	"internal/manager":                         6,
	"internal/controlplane":                    7,
	"internal/install":                         7,
	// the PowerShell interpreter: a module with its own layers
	"pwsh/host": 0, "pwsh/internal/syntax": 0, "pwsh/internal/value": 0, "pwsh/internal/golden": 0,
	"pwsh/internal/interp": 1, "pwsh/oshost": 1, "pwsh/internal/dotnet": 2, "pwsh/internal/view": 2,
	"pwsh/internal/cmdlet": 3, "pwsh/internal/complete": 3, "pwsh": 4,
	// assemblies
	"internal/linuxhost": 8,
	"internal/winhost":   8,
	"internal/cluster":   9,
	// entry
	"internal/cli": 10,
	"cmd":          11,
	"test":         11,
	"tools":        11,
}

// forTests are packages that only tests import.
var forTests = []string{"internal/controlplane/controlplanetest", "internal/hns/hnstest", "internal/netplane/netlab"}

// layer returns the floor of a package, and its room: the prefix that counts.
func layer(pkg string) (floor int, room string, ok bool) {
	for p := pkg; p != "."; p = path.Dir(p) {
		if l, ok := layers[p]; ok {
			return l, p, true
		}
	}
	return 0, "", false
}

func TestLayers(t *testing.T) {
	sources(t, func(name string) {
		dir := path.Dir(name)
		if dir == "." || strings.HasPrefix(dir, "upstream") || strings.HasSuffix(name, "_test.go") {
			return
		}
		from, room, ok := layer(dir)
		if !ok {
			t.Errorf("%s: %s has no layer; add it to repo_test.go", name, dir)
			return
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		if err != nil {
			t.Error(err)
			return
		}
		for _, imp := range f.Imports {
			target, ours := strings.CutPrefix(strings.Trim(imp.Path.Value, `"`), module+"/")
			if !ours {
				continue
			}
			switch to, other, _ := layer(target); {
			case to > from:
				t.Errorf("%s (layer %d) imports %s (layer %d): imports only point down", name, from, target, to)
			case to == from && other != room:
				t.Errorf("%s imports %s of the same layer, %d: imports only point down", name, target, to)
			}
			if inPwsh(dir) && !inPwsh(target) {
				t.Errorf("%s imports %s: the module pwsh imports nothing of the rest of the repository", name, target)
			}
			if target == "internal/testenv" && !strings.HasPrefix(dir, "test") && !slices.Contains(forTests, dir) {
				t.Errorf("%s imports testenv outside of a test", name)
			}
		}
	})
}

// TestPlan compares the table of floors in ARCHITECTURE.md with layers.
func TestPlan(t *testing.T) {
	page, err := os.ReadFile("ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	drawn := map[string]int{}
	row := regexp.MustCompile(`(?m)^\| (\d+) \| (.+?) \|`)
	room := regexp.MustCompile("`([^`{]*)(?:{([^}]*)})?`")
	for _, r := range row.FindAllStringSubmatch(string(page), -1) {
		floor, err := strconv.Atoi(r[1])
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range room.FindAllStringSubmatch(r[2], -1) {
			for last := range strings.SplitSeq(m[2], ",") {
				drawn[m[1]+last] = floor
			}
		}
	}
	delete(drawn, "internal/") // the place of the others
	built := map[string]int{}
	for p, floor := range layers {
		if !inPwsh(p) {
			built[strings.TrimPrefix(p, "internal/")] = floor
		}
	}
	if diff := cmp.Diff(built, drawn); diff != "" {
		t.Errorf("the table of ARCHITECTURE.md differs from layers (-layers +table):\n%s", diff)
	}
	rooms, err := os.ReadDir("internal")
	if err != nil {
		t.Fatal(err)
	}
	if len(rooms) > maxRooms {
		t.Errorf("internal/ has %d rooms, at most %d: put one idea in one place", len(rooms), maxRooms)
	}
}

// maxRooms is how many directories of internal/ a newcomer has to read.
const maxRooms = 27

// inPwsh reports whether a package belongs to the module of the PowerShell
// interpreter.
func inPwsh(pkg string) bool { return pkg == "pwsh" || strings.HasPrefix(pkg, "pwsh/") }

// forbidden lists what an executable must not link, with the reason.
var forbidden = []struct {
	goos, pkg, dep, why string
}{
	{"windows", "./cmd/mullion", "k8s.io/kubernetes/",
		"the node agent stays small; the kubelet is a program of its own"},
	{"windows", "./cmd/mullion", "go.etcd.io/", "the node agent has no datastore"},
	{"windows", "./cmd/mullion", module + "/internal/wine", "the agent must not know that it may be emulated"},
	{"windows", "./cmd/mullion", module + "/internal/netplane", "the data plane of the emulator is Linux"},
	{"windows", "./cmd/mullion", module + "/internal/hns/emul",
		"the agent calls HNS and must not know that it may be emulated"},
	{"windows", "./cmd/mullion", module + "/internal/hns/wire", "as above"},
	{"windows", "./cmd/mullion", "testing", "test code does not ship"},
	{"windows", "./cmd/mullion-bridge", module + "/internal/hns/emul",
		"the plugin calls HNS and must not know that it may be emulated"},
	{"windows", "./cmd/mullion-bridge", "testing", "test code does not ship"},
	{"windows", "./cmd/winbox", module + "/pwsh/internal",
		"the small programs share PowerShell's view of the machine, without the interpreter"},
	{"linux", "./cmd/mullion", "k8s.io/kubernetes/", "every emulated host and every CLI call would pay for it"},
	{"linux", "./cmd/mullion", "go.etcd.io/", "as above"},
	{"linux", "./cmd/mullion", "github.com/Microsoft/hcsshim", "a Windows library"},
	{"linux", "./cmd/mullion", "testing", "test code does not ship"},
	{"linux", "./cmd/mullion-winhost", "k8s.io/client-go", "three processes of every emulated host would pay for it"},
	{"linux", "./cmd/mullion-winhost", "k8s.io/apimachinery", "as above"},
	{"linux", "./cmd/mullion-winhost", "testing", "test code does not ship"},
	{"linux", "./cmd/mullion-linuxhost", "k8s.io/client-go", "both processes of every Linux worker would pay for it"},
	{"linux", "./cmd/mullion-linuxhost", "k8s.io/apimachinery", "as above"},
	{"linux", "./cmd/mullion-linuxhost", "k8s.io/kubernetes", "as above"},
	{"linux", "./cmd/mullion-linuxhost", "github.com/containerd", "as above: ctr is a program"},
	{"linux", "./cmd/mullion-linuxhost", module + "/internal/wine", "a Linux worker has no Windows"},
	{"linux", "./cmd/mullion-linuxhost", "testing", "test code does not ship"},
	{
		"linux", "./internal/cri/server", module + "/internal/wine",
		"its interfaces Engine and HostProcesses are the way to Wine",
	},
	{"linux", "./internal/cri/engine", module + "/internal/wine", "as above"},
}

func TestForbiddenDependencies(t *testing.T) {
	deps := map[string][]string{}
	for _, f := range forbidden {
		key := f.goos + " " + f.pkg
		if deps[key] == nil {
			cmd := exec.Command("go", "list", "-deps", f.pkg)
			cmd.Env = append(os.Environ(), "GOOS="+f.goos, "CGO_ENABLED=0")
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("list what %s links on %s: %v\n%s", f.pkg, f.goos, err, out)
			}
			deps[key] = strings.Fields(string(out))
		}
		for _, d := range deps[key] {
			if d == f.dep || strings.HasPrefix(d, strings.TrimSuffix(f.dep, "/")+"/") {
				t.Errorf("%s on %s links %s: %s", f.pkg, f.goos, d, f.why)
			}
		}
	}
}

// onlyIn lists what one package does for all others.
var onlyIn = []struct {
	text *regexp.Regexp
	dir  string
	why  string
}{
	{
		regexp.MustCompile(`\b(F|FcntlF)lock\(|\bLockFileEx\(`),
		"internal/durable", "durable.TryLock and durable.WaitLock lock files",
	},
	{
		regexp.MustCompile(`\bDisallowUnknownFields\(`),
		"internal/durable", "durable.ReadDocument reads JSON documents strictly",
	},
	{
		regexp.MustCompile(`"cgroup\.(procs|controllers|subtree_control)"`),
		"internal/cgroup", "cgroup.Group makes, fills and removes cgroups",
	},
	{
		regexp.MustCompile(`\bRawSubjectPublicKeyInfo\b`),
		"internal/durable/certpem", "certpem.Pin hashes authorities",
	},
}

// TestOneOfEachIdea keeps second copies of what another package does from
// being written.
func TestOneOfEachIdea(t *testing.T) {
	sources(t, func(name string) {
		if path.Dir(name) == "tools/debroot" {
			return // a module of its own, which imports none of these packages
		}
		content, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range onlyIn {
			if m := o.text.Find(content); m != nil && path.Dir(name) != o.dir {
				t.Errorf("%s has %q: only %s may; %s", name, m, o.dir, o.why)
			}
		}
	})
}

// TestPackageDocs: each package has one comment, which says what the package is for and who uses it.
func TestPackageDocs(t *testing.T) {
	type pkg struct{ name, files string }
	docs := map[pkg][]string{}
	sources(t, func(name string) {
		if strings.HasSuffix(name, "_test.go") && name != "repo_test.go" {
			return
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.PackageClauseOnly|parser.ParseComments)
		if err != nil {
			t.Error(err)
			return
		}
		p := pkg{f.Name.Name, path.Dir(name)}
		docs[p] = append(docs[p], nil...)
		if f.Doc == nil || onlyLicence(f.Doc) {
			return
		}
		docs[p] = append(docs[p], name)
		begins := "Package " + f.Name.Name + " "
		if f.Name.Name == "main" {
			begins = "Command " + path.Base(p.files) + " "
		}
		doc := f.Doc.Text()
		if !strings.HasPrefix(doc, begins) || !strings.Contains(doc, ".") || len(strings.Fields(doc)) < minDoc {
			t.Errorf("%s: the comment of a package is %q and %d words or more: its purpose and who uses it",
				name, begins+"…", minDoc)
		}
	})
	for p, files := range docs {
		if len(files) != 1 {
			t.Errorf("package %s in %s has %d package comments, want exactly one: %v", p.name, p.files,
				len(files), files)
		}
	}
}

// minDoc is the fewest words in which the comment of a package can name a purpose and a user.
const minDoc = 11

func onlyLicence(c *ast.CommentGroup) bool { return strings.HasPrefix(c.Text(), "SPDX") }

func TestHeaders(t *testing.T) {
	sources(t, func(name string) {
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		var lines []string
		for s := bufio.NewScanner(f); s.Scan() && len(lines) < 2; {
			lines = append(lines, s.Text())
		}
		if !slices.Equal(lines,
			[]string{"// SPDX-License-Identifier: Apache-2.0", "// Copyright The mullion Authors."}) {
			t.Errorf("%s does not begin with the two-line licence header", name)
		}
	})
}

func TestFileNames(t *testing.T) {
	good := regexp.MustCompile(`^[a-z0-9]+(_[a-z0-9]+)*\.go$`)
	vague := regexp.MustCompile(`^(utils?|helpers?|common|misc|types|base)(_[a-z0-9]+)*\.go$`)
	sources(t, func(name string) {
		base := path.Base(name)
		if !good.MatchString(base) {
			t.Errorf("%s: file names are lower_snake.go", name)
		}
		if vague.MatchString(base) {
			t.Errorf("%s: the name says nothing; name the file after what it does", name)
		}
		// A file named x_test_windows.go is not a test: it ships, and never runs.
		if strings.Contains(base, "_test_") {
			t.Errorf("%s: the suffix order is _windows_test.go", name)
		}
		for dir := range strings.SplitSeq(path.Dir(name), "/") {
			if slices.Contains([]string{"util", "utils", "common", "helper", "helpers", "misc", "types", "base", "core",
				"pkg"}, dir) {
				t.Errorf("%s: package %q says nothing", name, dir)
			}
		}
	})
}

func TestGoMod(t *testing.T) {
	for _, file := range []string{"go.mod", "upstream/go.mod", "upstream/containerd/go.mod", "pwsh/go.mod"} {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(content)) {
			from, to, ok := strings.Cut(strings.TrimSpace(line), " => ")
			if !ok {
				continue
			}
			from = strings.TrimPrefix(from, "replace ")
			if file == "go.mod" && from == module+"/pwsh" && to == "./pwsh" {
				continue // a module of this repository
			}
			if to != from+" v0.36.3" || !strings.HasPrefix(from, "k8s.io/") {
				t.Errorf("%s: %q: only Kubernetes' staging modules are replaced, all by one version, and pwsh by its "+
					"directory",
					file, line)
			}
		}
	}
}

// TestDocReferences checks that every path and every heading that a document
// links to exists, and that none names a line number, which would go stale.
func TestDocReferences(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#:]*)(#[^):]*)?\)`)
	number := regexp.MustCompile(`\b[a-z_]+\.go:\d+`)
	texts := readFiles(t, func(name string) bool { return strings.HasSuffix(name, ".md") })
	for name, text := range texts {
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			target := name
			if m[1] != "" {
				target = path.Join(path.Dir(name), m[1])
			}
			if _, err := os.Stat(filepath.FromSlash(target)); err != nil {
				t.Errorf("%s links to %s, which does not exist", name, m[1])
			} else if m[2] != "" && strings.HasSuffix(target, ".md") && !slices.Contains(anchors(texts[target]), m[2]) {
				t.Errorf("%s links to %s%s, and %s has no such heading", name, m[1], m[2], target)
			}
		}
		if m := number.FindString(text); m != "" && !strings.HasPrefix(name, "docs/fidelity/") {
			t.Errorf("%s names a line number, %s: name the symbol", name, m)
		}
	}
}

// TestNamedPaths checks that the files and directories exist that the pages for newcomers name as code. A name may
// have alternatives in braces, and an asterisk.
func TestNamedPaths(t *testing.T) {
	code, braces := regexp.MustCompile("`([^`\n]+)`"), regexp.MustCompile(`^(.*)\{(.*)\}(.*)$`)
	for _, page := range []string{"ARCHITECTURE.md", "CONTRIBUTING.md"} {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		found := 0
		for _, m := range code.FindAllStringSubmatch(string(text), -1) {
			first, _, below := strings.Cut(m[1], "/")
			_, err := os.Stat(first)
			file := slices.Contains([]string{".go", ".md", ".mod", ".txt"}, path.Ext(first))
			if strings.Contains(m[1], " ") || !below && !file || below && err != nil || first == "bin" {
				continue // a symbol, a command, a room, or a result of the build
			}
			names := []string{m[1]}
			if b := braces.FindStringSubmatch(m[1]); b != nil {
				names = names[:0]
				for word := range strings.SplitSeq(b[2], ",") {
					names = append(names, b[1]+word+b[3])
				}
			}
			for _, name := range names {
				found++
				if files, err := filepath.Glob(name); err != nil || len(files) == 0 {
					t.Errorf("%s names %s, which does not exist (%v)", page, name, err)
				}
			}
		}
		if found < 20 {
			t.Errorf("%s: found %d paths: this test no longer recognizes them", page, found)
		}
	}
}

// anchors returns the fragments by which GitHub links to a document's headings.
func anchors(text string) []string {
	var out []string
	for line := range strings.Lines(text) {
		if heading, ok := strings.CutPrefix(strings.TrimLeft(line, "#"), " "); ok && line[0] == '#' {
			out = append(out, "#"+strings.Map(func(r rune) rune {
				switch {
				case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
					return unicode.ToLower(r)
				case r == ' ':
					return '-'
				}
				return -1
			}, strings.TrimSpace(heading)))
		}
	}
	return out
}

// TestSourceReferences checks that the documents that the sources name exist.
func TestSourceReferences(t *testing.T) {
	named := regexp.MustCompile(`(?:^|[^/\w])(docs/(?:adr|bench|fidelity|internals|reference|user)/[\w.-]*\w)`)
	source := regexp.MustCompile(`(\.(go|c|h|sh|yaml|yml|txt|mod)|Makefile|hack/[a-z-]+)$`)
	for name, text := range readFiles(t, source.MatchString) {
		for _, m := range named.FindAllStringSubmatch(text, -1) {
			if _, err := os.Stat(filepath.FromSlash(m[1])); err != nil {
				t.Errorf("%s names %s, which does not exist", name, m[1])
			}
		}
	}
}

// readFiles returns the files of the repository whose slash-separated names match.
func readFiles(t *testing.T, match func(name string) bool) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (name == "bin" || name == ".git") {
			return filepath.SkipDir
		}
		if d.IsDir() || !match(filepath.ToSlash(name)) {
			return nil
		}
		content, err := os.ReadFile(name)
		out[filepath.ToSlash(name)] = string(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestDecisions checks that the index names every decision, by its title, and
// that each has a date and a status.
func TestDecisions(t *testing.T) {
	title := regexp.MustCompile(`^# (\d{4}): (.+)\n\nDate: \d{4}-\d\d-\d\d\. Status: (accepted|superseded by ` +
		`\d{4})\.\n`)
	files := readFiles(t, func(name string) bool { return strings.HasPrefix(name, "docs/adr/") })
	index := files["docs/adr/README.md"]
	delete(files, "docs/adr/README.md")
	for name, text := range files {
		m := title.FindStringSubmatch(text)
		if m == nil {
			t.Errorf("%s does not begin with \"# NUMBER: TITLE\", \"Date: YYYY-MM-DD. Status: accepted.\"", name)
			continue
		}
		if row := fmt.Sprintf("| [%s](%s) | %s |\n", m[1], path.Base(name), m[2]); !strings.Contains(index, row) {
			t.Errorf("docs/adr/README.md lacks the row %s", row)
		}
	}
}

// TestFaultTable compares docs/internals/faults.md with the tests that there are, and
// with the list of `make soak`.
func TestFaultTable(t *testing.T) {
	declared, function := map[string]bool{}, regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	sources(t, func(name string) {
		if !strings.HasSuffix(name, "_test.go") {
			return
		}
		content, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range function.FindAllStringSubmatch(string(content), -1) {
			declared[f[1]] = true
		}
	})
	page, err := os.ReadFile("docs/internals/faults.md")
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile("`((?:Test|Fuzz)\\w+)`").FindAllStringSubmatch(string(page), -1)
	if len(named) < 27 {
		t.Errorf("only %d tests are named", len(named))
	}
	for _, n := range named {
		if !declared[n[1]] {
			t.Errorf("docs/internals/faults.md names %s, which does not exist", n[1])
		}
	}
	run, err := os.ReadFile("hack/test")
	if err != nil {
		t.Fatal(err)
	}
	soak := regexp.MustCompile(`-run '\^Test\(([\w|]+)\)\$'`).FindSubmatch(run)
	if soak == nil {
		t.Fatal("hack/test does not say which tests make soak runs")
	}
	for name := range strings.SplitSeq(string(soak[1]), "|") {
		if !declared["Test"+name] {
			t.Errorf("make soak runs Test%s, which does not exist", name)
		}
	}
}
