// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/svc"
	"golang.org/x/sys/windows/svc/mgr"
)

// pairs compares the functions that winemend.dll replaces in their spellings: for text in the code page of the system
// (A) and in UTF-16 (W), and others that do the same (Ex, Transacted, Local).
func pairs(t *probe) {
	dir, err := os.MkdirTemp("", "pairs")
	t.must(err)
	t.must(os.Chdir(dir))
	pairsOfLinks(t)
	pairsOfReading(t)
	pairsOfMessages(t)
	pairsOfSecurity(t)
	pairsOfAccounts(t)
	pairsOfServices(t)
	t.must(os.Chdir(`C:\`))
	t.must(os.RemoveAll(dir))
}

// function calls a function of Windows. Texts are passed as the spelling has them.
type function struct {
	proc *windows.LazyProc
	wide bool
}

func (f function) call(args ...any) (uintptr, syscall.Errno) {
	var words []uintptr
	var texts []unsafe.Pointer
	for _, a := range args {
		switch a := a.(type) {
		case string:
			texts = append(texts, f.text(a))
			words = append(words, uintptr(texts[len(texts)-1]))
		case unsafe.Pointer:
			words = append(words, uintptr(a))
		case int:
			words = append(words, uintptr(a))
		case windows.Handle:
			words = append(words, uintptr(a))
		}
	}
	r, _, err := f.proc.Call(words...)
	runtime.KeepAlive(texts)
	errno, _ := err.(syscall.Errno)
	return r, errno
}

func (f function) text(s string) unsafe.Pointer {
	if f.wide {
		p, _ := windows.UTF16PtrFromString(s)
		return unsafe.Pointer(p)
	}
	p, _ := windows.BytePtrFromString(s)
	return unsafe.Pointer(p)
}

// read returns the text in a buffer that the function has filled.
func (f function) read(buffer []byte) string { return f.readAt(unsafe.Pointer(&buffer[0])) }

func (f function) readAt(p unsafe.Pointer) string {
	if f.wide {
		return windows.UTF16PtrToString((*uint16)(p))
	}
	return windows.BytePtrToString((*byte)(p))
}

// spellings returns the functions whose names end with A and with W.
func spellings(dll, name string) []function {
	lib := windows.NewLazyDLL(dll)
	return []function{{lib.NewProc(name + "A"), false}, {lib.NewProc(name + "W"), true}}
}

func pairsOfLinks(t *probe) {
	t.must(os.Mkdir("data", 0o700))
	t.must(os.WriteFile(`data\file`, []byte("content"), 0o600))
	for _, f := range spellings("kernel32.dll", "CreateSymbolicLink") {
		if r, e := f.call("link", `data\file`, 0); r&0xff != 1 {
			t.errorf("%s: %v", f.proc.Name, e)
		}
		expectContent(t, "link", "content")
		expectLink(t, "link", `data\file`)
		for _, row := range []struct {
			link, target any
			want         syscall.Errno
		}{
			{"link", "data", windows.ERROR_ALREADY_EXISTS}, {`no\link`, "data", windows.ERROR_PATH_NOT_FOUND},
			{"other", "", windows.ERROR_INVALID_PARAMETER}, {0, "data", windows.ERROR_INVALID_PARAMETER},
			{"other", 0, windows.ERROR_INVALID_PARAMETER},
		} {
			if r, e := f.call(row.link, row.target, 0); r&0xff != 0 || e != row.want {
				t.errorf("%s(%v, %v): %d, %v, want %v", f.proc.Name, row.link, row.target, r, e, row.want)
			}
		}
		t.must(os.Remove("link"))
		if r, e := f.call("link", "data", 1); r&0xff != 1 {
			t.errorf("%s to a directory: %v", f.proc.Name, e)
		}
		expectContent(t, `link\file`, "content")
		t.must(os.Remove("link"))
	}
}

// pairsOfReading looks at a link itself, and makes it go.
func pairsOfReading(t *probe) {
	const isLink = windows.FILE_ATTRIBUTE_REPARSE_POINT
	kernel := windows.NewLazyDLL("kernel32.dll")
	link := func() { t.must(os.Symlink(`data\file`, "link")) }
	link()
	for _, f := range spellings("kernel32.dll", "GetFileAttributes") {
		if r, e := f.call("link"); r&isLink == 0 {
			t.errorf("%s: %#x, %v", f.proc.Name, r, e)
		}
	}
	for _, f := range spellings("kernel32.dll", "GetFileAttributesEx") {
		var data [36]byte
		if r, e := f.call("link", 0, unsafe.Pointer(&data)); r == 0 || data[1]&(isLink>>8) == 0 {
			t.errorf("%s: %x, %v", f.proc.Name, data, e)
		}
	}
	for _, name := range []string{"FindFirstFile", "FindFirstFileEx"} {
		for _, f := range spellings("kernel32.dll", name) {
			var data [592]byte
			args := []any{"link", unsafe.Pointer(&data)}
			if strings.HasSuffix(name, "Ex") {
				args = []any{"link", 0, unsafe.Pointer(&data), 0, 0, 0}
			}
			h, e := f.call(args...)
			if windows.Handle(h) == windows.InvalidHandle || data[1]&(isLink>>8) == 0 {
				t.errorf("%s: %x, %v", f.proc.Name, data[:48], e)
				continue
			}
			t.must(windows.FindClose(windows.Handle(h)))
		}
	}
	const flags = windows.FILE_FLAG_OPEN_REPARSE_POINT | windows.FILE_FLAG_BACKUP_SEMANTICS
	for _, name := range []string{"CreateFile", "CreateFileTransacted"} {
		for _, f := range spellings("kernel32.dll", name) {
			h, e := f.call("link", 0, 7, 0, windows.OPEN_EXISTING, flags, 0, 0, 0, 0)
			expectOpenLink(t, f.proc.Name, windows.Handle(h), e)
		}
	}
	params := [8]uint32{32, 0, flags}
	h, e := function{kernel.NewProc("CreateFile2"), true}.call("link", 0, 7, windows.OPEN_EXISTING,
		unsafe.Pointer(&params))
	expectOpenLink(t, "CreateFile2", windows.Handle(h), e)
	for _, f := range append(spellings("kernel32.dll", "DeleteFile"),
		spellings("kernel32.dll", "DeleteFileTransacted")...) {
		if r, e := f.call("link", 0); r == 0 {
			t.errorf("%s: %v", f.proc.Name, e)
		}
		if _, err := os.Lstat("link"); err == nil {
			t.errorf("%s has left the link", f.proc.Name)
			t.must(os.Remove("link"))
		}
		link()
	}
	for _, f := range spellings("kernel32.dll", "MoveFileEx") {
		if r, e := f.call("link", "moved", 0); r == 0 {
			t.errorf("%s: %v", f.proc.Name, e)
		}
		expectLink(t, "moved", `data\file`)
		t.must(os.Rename("moved", "link"))
	}
	t.must(os.Remove("link"))
	for _, f := range spellings("kernel32.dll", "RemoveDirectory") {
		t.must(os.Symlink("data", "link"))
		if r, e := f.call("link"); r == 0 {
			t.errorf("%s: %v", f.proc.Name, e)
		}
	}
	expectContent(t, `data\file`, "content")
}

func expectOpenLink(t *probe, name string, h windows.Handle, e error) {
	var info windows.ByHandleFileInformation
	if h == windows.InvalidHandle {
		t.errorf("%s: %v", name, e)
		return
	}
	if err := windows.GetFileInformationByHandle(h, &info); err != nil ||
		info.FileAttributes&windows.FILE_ATTRIBUTE_REPARSE_POINT == 0 {
		t.errorf("%s does not open the link: %#x, %v", name, info.FileAttributes, err)
	}
	t.must(windows.CloseHandle(h))
}

func pairsOfMessages(t *probe) {
	for code := range 2000 {
		var texts []string
		for _, f := range spellings("kernel32.dll", "FormatMessage") {
			var buffer [2048]byte
			f.call(windows.FORMAT_MESSAGE_FROM_SYSTEM|windows.FORMAT_MESSAGE_IGNORE_INSERTS, 0, code, 0,
				unsafe.Pointer(&buffer), len(buffer)/2, 0)
			texts = append(texts, f.read(buffer[:]))
		}
		if texts[0] != texts[1] {
			t.errorf("FormatMessage of %d: %q and %q", code, texts[0], texts[1])
		}
	}
}

func pairsOfSecurity(t *probe) {
	const parts = windows.OWNER_SECURITY_INFORMATION | windows.GROUP_SECURITY_INFORMATION |
		windows.DACL_SECURITY_INFORMATION
	get := func() [2][4096]byte {
		var out [2][4096]byte
		for i, f := range spellings("advapi32.dll", "GetFileSecurity") {
			var needed uint32
			r, e := f.call(`data\file`, parts, unsafe.Pointer(&out[i]), len(out[i]), unsafe.Pointer(&needed))
			if r == 0 {
				t.errorf("%s: %v", f.proc.Name, e)
			}
		}
		return out
	}
	before := get()
	if before[0] != before[1] {
		t.errorf("GetFileSecurity: %x and %x", before[0][:128], before[1][:128])
	}
	for i, f := range spellings("advapi32.dll", "SetFileSecurity") {
		sd, err := windows.SecurityDescriptorFromString(fmt.Sprintf("D:P(A;;FA;;;BA)(A;;FA;;;SY)(A;;FR;;;S-1-1-%d)", i))
		t.must(err)
		if r, e := f.call(`data\file`, windows.DACL_SECURITY_INFORMATION, unsafe.Pointer(sd)); r == 0 {
			t.errorf("%s: %v", f.proc.Name, e)
		}
		if now := get(); now[0] != now[1] || now[0] == before[0] {
			t.errorf("%s has changed nothing", f.proc.Name)
		}
		before = get()
	}
}

func pairsOfAccounts(t *probe) {
	same := func(name string, ask func(f function) string, fs []function) {
		a, w := ask(fs[0]), ask(fs[1])
		if a != w {
			t.errorf("%s: %q and %q", name, a, w)
		}
	}
	sized := func(before ...any) func(f function) string {
		return func(f function) string {
			var buffer [1024]byte
			var zero uint32
			n := uint32(len(buffer) / 2)
			_, small := f.call(append(before, unsafe.Pointer(&buffer), unsafe.Pointer(&zero))...)
			_, none := f.call(append(before, 0, unsafe.Pointer(&zero))...)
			r, e := f.call(append(before, unsafe.Pointer(&buffer), unsafe.Pointer(&n))...)
			if r&0xff == 0 {
				return e.Error()
			}
			return fmt.Sprintf("%s, %d; %v, %v", f.read(buffer[:]), n, small, none)
		}
	}
	same("GetUserName", sized(), spellings("advapi32.dll", "GetUserName"))
	same("GetUserNameEx", sized(2), spellings("secur32.dll", "GetUserNameEx"))
	same("GetUserProfileDirectory", sized(windows.Handle(windows.GetCurrentProcessToken())),
		spellings("userenv.dll", "GetUserProfileDirectory"))
	user, err := windows.GetCurrentProcessToken().GetTokenUser()
	t.must(err)
	ofSID := func(before ...any) func(f function) string {
		return func(f function) string {
			var name, domain [512]byte
			n, d, use := uint32(256), uint32(256), uint32(0)
			r, e := f.call(append(before, unsafe.Pointer(user.User.Sid), unsafe.Pointer(&name), unsafe.Pointer(&n),
				unsafe.Pointer(&domain), unsafe.Pointer(&d), unsafe.Pointer(&use))...)
			if r == 0 {
				return e.Error()
			}
			return fmt.Sprintf(`%s\%s, %d`, f.read(domain[:]), f.read(name[:]), use)
		}
	}
	wide := spellings("advapi32.dll", "LookupAccountSid")
	local := spellings("advapi32.dll", "LookupAccountSidLocal")
	same("LookupAccountSid", ofSID(0), wide)
	same("LookupAccountSidLocal", ofSID(), local)
	if a, b := ofSID(0)(wide[1]), ofSID()(local[1]); a != b {
		t.errorf("LookupAccountSid: %q, and of this computer %q", a, b)
	}
	same("LookupAccountName", func(f function) string {
		var sid, domain [512]byte
		n, d, use := uint32(512), uint32(256), uint32(0)
		r, e := f.call(0, "Administrators", unsafe.Pointer(&sid), unsafe.Pointer(&n), unsafe.Pointer(&domain),
			unsafe.Pointer(&d), unsafe.Pointer(&use))
		if r == 0 {
			return e.Error()
		}
		return fmt.Sprintf("%x %s %d", sid[:n], f.read(domain[:]), use)
	}, spellings("advapi32.dll", "LookupAccountName"))
}

func pairsOfServices(t *probe) {
	m, err := mgr.Connect()
	t.must(err)
	exe, err := os.Executable()
	t.must(err)
	config := mgr.Config{StartType: mgr.StartManual, Description: "d"}
	s, err := m.CreateService(serviceName+"-pairs", exe, config, "service")
	t.must(err)
	defer func() { t.must(s.Delete()) }()
	for level := 1; level <= 7; level++ {
		var answers [2][1024]byte
		var needs [2]uint32
		for i, f := range spellings("advapi32.dll", "QueryServiceConfig2") {
			buffer, needed := unsafe.Pointer(&answers[i]), unsafe.Pointer(&needs[i])
			if r, e := f.call(s.Handle, level, buffer, len(answers[i]), needed); r == 0 {
				t.errorf("%s of level %d: %v", f.proc.Name, level, e)
			}
			if r, e := f.call(s.Handle, level, 0, 0, needed); r != 0 ||
				e != windows.ERROR_INSUFFICIENT_BUFFER {
				t.errorf("%s of level %d without a buffer: %d, %v", f.proc.Name, level, r, e)
			}
		}
		if level > 1 && (answers[0] != answers[1] || needs[0] != needs[1]) {
			t.errorf("level %d: %x and %x", level, answers[0][:64], answers[1][:64])
		}
		var zero [64]byte
		for _, f := range spellings("advapi32.dll", "ChangeServiceConfig2") {
			if r, e := f.call(s.Handle, level, unsafe.Pointer(&zero)); r == 0 {
				t.errorf("%s of level %d: %v", f.proc.Name, level, e)
			}
		}
	}
	t.must(s.Start())
	expectState(t, s, svc.Running)
	st, err := s.Query()
	t.must(err)
	// Its process ends without a word.
	if out, err := exec.Command("taskkill", "/f", "/pid", fmt.Sprint(st.ProcessId)).CombinedOutput(); err != nil {
		t.errorf("taskkill: %v: %s", err, out)
	}
	expectState(t, s, svc.Stopped)
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		wrong := listsWrongly(m, s.Name)
		if wrong == "" {
			return
		}
		if time.Now().After(deadline) {
			t.errorf("%s", wrong)
			return
		}
	}
}

// listsWrongly returns which function lists a stopped service as an active one.
func listsWrongly(m *mgr.Mgr, name string) string {
	for _, f := range append(spellings("advapi32.dll", "EnumServicesStatus"),
		spellings("advapi32.dll", "EnumServicesStatusEx")...) {
		for state, want := range map[int]bool{windows.SERVICE_ACTIVE: false, windows.SERVICE_INACTIVE: true} {
			var needed, count, resume uint32
			buffer := make([]byte, 256<<10)
			args := []any{m.Handle, windows.SERVICE_WIN32, state, unsafe.Pointer(&buffer[0]), len(buffer),
				unsafe.Pointer(&needed), unsafe.Pointer(&count), unsafe.Pointer(&resume)}
			size := 48 // of ENUM_SERVICE_STATUS
			if strings.Contains(f.proc.Name, "Ex") {
				args = append([]any{args[0], 0}, append(args[1:], 0)...)
				size = 56 // of ENUM_SERVICE_STATUS_PROCESS
			}
			r, e := f.call(args...)
			has := false
			for i := range int(count) {
				text := *(*unsafe.Pointer)(unsafe.Pointer(&buffer[i*size])) // each begins with the name
				has = has || f.readAt(text) == name
			}
			if r == 0 || has != want {
				return fmt.Sprintf("%s of state %d: %v, has the service: %v", f.proc.Name, state, e, has)
			}
		}
	}
	return ""
}
