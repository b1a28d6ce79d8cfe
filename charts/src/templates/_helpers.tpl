{{/*
Overrides the chart's own values with those of `global`, which all charts of a release share; an empty key in `global`
overrides nothing. Every template that uses one of these values includes this first.
*/}}
{{- define "controller.global" -}}
{{- range list "affinity" "clusterLabel" "controlPlane" "dashboard" "networkPolicy" "nodeSelector" "podMonitor"
    "priorityClassName" "prometheusRule" "serviceMonitor" -}}
{{- $key := . -}}
{{- with get $.Values.global $key -}}
{{- $_ := dict $key . | deepCopy | mergeOverwrite $.Values -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Name of every object of this release, unique in the cluster: name of the release, plus that of the chart unless contained. */}}
{{- define "controller.fullname" -}}
{{- $name := .Values.nameOverride | default .Chart.Name -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* Namespace of the objects. */}}
{{- define "controller.namespace" -}}
{{- .Values.namespaceOverride | default .Release.Namespace -}}
{{- end -}}

{{/*
Name of the ServiceAccount. Never the name of the controller: in kube-system the API server grants the permissions of the
built-in loop to a ServiceAccount of that name, and kube-controller-manager creates one.
*/}}
{{- define "controller.serviceAccountName" -}}
{{- .Values.serviceAccount.name | default (printf "%s-standalone" (include "controller.fullname" .)) -}}
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

{{/* The image without tag. The first part of its name is a registry by the rule of container runtimes. */}}
{{- define "controller.repository" -}}
{{- if .Values.global.imageRegistry -}}
{{- .Values.global.imageRegistry }}/{{ regexReplaceAll "^([^/]*[.:][^/]*|localhost)/" .Values.image.repository "" -}}
{{- else -}}
{{- .Values.image.repository -}}
{{- end -}}
{{- end -}}

{{/* The image: from the values, or by default the chart's version, with the digest that a released Chart.yaml has. */}}
{{- define "controller.image" -}}
{{- include "controller.repository" . -}}
{{- with .Values.image -}}
{{- if .digest -}}
@{{ .digest }}
{{- else if .tag -}}
:{{ .tag }}
{{- else -}}
:{{ $.Chart.AppVersion }}{{ index $.Chart.Annotations "artifacthub.io/images" | regexFind "@sha256:[0-9a-f]+" }}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Placement for `controlPlane`, unless `none`. The role label has no value or, in k3s, `true`. */}}
{{- define "controller.controlPlane" -}}
{{- $required := eq .Values.controlPlane "require" -}}
nodeAffinity:
  {{- if $required }}
  requiredDuringSchedulingIgnoredDuringExecution:
    nodeSelectorTerms:
      - matchExpressions:
          - key: node-role.kubernetes.io/control-plane
            operator: Exists
  {{- else }}
  preferredDuringSchedulingIgnoredDuringExecution:
    - weight: 100
      preference:
        matchExpressions:
          - key: node-role.kubernetes.io/control-plane
            operator: Exists
  {{- end }}
tolerations:
  - key: node-role.kubernetes.io/control-plane
    operator: Exists
  - key: node-role.kubernetes.io/etcd
    operator: Exists
  - key: CriticalAddonsOnly
    operator: Exists
  {{- if $required }}
  - key: node.cloudprovider.kubernetes.io/uninitialized
    operator: Exists
    effect: NoSchedule
  # These two stay until the network plugin runs, which pods with hostNetwork need not wait for.
  - key: node.kubernetes.io/network-unavailable
    operator: Exists
    effect: NoSchedule
  - key: node.kubernetes.io/not-ready
    operator: Exists
    effect: NoSchedule
  {{- end }}
{{- end -}}

{{/* Address of the admin server. */}}
{{- define "controller.address" -}}
{{- $port := ternary .Values.hostPort 8080 .Values.hostNetwork -}}
{{- .Values.config.httpBindAddress | default (printf "[::]:%v" $port) -}}
{{- end -}}

{{/* Port of the admin server. */}}
{{- define "controller.port" -}}
{{- include "controller.address" . | splitList ":" | last -}}
{{- end -}}

{{/* HTTP; HTTPS if the config names a certificate, or one is generated to encrypt the tokens of metrics readers. */}}
{{- define "controller.scheme" -}}
{{- if or .Values.config.tlsCertFile (include "controller.authorizesMetrics" .) }}HTTPS{{ else }}HTTP{{ end -}}
{{- end -}}

{{/* Authorization of metrics readers: from the config; by default `kubernetes` with hostNetwork, where no NetworkPolicy applies. */}}
{{- define "controller.metricsAuthorization" -}}
{{- .Values.config.metricsAuthorization | default (ternary "kubernetes" "none" .Values.hostNetwork) -}}
{{- end -}}

{{/* `true` if the API server authorizes metrics readers, else empty. */}}
{{- define "controller.authorizesMetrics" -}}
{{- if eq (include "controller.metricsAuthorization" .) "kubernetes" }}true{{ end -}}
{{- end -}}

{{/* TLS config of a monitor: from its values; by default no verification of a certificate generated at startup. */}}
{{- define "controller.tlsConfig" -}}
{{- if .tlsConfig }}
{{- toYaml .tlsConfig }}
{{- else if and (include "controller.authorizesMetrics" .root) (not .root.Values.config.tlsCertFile) }}
{{- "insecureSkipVerify: true" }}
{{- end -}}
{{- end -}}

{{/* Namespace of the Lease. */}}
{{- define "controller.leaseNamespace" -}}
{{- .Values.config.leaderElectResourceNamespace | default (include "controller.namespace" .) -}}
{{- end -}}

{{/* Host of the admin server if it is a loopback address, else empty. */}}
{{- define "controller.loopback" -}}
{{- regexFind "^(127[.][^:]*|\\[::1\\])" (include "controller.address" .) | trimPrefix "[" | trimSuffix "]" -}}
{{- end -}}

{{/* The config file. */}}
{{- define "controller.config" -}}
{{- $config := .Values.config -}}
{{- if .Values.hostNetwork -}}
{{- $authorization := include "controller.metricsAuthorization" . -}}
{{- $config = merge (dict "httpBindAddress" (include "controller.address" .) "metricsAuthorization" $authorization) $config -}}
{{- end -}}
{{- toYaml $config -}}
{{- end -}}

{{/* A probe of `path` on the admin server, with the period and timeouts of `times`. */}}
{{- define "controller.probe" -}}
httpGet:
  path: {{ .path }}
  port: http
  scheme: {{ include "controller.scheme" .root }}
  {{- with include "controller.loopback" .root }}
  host: {{ . | quote }}
  {{- end }}
{{- with .times }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* How `monitor`, the values of a ServiceMonitor or PodMonitor, scrapes the admin server. */}}
{{- define "controller.scrape" -}}
{{- with include "controller.loopback" .root }}
{{- fail (printf "serviceMonitor.enabled, podMonitor.enabled: no Prometheus reaches %s (config.httpBindAddress)" .) }}
{{- end -}}
port: http
path: /metrics
{{- with .monitor.interval }}
interval: {{ . }}
{{- end }}
{{- with .monitor.scrapeTimeout }}
scrapeTimeout: {{ . }}
{{- end }}
scheme: {{ include "controller.scheme" .root | lower }}
{{- with include "controller.tlsConfig" (dict "root" .root "tlsConfig" .monitor.tlsConfig) }}
tlsConfig:
  {{- . | nindent 2 }}
{{- end }}
{{- with .monitor.authorization }}
authorization:
  {{- toYaml . | nindent 2 }}
{{- else }}
{{- if include "controller.authorizesMetrics" .root }}
# The token of Prometheus.
bearerTokenFile: /var/run/secrets/kubernetes.io/serviceaccount/token
{{- end }}
{{- end }}
{{- with .monitor.relabelings }}
relabelings:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .monitor.metricRelabelings }}
metricRelabelings:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* Not empty if clean-up policies may delete. */}}
{{- define "controller.cleansUp.policies" -}}
{{- if or .Values.config.policies .Values.config.onlyPolicies }}true{{ end -}}
{{- end -}}

{{/* Not empty if a clean-up policy names pods. */}}
{{- define "controller.cleansUp.pods" -}}
{{- range .Values.config.policies }}{{ if has "Pod" (.kinds | default list) }}true{{ end }}{{ end -}}
{{- end -}}
