{{/* Name of every object of this release, unique in the cluster: the release's, and the chart's where that does not hold it. */}}
{{- define "controller.fullname" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/*
Name of the ServiceAccount. Never the controller's own: to a ServiceAccount of that name in kube-system the API server
gives the permissions of the built-in loop, and kube-controller-manager makes one.
*/}}
{{- define "controller.serviceAccountName" -}}
{{- printf "%s-standalone" (include "controller.fullname" . | trunc 52 | trimSuffix "-") -}}
{{- end -}}

{{/* Labels by which the pods of this release are selected; they never change. */}}
{{- define "controller.selectorLabels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{/* Labels of every object. */}}
{{- define "controller.labels" -}}
{{ include "controller.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- with .Values.labels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Port of the admin server, as config.httpBindAddress has it. */}}
{{- define "controller.port" -}}
{{- .Values.config.httpBindAddress | default "[::]:8080" | splitList ":" | last -}}
{{- end -}}

{{/* HTTP, or HTTPS where the config names a certificate, or has one made to hide the tokens of who reads the metrics. */}}
{{- define "controller.scheme" -}}
{{- if or .Values.config.tlsCertFile (include "controller.authorizesMetrics" .) }}HTTPS{{ else }}HTTP{{ end -}}
{{- end -}}

{{/* Whether the API server is asked who may read the metrics; empty where it is not. */}}
{{- define "controller.authorizesMetrics" -}}
{{- if eq (dig "metricsAuthorization" "none" .Values.config) "kubernetes" }}true{{ end -}}
{{- end -}}

{{/* How a monitor trusts the certificate: as it says, else not at all where that is made at the start. */}}
{{- define "controller.tlsConfig" -}}
{{- if .tlsConfig }}
{{- toYaml .tlsConfig }}
{{- else if and (include "controller.authorizesMetrics" .root) (not .root.Values.config.tlsCertFile) }}
{{- "insecureSkipVerify: true" }}
{{- end -}}
{{- end -}}

{{/* Namespace of the Lease. */}}
{{- define "controller.leaseNamespace" -}}
{{- .Values.config.leaderElectResourceNamespace | default .Release.Namespace -}}
{{- end -}}
