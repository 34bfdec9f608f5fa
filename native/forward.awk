# SPDX-License-Identifier: Apache-2.0
# Copyright The mullion Authors.
#
# For a DLL of ours that stands in front of Wine's. Reads `objdump -p` of Wine's
# (`name` is its name without the extension). Writes to the file `def` a module
# definition that exports the same names with the same ordinals, each forwarded to
# NAMEw.dll or, if it is in `ours`, bound to our function mend_…; and to the file
# `imp` one that names the functions of NAMEw.dll for us to call. Names of `ours`
# that Wine lacks are exported, too. Programs of Microsoft's compiler import Winsock
# by ordinal.

BEGIN {
    n = split(ours, list, " ")
    for (i = 1; i <= n; i++) replaced[list[i]] = 1
    print "LIBRARY " name ".dll\nEXPORTS" > def
    print "LIBRARY " name "w.dll\nEXPORTS" > imp
}

/^Ordinal Base/ { base = $NF }

# The table counts from 0, not from the ordinal base.
/^\[Ordinal\/Name Pointer\] Table/ { in_names = 1; next }
in_names && /^$/ { in_names = 0; done = 1 }
in_names && !done && match($0, /^[ \t]*\[ *[0-9]+\]/) {
    ordinal = $0
    sub(/^[ \t]*\[ */, "", ordinal)
    sub(/\].*/, "", ordinal)
    ordinal += base
    export = $NF
    # Private in Wine: a spec entry that only Wine's own modules import.
    if (export ~ /^__wine/) next
    if (export in replaced) printf "    %s = mend_%s @%d\n", export, export, ordinal > def
    # Quoted, because names as _PfMakeLog@4 contain the mark of an ordinal.
    else printf "    \"%s\" = \"%sw.%s\" @%d\n", export, name, export, ordinal > def
    known[export] = 1
    if (export ~ /@/) next # not called by us
    # dlltool's "alias == real name": code says real_x, the import table x.
    printf "    real_%s == %s\n", export, export > imp
}

END {
    for (i = 1; i <= n; i++)
        if (!(list[i] in known)) printf "    %s = mend_%s\n", list[i], list[i] > def
}
