// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package main

import (
	"path"
	"slices"
)

// Where Debian's packages put Wine, and where its Windows parts import zlib1.dll from: on Debian the package
// libz-mingw-w64 has it elsewhere, and a link points there.
const (
	libPath   = "usr/lib/x86_64-linux-gnu"
	unixPath  = libPath + "/wine/x86_64-unix"
	pePath    = libPath + "/wine/x86_64-windows"
	zlibFrom  = "usr/x86_64-w64-mingw32/lib/zlib1.dll"
	zlibPlace = pePath + "/zlib1.dll"
)

// place returns where a file of a package goes in the directory, or "" if an emulated host does not need it.
func place(name string) string {
	if name == zlibFrom {
		return zlibPlace
	}
	base := path.Base(name)
	switch path.Dir(name) {
	case unixPath:
		if matches(skippedUnix(), base) {
			return ""
		}
	case pePath:
		if matches(skippedPE(), base) {
			return ""
		}
	}
	if matches(kept(), name) && !matches(skipped(), name) {
		return name
	}
	return ""
}

func matches(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		ok, err := path.Match(p, name)
		return err == nil && ok // a test looks for bad patterns
	})
}

// kept are patterns of the files that a host needs. 32-bit programs do not run yet; so i386-windows is not among them.
func kept() []string {
	return []string{
		"usr/bin/conmon",
		"usr/bin/runc", // a link
		"usr/sbin/nft",
		"usr/sbin/runc",
		"usr/lib/wine/*",
		unixPath + "/*.so",
		pePath + "/*",
		"usr/share/wine/wine.inf",
		"usr/share/wine/fonts/*",
		"usr/share/wine/nls/*",
		"usr/lib64/ld-linux-x86-64.so.2",
		libPath + "/*.so",
		libPath + "/*.so.*",
		"usr/lib/locale/C.utf8/LC_*",
		"usr/lib/locale/C.utf8/LC_MESSAGES/*",
		// Licences travel with the programs. usr/share/doc/PACKAGE is a link if another package has the licence; many
		// name the texts in common-licenses.
		"usr/share/doc/*",
		"usr/share/doc/*/copyright",
		"usr/share/common-licenses/*",
	}
}

// skipped are patterns of libraries that only programs need that are not here. They would need further libraries.
func skipped() []string {
	return []string{libPath + "/libgio-2.0.so*"}
}

// skippedUnix are the Unix halves of Wine's modules for screens, sound, printers and devices, which no Windows
// container has. With them go the libraries of a desktop.
func skippedUnix() []string {
	return []string{
		"avicap32.so", "capi2032.so", "ctapi32.so", "dwrite.so", "gphoto2.so", "localspl.so", "odbc32.so", "opencl.so",
		"opengl32.so", "qcap.so", "winealsa.so", "winebus.so", "winedmo.so", "winegstreamer.so", "winepulse.so",
		"wineusb.so", "winevulkan.so", "winewayland.so", "winex11.so", "winspool.so", "wpcap.so",
	}
}

// skippedPE are patterns of Wine's Windows parts that are only of use with a screen, sound, a game controller or a
// browser, or for 32-bit programs of the 1990s. Programs for servers import the remainder; a missing module is reported
// at the start of a program that needs it.
func skippedPE() []string {
	return []string{
		"avicap32.*", "capi2032.*", "ctapi32.*", "gphoto2.*", "localspl.*", "opencl.*", "opengl32.*",
		"qcap.*", "winealsa.*", "winebus.*", "winegstreamer.*", "winepulse.*", "wineusb.*",
		"winevulkan.*", "winewayland.*", "winex11.*", "wpcap.*", "wineps.*", "vulkan-1.*", "glu32.*",
		"d3d*", "ddraw*", "dxgi*", "dxdiag*", "dxva*", "dxtrans*", "dx8vb*", "d2d1*", "dwrite*", "wined3d*", "dcomp*",
		"dplay*", "dpn*", "dpv*", "dpwsockx*", "dm[bcilsu]*", "dsound*", "dswave*", "dsdmo*", "devenum*", "quartz*",
		"x3daudio*", "xactengine*", "xapofx*", "xaudio*", "xinput*", "dinput*", "winexinput*", "winehid*", "hid*.sys",
		"mf*", "msauddec*", "msvproc*", "colorcnv*", "resampledmo*", "wmadmod*", "wmvdecod*", "winedmo*", "mp3dmod*",
		"msmpeg*", "wmp*", "wmvcore*", "wmasf*", "mciavi*", "mcicda*", "mciqtz*", "mciseq*", "mciwave*", "msacm32.drv",
		"*.acm", "*.ax", "iccvid*", "msvidc*", "msrle*", "l3codec*", "mshtml*", "ieframe*", "iexplore*", "jscript*",
		"vbscript*",
		"inetcpl*", "hhctrl*", "hh.exe", "dhtmled*", "ieproxy*", "winemine*", "wordpad*", "notepad*", "winefile*",
		"winhlp32*", "clock.exe", "view.exe", "write.exe", "taskmgr*", "oleview*", "winecfg*", "wine*menubuilder*",
		"joy.cpl", "irprops*", "bthprops*", "appwiz*", "inetcomm*", "*.ds", "sane*", "twain*", "wiaservc*", "sti.*",
		"evr.*", "amstream*", "qasf*", "qdvd*", "qedit*", "strmdll*", "msdmo*", "gameux*", "sapi*", "uianimation*",
		"uiribbon*", "wing32*", "windows.gaming*", "windows.media*", "mscorwks*", "ngen*", "regasm*", "regsvcs*",
		"aspnet*", "presentationfont*", "fusion*",
		// Wine would start explorer.exe for the desktop of the first program that has a message queue. Windows Server
		// Core has no explorer.exe, and without it the server makes the desktop's window itself
		// (dlls/win32u/winstation.c, get_desktop_window).
		"explorer.exe",
		// C runtimes for debugging, or that Microsoft had for 32-bit programs only.
		"msvc[rp]*d.dll", "msvc[rp]7?.dll", "msvcrt?0.dll", "crtdll*",
		"*.msstyles", "wmphoto*", "xps*", "prntvpt*", "tapi32*", "unicows*", "ctl3d*", "msftedit*",
		"riched*", "explorerframe*",
	}
}
