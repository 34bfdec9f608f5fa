// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package main

import (
	"os"
	"path/filepath"
	"unsafe"

	"golang.org/x/sys/windows"
)

const secured = windows.OWNER_SECURITY_INFORMATION | windows.GROUP_SECURITY_INFORMATION |
	windows.DACL_SECURITY_INFORMATION

func sddl(t *probe, path string) string {
	sd, err := windows.GetNamedSecurityInfo(path, windows.SE_FILE_OBJECT, secured)
	if err != nil {
		t.errorf("security of %s: %v", path, err)
		return ""
	}
	return sd.String()
}

// setACL calls SetNamedSecurityInfo with the list of a descriptor.
func setACL(t *probe, path, text string, protection windows.SECURITY_INFORMATION) {
	sd, err := windows.SecurityDescriptorFromString(text)
	t.must(err)
	acl, _, err := sd.DACL()
	t.must(err)
	err = windows.SetNamedSecurityInfo(path, windows.SE_FILE_OBJECT,
		windows.DACL_SECURITY_INFORMATION|protection, nil, nil, acl, nil)
	if err != nil {
		t.errorf("set security of %s to %s: %v", path, text, err)
	}
}

// The inherited entries of a directory and a file in C:\ of a container: see
// native/winemend/security.c.
const (
	newDir = "O:BAG:SYD:AI(A;OICIID;FA;;;BA)(A;OICIID;FA;;;SY)(A;OICIIOID;GA;;;CO)(A;OICIID;0x1200a9;;;BU)" +
		"(A;CIID;LC;;;BU)(A;CIID;DC;;;BU)"
	newFile = "O:BAG:SYD:AI(A;ID;FA;;;BA)(A;ID;FA;;;SY)(A;ID;0x1200a9;;;BU)"
)

// security checks the security descriptors of files. The second argument is a
// directory of another file system, as volumes are; the third a file of the same.
func security(t *probe) {
	dir := `C:\security\a`
	file := dir + `\file`
	t.must(os.MkdirAll(dir, 0o755))
	t.must(os.WriteFile(file, nil, 0o600))
	expect := func(path, want string) {
		if got := sddl(t, path); got != want {
			t.errorf("%s:\n got %s\nwant %s", path, got, want)
		}
	}
	expect(dir, newDir)
	expect(file, newFile)
	expect(`C:\`, "O:BAG:SYD:PAI(A;OICI;FA;;;BA)(A;OICI;FA;;;SY)(A;OICIIO;GA;;;CO)(A;OICI;0x1200a9;;;BU)"+
		"(A;CI;LC;;;BU)(A;CIIO;DC;;;BU)(A;;0x1200a9;;;WD)")
	if len(os.Args) > 3 {
		// kubernetes.io, "Projected Volumes": SecurityContext interactions, Windows.
		expect(os.Args[2], "O:BAG:SYD:AI(A;OICIID;FA;;;SY)(A;OICIID;FA;;;BA)(A;OICIID;0x1200a9;;;BU)"+
			"(A;CIID;LC;;;BU)(A;CIID;DC;;;BU)(A;OICIIOID;GA;;;CO)")
		expect(os.Args[3], "O:BAG:SYD:AI(A;ID;FA;;;SY)(A;ID;FA;;;BA)(A;ID;0x1200a9;;;BU)")
	}
	// Entries of a directory reach its existing and its later content.
	setACL(t, dir, "D:(A;OICI;0x1301bf;;;WD)", 0)
	expect(dir, "O:BAG:SYD:AI(A;OICI;0x1301bf;;;WD)"+newDir[len("O:BAG:SYD:AI"):])
	expect(file, "O:BAG:SYD:AI(A;ID;0x1301bf;;;WD)"+newFile[len("O:BAG:SYD:AI"):])
	later := dir + `\later`
	t.must(os.Mkdir(later, 0o755))
	expect(later, "O:BAG:SYD:AI(A;OICIID;0x1301bf;;;WD)"+newDir[len("O:BAG:SYD:AI"):])
	// A protected object inherits no entries until the protection ends.
	setACL(t, file, "D:(A;;FA;;;BA)(D;;FA;;;BU)", windows.PROTECTED_DACL_SECURITY_INFORMATION)
	expect(file, "O:BAG:SYD:PAI(A;;FA;;;BA)(D;;FA;;;BU)")
	setACL(t, file, "D:(A;;FA;;;BA)", 0)
	expect(file, "O:BAG:SYD:PAI(A;;FA;;;BA)")
	setACL(t, file, "D:(A;;FR;;;BU)", windows.UNPROTECTED_DACL_SECURITY_INFORMATION)
	expect(file, "O:BAG:SYD:AI(A;;FR;;;BU)(A;ID;0x1301bf;;;WD)"+newFile[len("O:BAG:SYD:AI"):])
	ownerAndMaking(t, dir, expect)
	t.must(os.RemoveAll(`C:\security`))
	// The test checks the access of accounts other than administrators to these.
	for name, acl := range map[string]string{
		"closed": "D:(A;;FA;;;BA)", "readable": "D:(A;;FR;;;BU)", "writable": "D:(A;;FA;;;S-1-5-93-2-2)",
	} {
		path := filepath.Join(`C:\`, name)
		t.must(os.WriteFile(path, nil, 0o600))
		setACL(t, path, acl, windows.PROTECTED_DACL_SECURITY_INFORMATION)
	}
}

func ownerAndMaking(t *probe, dir string, expect func(path, want string)) {
	file := filepath.Join(dir, "owned")
	t.must(os.WriteFile(file, nil, 0o600))
	system, err := windows.CreateWellKnownSid(windows.WinLocalSystemSid)
	t.must(err)
	t.must(windows.SetNamedSecurityInfo(file, windows.SE_FILE_OBJECT,
		windows.OWNER_SECURITY_INFORMATION, system, nil, nil, nil))
	expect(file, "O:SYG:SYD:AI(A;ID;0x1301bf;;;WD)"+newFile[len("O:BAG:SYD:AI"):])

	sd, err := windows.SecurityDescriptorFromString("O:BAD:P(A;OICI;FA;;;SY)(A;OICI;FA;;;BA)")
	t.must(err)
	private := filepath.Join(dir, "private")
	name, err := windows.UTF16PtrFromString(private)
	t.must(err)
	sa := &windows.SecurityAttributes{SecurityDescriptor: sd}
	sa.Length = uint32(unsafe.Sizeof(*sa))
	t.must(windows.CreateDirectory(name, sa))
	expect(private, "O:BAG:SYD:PAI(A;OICI;FA;;;SY)(A;OICI;FA;;;BA)")
	t.must(os.WriteFile(private+`\file`, nil, 0o600))
	expect(private+`\file`, "O:BAG:SYD:AI(A;ID;FA;;;SY)(A;ID;FA;;;BA)")
	if err := os.Mkdir(dir+`\go`, 0o700); err != nil {
		t.errorf("%v", err)
	}
}
