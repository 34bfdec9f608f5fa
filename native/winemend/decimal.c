// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

#include "winemend.h"

SIZE_T put_decimal(WCHAR *to, ULONG v)
{
    WCHAR digits[10];
    SIZE_T d = 0, n = 0;
    do digits[d++] = (WCHAR)('0' + v % 10);
    while ((v /= 10) != 0);
    while (d > 0) to[n++] = digits[--d];
    return n;
}
