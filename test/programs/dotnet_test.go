// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package programs

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/mullion-k8s/mullion/internal/testenv"
)

// dotnetEnds looks at the two ends of a server of ASP.NET Core 2.2: Ctrl+C in a terminal, at which it stops in order,
// and the end of its pod. It has no handler for CTRL_SHUTDOWN_EVENT: the runtime's own takes the event since .NET 5
// (DbgCtrlCHandler in src/coreclr/vm/ceemain.cpp).
func (l lab) dotnetEnds(t *testing.T, pod string) string {
	t.Helper()
	const orderly = "stopping"
	screen := l.interrupt(t, "Application started", "exec", "-it", pod, "--", `C:\app\dotnet`,
		`C:\Users\ContainerUser\AppData\Local\Temp\out\app.dll`, "serve", "8081")
	for _, want := range []string{orderly, "stopped", "main ends"} {
		if !strings.Contains(screen, want) {
			return fmt.Sprintf("Ctrl+C: %q has no %q", screen, want)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), commandLimit)
	defer cancel()
	var log bytes.Buffer
	follow := l.command(ctx, "kubectl", "logs", "-f", pod)
	follow.Stdout = &log
	if err := follow.Start(); err != nil {
		t.Fatal(err)
	}
	l.kubectl(t, "delete", "pod", pod)
	_ = follow.Wait() // an error if the pod goes first
	if strings.Contains(log.String(), orderly) || !strings.Contains(log.String(), "Application started") {
		return fmt.Sprintf("the end of the pod: log %q", log.String())
	}
	return ""
}

// interrupt runs kubectl in a terminal, types Ctrl+C after a text, and returns what came in all.
func (l lab) interrupt(t *testing.T, after string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), commandLimit)
	defer cancel()
	master, slave := testenv.Terminal(t)
	cmd := l.command(ctx, append([]string{"kubectl"}, args...)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = slave.Close() // the program has it
	screen := &screen{}
	read := make(chan struct{})
	go func() {
		defer close(read)
		_, _ = master.WriteTo(screen) // to the end of the program, which is an error here
	}()
	testenv.Eventually(t, after, func() error {
		time.Sleep(pause)
		if !strings.Contains(screen.String(), after) {
			return fmt.Errorf("shows %q", screen.String())
		}
		return nil
	})
	if _, err := master.WriteString("\x03"); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("kubectl %s: %v", args, err)
	}
	<-read
	return screen.String()
}

// screen holds the output of a program until now.
type screen struct {
	mu   sync.Mutex
	text strings.Builder
}

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}
