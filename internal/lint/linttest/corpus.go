// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package linttest makes manifests for the tests and the benchmarks of lint and of
// its command.
package linttest

import (
	"bytes"
	"fmt"
)

// Corpus writes n resources as a chart renders them: three in a group, a
// hardened Linux Deployment, a Service, and a Deployment for Windows.
func Corpus(n int) []byte {
	var b bytes.Buffer
	for i := range n {
		switch i % 3 {
		case 0:
			fmt.Fprintf(&b, deploymentText, i, "linux", "registry.example/app:1.2.3",
				"\n      securityContext: {runAsUser: 1000, fsGroup: 1000, seccompProfile: {type: RuntimeDefault}}",
				"\n        securityContext: {readOnlyRootFilesystem: true, capabilities: {drop: [ALL]}, "+
					"allowPrivilegeEscalation: false}")
		case 1:
			fmt.Fprintf(&b, "---\napiVersion: v1\nkind: Service\nmetadata:\n  name: app-%d\n"+
				"  labels: {app: app-%[1]d}\nspec:\n  selector: {app: app-%[1]d}\n  ports:\n  - name: http\n"+
				"    port: 80\n    targetPort: 8080\n", i)
		case 2:
			fmt.Fprintf(&b, deploymentText, i, "windows", "mcr.microsoft.com/windows/servercore:ltsc2022",
				"\n      os: {name: windows}",
				"\n        securityContext: {windowsOptions: {runAsUserName: ContainerUser}}")
		}
	}
	return b.Bytes()
}

const deploymentText = `---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: app-%d
  labels:
    app.kubernetes.io/name: app
    app.kubernetes.io/managed-by: Helm
spec:
  replicas: 2
  selector:
    matchLabels:
      app: app-%[1]d
  template:
    metadata:
      labels:
        app: app-%[1]d
    spec:
      nodeSelector:
        kubernetes.io/os: %[2]s%[4]s
      containers:
      - name: app
        image: %[3]s
        ports:
        - name: http
          containerPort: 8080
        env:
        - name: LOG_LEVEL
          value: info
        - name: DATABASE
          valueFrom: {secretKeyRef: {name: db, key: url}}
        resources:
          limits: {cpu: 500m, memory: 256Mi}
          requests: {cpu: 100m, memory: 256Mi}
        readinessProbe:
          httpGet: {path: /ready, port: http}
          periodSeconds: 5
        volumeMounts:
        - name: config
          mountPath: /etc/app%[5]s
      volumes:
      - name: config
        configMap:
          name: app-%[1]d
`
