{{- define "mullion.selector" -}}
app.kubernetes.io/component: manager
app.kubernetes.io/name: mullion
{{- end }}

{{- define "mullion.labels" -}}
{{ include "mullion.selector" . }}
app.kubernetes.io/managed-by: mullion
{{- end }}

{{- define "mullion.meta" -}}
name: mullion-manager
namespace: {{ .Release.Namespace }}
labels:
  {{- include "mullion.labels" . | nindent 2 }}
{{- end }}

{{- define "mullion.subjects" -}}
- kind: ServiceAccount
  name: mullion-manager
  namespace: {{ .Release.Namespace }}
{{- end }}
