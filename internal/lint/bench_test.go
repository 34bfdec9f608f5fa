// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package lint

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/mullion-k8s/mullion/internal/policy"
)

// corpus writes n resources as a chart renders them: three in a group, a
// hardened Linux Deployment, a Service, and a Deployment for Windows.
func corpus(n int) []byte {
	var b bytes.Buffer
	for i := range n {
		switch i % 3 {
		case 0:
			fmt.Fprintf(&b, deploymentText, i, "linux", "registry.example/app:1.2.3", "\n      securityContext: {runAsUser: 1000, fsGroup: 1000, seccompProfile: {type: RuntimeDefault}}", "\n        securityContext: {readOnlyRootFilesystem: true, capabilities: {drop: [ALL]}, allowPrivilegeEscalation: false}")
		case 1:
			fmt.Fprintf(&b, "---\napiVersion: v1\nkind: Service\nmetadata:\n  name: app-%d\n  labels: {app: app-%[1]d}\nspec:\n  selector: {app: app-%[1]d}\n  ports:\n  - name: http\n    port: 80\n    targetPort: 8080\n", i)
		case 2:
			fmt.Fprintf(&b, deploymentText, i, "windows", "mcr.microsoft.com/windows/servercore:ltsc2022", "\n      os: {name: windows}", "\n        securityContext: {windowsOptions: {runAsUserName: ContainerUser}}")
		}
	}
	return b.Bytes()
}

const deploymentText = `---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: app-%d
  labels:
    app.kubernetes.io/name: app
    app.kubernetes.io/managed-by: Helm
spec:
  replicas: 2
  selector:
    matchLabels:
      app: app-%[1]d
  template:
    metadata:
      labels:
        app: app-%[1]d
    spec:
      nodeSelector:
        kubernetes.io/os: %[2]s%[4]s
      containers:
      - name: app
        image: %[3]s
        ports:
        - name: http
          containerPort: 8080
        env:
        - name: LOG_LEVEL
          value: info
        - name: DATABASE
          valueFrom: {secretKeyRef: {name: db, key: url}}
        resources:
          limits: {cpu: 500m, memory: 256Mi}
          requests: {cpu: 100m, memory: 256Mi}
        readinessProbe:
          httpGet: {path: /ready, port: http}
          periodSeconds: 5
        volumeMounts:
        - name: config
          mountPath: /etc/app%[5]s
      volumes:
      - name: config
        configMap:
          name: app-%[1]d
`

func BenchmarkLint(b *testing.B) {
	const n = 9000
	text := corpus(n)
	in := Input{Name: "corpus.yaml", Open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(text)), nil }}
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		sum, err := Run(context.Background(), Config{Inputs: []Input{in}}, func(Result) error { return nil })
		if err != nil || sum.Objects != n {
			b.Fatal(sum, err)
		}
	}
	b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "resources/s")
}

func BenchmarkEvaluate(b *testing.B) {
	d := document{name: "x", line: 1, text: corpus(1)}
	object, _ := convert(parse(&d)[0].node)
	judge := policy.New(policy.Facts{})
	b.ReportAllocs()
	for b.Loop() {
		judge.Evaluate(object.(map[string]any))
	}
}

// BenchmarkSingleFile is what one small file costs without the start of the
// program.
func BenchmarkSingleFile(b *testing.B) {
	text := corpus(1)
	in := Input{Name: "one.yaml", Open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(text)), nil }}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Run(context.Background(), Config{Inputs: []Input{in}}, func(Result) error { return nil }); err != nil {
			b.Fatal(err)
		}
	}
}

// endless is a stream of documents that is never in memory as a whole.
type endless struct {
	doc  string
	n    int
	rest string
}

func (e *endless) Read(p []byte) (int, error) {
	if e.rest == "" {
		if e.n == 0 {
			return 0, io.EOF
		}
		e.n--
		e.rest = e.doc
	}
	n := copy(p, e.rest)
	e.rest = e.rest[n:]
	return n, nil
}

func (e *endless) Close() error { return nil }

// TestMemoryIsFlat reads 50,000 documents with findings from a stream: what
// stays in memory must not grow with them.
func TestMemoryIsFlat(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	doc := string(corpus(1))
	doc = strings.Replace(doc, "kubernetes.io/os: linux", "kubernetes.io/os: windows", 1)
	var early, late uint64
	results := 0
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	const n = 50_000
	in := Input{Name: "-", Once: true, Open: func() (io.ReadCloser, error) { return &endless{doc: doc, n: n}, nil }}
	sum, err := Run(context.Background(), Config{Inputs: []Input{in}}, func(r Result) error {
		switch results++; results {
		case 10_000:
			early = heap()
		case 200_000:
			late = heap()
		}
		return nil
	})
	if err != nil || sum.Documents != n {
		t.Fatal(sum, err)
	}
	const slackBytes = 16 << 20
	if late > early+slackBytes {
		t.Errorf("heap grew from %d to %d bytes over %d results", early, late, results)
	}
	t.Logf("%d results; heap %d KiB early, %d KiB late", results, early>>10, late>>10)
}

// TestWriteCorpus writes the corpus for other programs, where
// MULLION_CORPUS names a file.
func TestWriteCorpus(t *testing.T) {
	name := os.Getenv("MULLION_CORPUS")
	if name == "" {
		t.Skip("MULLION_CORPUS is not set")
	}
	if err := os.WriteFile(name, corpus(9000), 0o644); err != nil {
		t.Fatal(err)
	}
}
