{{/* The NOTES.txt of each chart, which Helm prints at the end. */}}
{{- define "controller.notes" -}}
{{ .Chart.Name }} {{ .Chart.AppVersion }} runs in namespace {{ include "controller.namespace" . }} as {{ include "controller.fullname" . }}.
{{ if .Values.config.observe }}
It observes: it counts what blocks drains, and has no right to write (config.observe). The cluster's own disruption
controller must run, as it does unless somebody has switched it off.
{{ else if .Values.config.onlyPolicies }}
It deletes by policies alone (config.onlyPolicies), next to the cluster's own loop, which keeps the Jobs with a TTL.
{{ else if .Values.config.dryRun }}
It decides and reports, and writes nothing (config.dryRun). What it would have written:

  kubectl -n {{ include "controller.namespace" . }} logs -l app.kubernetes.io/instance={{ .Release.Name }},app.kubernetes.io/name={{ .Chart.Name }} --tail=-1 | grep 'dry run'

If the dry run stays on after the built-in loop is off, nobody does the work. The metric controller_planned_writes_undone
and the alert PlannedWritesUndone (prometheusRule.enabled) show this.

If the decisions are right, switch the built-in loop off as below, then let this controller write:

  helm upgrade {{ .Release.Name }} CHART -n {{ .Release.Namespace }} --reset-then-reuse-values --set config.dryRun=false
{{ else }}
It writes. To compare it with the built-in loop first, run it next to that loop without writes:

  helm upgrade {{ .Release.Name }} CHART -n {{ .Release.Namespace }} --reset-then-reuse-values --set config.dryRun=true
{{ end }}
{{- if not (or .Values.config.observe .Values.config.onlyPolicies) }}
The built-in loop must be off, or the two work against each other. Append -{{ .Chart.Name }} to --controllers of every
kube-controller-manager, and keep its other entries. With kubeadm, on each control plane node:

  sed -i '/,-{{ .Chart.Name }}/!s/--controllers=[^" ]*/&,-{{ .Chart.Name }}/' /etc/kubernetes/manifests/kube-controller-manager.yaml
  grep -e '--controllers=.*,-{{ .Chart.Name }}' /etc/kubernetes/manifests/kube-controller-manager.yaml

For k3s, other distributions and the way back, see {{ with .Chart.Sources }}{{ first . }}/blob/{{ $.Chart.Name }}-v{{ $.Chart.Version }}/{{ end }}docs/operations.md
{{- end }}

To read its metrics and readiness:

  kubectl -n {{ include "controller.namespace" . }} port-forward deployment/{{ include "controller.fullname" . }} 8080:{{ include "controller.port" . }}
  {{- if include "controller.authorizesMetrics" . }}
  TOKEN=$(kubectl create token ACCOUNT)   # of an account bound to the ClusterRole {{ include "controller.fullname" . }}-metrics-reader
  {{- end }}
  curl {{ with include "controller.authorizesMetrics" . }}-H "Authorization: Bearer $TOKEN" {{ end }}{{ if eq (include "controller.scheme" .) "HTTPS" }}-k https{{ else }}http{{ end }}://localhost:8080/metrics
  curl {{ if eq (include "controller.scheme" .) "HTTPS" }}-k 'https{{ else }}'http{{ end }}://localhost:8080/readyz?verbose'
{{- end -}}
