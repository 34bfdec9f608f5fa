# SPDX-License-Identifier: Apache-2.0
# Copyright The mullion Authors.
#
# ws2_32.dll: its exports come from the Wine that is installed here.

OWN_RULE += ws2_32
WINE_PE ?= /usr/lib/x86_64-linux-gnu/wine/x86_64-windows

$(OBJ)/ws2_32.def: $(WINE_PE)/ws2_32.dll ws2_32/def.awk | $(OBJ)
	@$(CROSS)objdump -p $< >$(OBJ)/ws2_32.dump
	@awk -v def=$@.tmp -v imp=$(OBJ)/ws2_32w.def -f ws2_32/def.awk $(OBJ)/ws2_32.dump
	@$(CROSS)dlltool -m i386:x86-64 -d $(OBJ)/ws2_32w.def -l $(OBJ)/libws2_32w.a
	@mv $@.tmp $@

$(OUT)/ws2_32.dll: ws2_32/ws2_32.c $(OBJ)/ws2_32.def mem.c Makefile ws2_32/rules.mk | $(OUT) $(OBJ)
	@echo "  CC   native/ws2_32.dll"
	@$(CROSS)gcc $(CFLAGS) $(LDFLAGS) -Wl,-e,DllMain -o $(OBJ)/ws2_32.dll $< mem.c $(OBJ)/ws2_32.def $(OBJ)/libws2_32w.a -lkernel32 -lntdll
	@mv $(OBJ)/$(@F) $@
