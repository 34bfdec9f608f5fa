// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package mullion

import (
	"os"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// phrases are those that sound translated, with what to write instead. They are
// looked for in everything that people read: code, help, errors and documents.
var phrases = []struct{ pattern, instead string }{
	{`(says?|tells?|said|telling) whether`, "reports whether"},
	{`anew`, "again"},
	{`of ours`, "our, or the thing's name"},
	{`what there is of`, "what exists"},
	{`nobody|somebody|whoever|whosoever|anybody`, "who it is: the user, a caller, another process"},
	{`in silence`, "silently"},
	{`for ever`, "forever"},
	{`shall`, "must or will"},
	{`who asks`, "the caller"},
	{`in vain`, "without effect"},
	{`mends?|mended|mending`, "fix, repair"},
	{`(is|are) what`, "put the subject first"},
	{`that which`, "what"},
	{`moot`, "no longer needed"},
}

// isNo finds "X is no Y" for "X is not a Y". "There is no Y" is right.
var (
	isNo    = regexp.MustCompile(`(?i)\b(\w+) (is|are|was|were) no (\w+)`)
	rightNo = []string{"longer", "more", "less", "need", "other", "different", "one"}
)

// quoted lists where a phrase is a quotation or a name, by file.
var quoted = map[string][]string{
	"internal/winhost/init_etc_linux.go": {"nobody"}, // the account
	"test/e2e/hostprocess_test.go":       {"nobody"},
	"pwsh/listener_test.go":              {"nobody"}, // http.NoBody
}

func TestWords(t *testing.T) {
	out, err := exec.Command("git", "ls-files").Output()
	if err != nil {
		t.Skipf("not a checkout: %v", err)
	}
	var patterns []*regexp.Regexp
	for _, p := range phrases {
		patterns = append(patterns, regexp.MustCompile(`(?i)\b(`+p.pattern+`)\b`))
	}
	for name := range strings.Lines(string(out)) {
		name = strings.TrimSpace(name)
		if strings.Contains(name, "testdata/") || name == "words_test.go" ||
			!slices.Contains([]string{".go", ".md", ".c", ".h", ".mk", ".yaml", ".yml", ""}, path.Ext(name)) ||
			path.Base(name) == "LICENSE" {
			continue
		}
		data, err := os.ReadFile(name)
		if err != nil {
			continue // removed and not committed yet
		}
		number := 0
		for line := range strings.Lines(string(data)) {
			number++
			for i, p := range patterns {
				if found := p.FindString(line); found != "" && !slices.Contains(quoted[name], strings.ToLower(found)) {
					t.Errorf("%s:%d: %q: write %s", name, number, found, phrases[i].instead)
				}
			}
			for _, m := range isNo.FindAllStringSubmatch(line, -1) {
				before, after := strings.ToLower(m[1]), strings.ToLower(m[3])
				if before != "there" && before != "that" && !slices.Contains(rightNo, after) {
					t.Errorf("%s:%d: %q: write %q", name, number, m[0], m[1]+" "+m[2]+" not a "+m[3])
				}
			}
		}
	}
}
