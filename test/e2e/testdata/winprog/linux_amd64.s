// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

#include "textflag.h"

// func linux(nr, a1, a2, a3, a4, a5, a6 uintptr) uintptr
TEXT ·linux(SB), NOSPLIT, $0-64
	MOVQ nr+0(FP), AX
	MOVQ a1+8(FP), DI
	MOVQ a2+16(FP), SI
	MOVQ a3+24(FP), DX
	MOVQ a4+32(FP), R10
	MOVQ a5+40(FP), R8
	MOVQ a6+48(FP), R9
	SYSCALL
	MOVQ AX, ret+56(FP)
	RET

// func linux32(nr, a1 uintptr) uintptr
TEXT ·linux32(SB), NOSPLIT, $0-24
	MOVQ nr+0(FP), AX
	MOVQ a1+8(FP), BX
	XORQ CX, CX
	XORQ DX, DX
	INT $0x80
	MOVQ AX, ret+16(FP)
	RET
