# SPDX-License-Identifier: Apache-2.0
# Copyright The mullion Authors.
#
# Reads `objdump -p` of Wine's ws2_32.dll. Writes to the file `def` a module
# definition that exports the same names with the same ordinals, each forwarded
# to ws2_32w.dll or bound to our own function; and to the file `imp` one that
# names the functions of ws2_32w.dll that ours call.

BEGIN {
    n = split("WSASocketW socket bind connect getsockname getpeername accept closesocket WSAIoctl", list, " ")
    for (i = 1; i <= n; i++) replaced[list[i]] = 1
    print "LIBRARY ws2_32.dll\nEXPORTS" > def
    print "LIBRARY ws2_32w.dll\nEXPORTS" > imp
}

/^\[Ordinal\/Name Pointer\] Table/ { in_names = 1; next }
in_names && /^$/ { exit }
in_names && match($0, /^[ \t]*\[ *[0-9]+\]/) {
    ordinal = $0
    sub(/^[ \t]*\[ */, "", ordinal)
    sub(/\].*/, "", ordinal)
    name = $NF
    # Private in Wine: a spec entry that only Wine's own modules import.
    if (name ~ /^__wine/) next
    if (name in replaced) printf "    %s = mend_%s @%d\n", name, name, ordinal > def
    else printf "    %s = ws2_32w.%s @%d\n", name, name, ordinal > def
    # dlltool's "alias == real name": code says real_x, the import table x.
    printf "    real_%s == %s\n", name, name > imp
}
