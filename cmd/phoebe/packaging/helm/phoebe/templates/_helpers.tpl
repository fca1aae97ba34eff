{{- define "phoebe.name" -}}{{ .Release.Name | trunc 40 | trimSuffix "-" }}{{- end }}
{{- define "phoebe.image" -}}{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{- end }}
{{- define "phoebe.labels" -}}
app.kubernetes.io/name: phoebe
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}
{{- define "phoebe.pod" -}}
{{- $needs := add .Values.drain.delaySeconds .Values.drain.timeoutSeconds }}
{{- if le (int .Values.terminationGracePeriodSeconds) (int $needs) }}
{{- fail (printf "terminationGracePeriodSeconds is %v: it must be more than drain.delaySeconds plus drain.timeoutSeconds (%v), or pods are killed while they drain" .Values.terminationGracePeriodSeconds $needs) }}
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
{{/* With TLS, the admin port needs a certificate. The kubelet has none, so phoebe's own binary checks the pod. */}}
{{- define "phoebe.probes" -}}
{{- if .tls -}}
readinessProbe: {exec: {command: [/phoebe, ready, "127.0.0.1:{{ .port }}", --tls-dir=/run/phoebe-keys]}, periodSeconds: 2, timeoutSeconds: 2, failureThreshold: 2}
livenessProbe: {exec: {command: [/phoebe, ready, "127.0.0.1:{{ .port }}", --tls-dir=/run/phoebe-keys, --live, --wait=5s]}, periodSeconds: 10, timeoutSeconds: 6}
{{- else -}}
readinessProbe: {httpGet: {path: /readyz, port: admin}, periodSeconds: 1, failureThreshold: 2}
livenessProbe: {httpGet: {path: /livez, port: admin}, periodSeconds: 10}
{{- end }}
{{- end }}
{{- define "phoebe.container" -}}
image: {{ include "phoebe.image" . }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- end }}
