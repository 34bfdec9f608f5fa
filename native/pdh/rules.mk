# SPDX-License-Identifier: Apache-2.0
# Copyright The mullion Authors.
#
# pdh.dll: its exports come from the Wine in bin/wine.

OWN_RULE += pdh
OURS_pdh := PdhAddCounterA PdhAddCounterW PdhAddEnglishCounterA PdhAddEnglishCounterW PdhCloseQuery \
	PdhCollectQueryData PdhGetFormattedCounterArrayW PdhGetFormattedCounterValue PdhOpenQuery PdhOpenQueryA \
	PdhOpenQueryW PdhRemoveCounter PdhValidatePathA PdhValidatePathW
LIBS_pdh := -liphlpapi -lpsapi
