{{/*
What `global` says in the place of the chart's own values, for all charts of a release; a key that is empty there says
nothing. Every template with one of these values begins with it.
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

{{/* Name of every object of this release, unique in the cluster: the release's, and the chart's where that does not hold it. */}}
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
Name of the ServiceAccount. Never the controller's own: to a ServiceAccount of that name in kube-system the API server
gives the permissions of the built-in loop, and kube-controller-manager makes one.
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

{{/* The image without tag; the first part of its name is a registry if a container runtime takes it for one. */}}
{{- define "controller.repository" -}}
{{- if .Values.global.imageRegistry -}}
{{- .Values.global.imageRegistry }}/{{ regexReplaceAll "^([^/]*[.:][^/]*|localhost)/" .Values.image.repository "" -}}
{{- else -}}
{{- .Values.image.repository -}}
{{- end -}}
{{- end -}}

{{/* The image: as the values name it, else that of the version, whose digest a released Chart.yaml has. */}}
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

{{/* What `controlPlane` adds, unless it is none. The role is a label without value or, in k3s, `true`. */}}
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
  # The network is there only once its plugin is, which the pods of hostNetwork need not wait for.
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

{{/* Its port. */}}
{{- define "controller.port" -}}
{{- include "controller.address" . | splitList ":" | last -}}
{{- end -}}

{{/* HTTP, or HTTPS where the config names a certificate, or has one made to hide the tokens of who reads the metrics. */}}
{{- define "controller.scheme" -}}
{{- if or .Values.config.tlsCertFile (include "controller.authorizesMetrics" .) }}HTTPS{{ else }}HTTP{{ end -}}
{{- end -}}

{{/* Who may read the metrics, unless the config says it: on the network of a node no NetworkPolicy does. */}}
{{- define "controller.metricsAuthorization" -}}
{{- .Values.config.metricsAuthorization | default (ternary "kubernetes" "none" .Values.hostNetwork) -}}
{{- end -}}

{{/* Whether the API server is asked who may read the metrics; empty where it is not. */}}
{{- define "controller.authorizesMetrics" -}}
{{- if eq (include "controller.metricsAuthorization" .) "kubernetes" }}true{{ end -}}
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
{{- .Values.config.leaderElectResourceNamespace | default (include "controller.namespace" .) -}}
{{- end -}}

{{/* Its host, if only the node itself reaches it. */}}
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

{{/* A probe of the kubelet, which asks `path` of the admin server, as often as `times` says. */}}
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
