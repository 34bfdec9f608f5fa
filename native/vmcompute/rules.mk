# SPDX-License-Identifier: Apache-2.0
# Copyright The mullion Authors.

LIBS_vmcompute := -lws2_32
