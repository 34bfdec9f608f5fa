// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package programs

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mullion-k8s/mullion/internal/testenv"
)

// TestPrograms tries the programs of the table in pods of a Windows host: what they print, what they answer through a
// Service, and the exit code in the pod's status.
func TestPrograms(t *testing.T) {
	all := os.Getenv("MULLION_PROGRAMS") == "all"
	packages := readPackages(t)
	l := newLab(t)
	page := &page{}
	t.Run("programs", func(t *testing.T) {
		for _, p := range table() {
			if !p.core && !all {
				continue
			}
			t.Run(p.name, func(t *testing.T) {
				t.Parallel()
				began := time.Now()
				failure := l.try(t, p, packages)
				t.Logf("%v", time.Since(began).Round(100*time.Millisecond))
				page.add(p, packages[p.npm[0]].version, failure)
				switch {
				case failure != "" && p.fails == "":
					t.Error(failure)
				case failure == "" && p.fails != "":
					t.Errorf("it works, and the table says why it does not: %s", p.fails)
				}
			})
		}
		t.Run("postgres", func(t *testing.T) {
			t.Parallel()
			l.postgres(t, packages)
			page.addPostgres(packages[postgresPackage].version, t.Failed())
		})
	})
	if all {
		testenv.Golden(t, "../../../docs/fidelity/programs.md", page.text())
	}
}

// readPackages reads packages.txt.
func readPackages(t testing.TB) map[string]pack {
	t.Helper()
	f, err := os.Open("packages.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	packages := map[string]pack{}
	for s := bufio.NewScanner(f); s.Scan(); {
		if fields := strings.Fields(s.Text()); len(fields) == 3 && fields[0] != "#" {
			packages[fields[0]] = pack{fields[1], fields[2]}
		}
	}
	return packages
}

// pack is a package's version and checksum.
type pack struct{ version, integrity string }

// folder makes the folder of an image: the packages, the files of testdata, and for each try a batch file.
func folder(t testing.TB, p program, packages map[string]pack) string {
	t.Helper()
	dir := t.TempDir()
	for i, name := range p.npm {
		archive, err := fetch(t.Context(), name, packages[name].version, packages[name].integrity)
		if err != nil {
			t.Fatal(err)
		}
		into := dir
		if i > 0 {
			into = filepath.Join(dir, name)
		}
		if err := os.MkdirAll(into, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := unpack(archive, into); err != nil {
			t.Fatal(err)
		}
	}
	files := filepath.Join(dir, "files")
	if _, err := os.Stat(filepath.Join("testdata", p.name)); err == nil {
		if err := os.CopyFS(files, os.DirFS(filepath.Join("testdata", p.name))); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(files, 0o755); err != nil {
		t.Fatal(err)
	}
	if p.name == "node" {
		writeCertificate(t, files)
	}
	for i, try := range p.tries {
		batch := fmt.Sprintf("@echo off\r\n%s\r\nexit /b %%ERRORLEVEL%%\r\n", try.run)
		if err := os.WriteFile(filepath.Join(files, fmt.Sprint(i)+".cmd"), []byte(batch), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// try returns why the program does not work, or "".
func (l lab) try(t *testing.T, p program, packages map[string]pack) string {
	t.Helper()
	image := p.name + ":1"
	l.mullion(t, "load", folder(t, p, packages), "--tag", image)
	for i, try := range p.tries {
		pod := fmt.Sprintf("%s-%d", p.name, i)
		l.start(t, windowsPod(pod, image, p.user, "cmd", "/c", `C:\app\files\`+fmt.Sprint(i)+".cmd"))
		if failure := l.judge(t, pod, try); failure != "" {
			return try.does + ": " + failure
		}
	}
	return ""
}

// judge compares the pod with what is wanted of it.
func (l lab) judge(t *testing.T, pod string, try try) string {
	t.Helper()
	if try.path != "" {
		return l.serves(t, pod, try)
	}
	code, log := l.end(t, pod)
	log = strings.ReplaceAll(log, "\r", "")
	if code != try.code || !strings.Contains(log, try.want) {
		return fmt.Sprintf("exit code %d, want %d; output %q, want %q", code, try.code, log, try.want)
	}
	for line := range strings.Lines(log) {
		for _, word := range []string{"wine:", "err:", "fixme:"} {
			if strings.Contains(line, word) {
				return "a text of Wine: " + line
			}
		}
	}
	return ""
}

// windowsPod describes a pod that runs once.
func windowsPod(name, image, user string, command ...string) *corev1.Pod {
	if user == "" {
		user = "ContainerUser"
	}
	return &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": name}},
		Spec: corev1.PodSpec{
			OS:            &corev1.PodOS{Name: corev1.Windows},
			RestartPolicy: corev1.RestartPolicyNever,
			SecurityContext: &corev1.PodSecurityContext{
				WindowsOptions: &corev1.WindowsSecurityContextOptions{RunAsUserName: &user}},
			Containers: []corev1.Container{{Name: "c", Image: image, Command: command}},
		},
	}
}

// writeCertificate writes a certificate of localhost, which is its own authority, and its key.
func writeCertificate(t testing.TB, dir string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "localhost"}, DNSNames: []string{"localhost"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), IsCA: true,
		BasicConstraintsValid: true,
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{
		"cert.pem": {Type: "CERTIFICATE", Bytes: cert}, "key.pem": {Type: "PRIVATE KEY", Bytes: private},
	} {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// TestTable: each package of the table has a version and a checksum, and each listed one is used.
func TestTable(t *testing.T) {
	packages, used := readPackages(t), map[string]bool{postgresPackage: true, postgresPeer: true}
	names := map[string]bool{}
	for _, p := range table() {
		if names[p.name] || len(p.tries) == 0 || len(p.npm) == 0 {
			t.Errorf("%s occurs twice, or has no package or try", p.name)
		}
		names[p.name] = true
		for _, name := range p.npm {
			used[name] = true
			if packages[name].integrity == "" {
				t.Errorf("packages.txt has no %s", name)
			}
		}
	}
	for name := range packages {
		if !used[name] {
			t.Errorf("no program uses the package %s", name)
		}
	}
	if n := len(names) + 1; n < 25 {
		t.Errorf("%d programs", n)
	}
}
