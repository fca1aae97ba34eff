{{- define "phoebe.name" -}}{{ .Release.Name | trunc 40 | trimSuffix "-" }}{{- end }}
{{- define "phoebe.image" -}}{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{- end }}
{{- define "phoebe.labels" -}}
app.kubernetes.io/name: phoebe
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}
{{- define "phoebe.pod" -}}
{{- $needs := add .Values.drain.delaySeconds .Values.drain.timeoutSeconds }}
{{- if le (int .Values.terminationGracePeriodSeconds) (int $needs) }}
{{- fail (printf "terminationGracePeriodSeconds is %v: it must be more than drain.delaySeconds and drain.timeoutSeconds together, %v, or pods are killed while they drain" .Values.terminationGracePeriodSeconds $needs) }}
{{- end -}}
automountServiceAccountToken: false
terminationGracePeriodSeconds: {{ .Values.terminationGracePeriodSeconds }}
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  fsGroup: 65532
  seccompProfile: {type: RuntimeDefault}
{{- end }}
{{- define "phoebe.container" -}}
image: {{ include "phoebe.image" . }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- end }}
