{{/* What Helm prints at the end: each chart's NOTES.txt is this. */}}
{{- define "controller.notes" -}}
{{ .Chart.Name }} {{ .Chart.AppVersion }} runs in namespace {{ include "controller.namespace" . }} as {{ include "controller.fullname" . }}.
{{ if dig "dryRun" false .Values.config }}
It decides and reports, and writes nothing (config.dryRun). What it would have written:

  kubectl -n {{ include "controller.namespace" . }} logs -l app.kubernetes.io/instance={{ .Release.Name }},app.kubernetes.io/name={{ .Chart.Name }} --tail=-1 | grep 'dry run'

A dry run that stays on once the built-in loop is off leaves its work undone. controller_planned_writes_undone tells, and
the alert PlannedWritesUndone (prometheusRule.enabled).

Content with it? Switch the built-in loop off as below, then let this one write:

  helm upgrade {{ .Release.Name }} CHART -n {{ .Release.Namespace }} --reset-then-reuse-values --set config.dryRun=false
{{ else }}
It writes. To compare it with the built-in loop first, let it run beside it without a write:

  helm upgrade {{ .Release.Name }} CHART -n {{ .Release.Namespace }} --reset-then-reuse-values --set config.dryRun=true
{{ end }}
The built-in loop must be off, or the two work against each other. Append -{{ .Chart.Name }} to --controllers of every
kube-controller-manager, and keep what stands there. With kubeadm, on each control plane node:

  sed -i '/,-{{ .Chart.Name }}/!s/--controllers=[^" ]*/&,-{{ .Chart.Name }}/' /etc/kubernetes/manifests/kube-controller-manager.yaml
  grep -e '--controllers=.*,-{{ .Chart.Name }}' /etc/kubernetes/manifests/kube-controller-manager.yaml

k3s, others, and how to go back: {{ with .Chart.Sources }}{{ first . }}/blob/{{ $.Chart.Name }}-v{{ $.Chart.Version }}/{{ end }}docs/operations.md

Its metrics, and what is ready:

  kubectl -n {{ include "controller.namespace" . }} port-forward deployment/{{ include "controller.fullname" . }} 8080:{{ include "controller.port" . }}
  {{- if include "controller.authorizesMetrics" . }}
  TOKEN=$(kubectl create token ACCOUNT)   # of an account that is bound to the ClusterRole {{ include "controller.fullname" . }}-metrics-reader
  {{- end }}
  curl {{ with include "controller.authorizesMetrics" . }}-H "Authorization: Bearer $TOKEN" {{ end }}{{ if eq (include "controller.scheme" .) "HTTPS" }}-k https{{ else }}http{{ end }}://localhost:8080/metrics
  curl {{ if eq (include "controller.scheme" .) "HTTPS" }}-k 'https{{ else }}'http{{ end }}://localhost:8080/readyz?verbose'
{{- end -}}
