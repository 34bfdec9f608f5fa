// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package install

import (
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// conflict is the error of an API server whose object another client applied.
func conflict(manager, field string) error {
	return apierrors.NewApplyConflict([]metav1.StatusCause{{
		Type: metav1.CauseTypeFieldManagerConflict, Message: fmt.Sprintf("conflict with %q using apps/v1", manager),
		Field: field,
	}}, "Apply failed with 1 conflict")
}

func parseMiB(s string, n *int64) (int, error) { return fmt.Sscanf(s, "%dMiB", n) }
