{{- define "weft.labels" -}}
app.kubernetes.io/name: weft
app.kubernetes.io/part-of: weft
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "weft.selector" -}}
app.kubernetes.io/name: weft
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{- define "weft.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end }}

{{- define "weft.pullSecrets" -}}
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- end }}

{{- /* Name that the agents ask for: the Service's, or one that stands for the given addresses. */ -}}
{{- define "weft.controlHost" -}}
{{- if .Values.control.addresses -}}
weft-control
{{- else -}}
weft-control.{{ .Release.Namespace }}.svc
{{- end -}}
{{- end }}

{{- /* What the control plane reads and writes of kinds that have a namespace. */ -}}
{{- define "weft.namespacedRules" }}
  - apiGroups: [""]
    resources: [pods, services]
    verbs: [get, list, watch]
  - apiGroups: [discovery.k8s.io]
    resources: [endpointslices]
    verbs: [get, list, watch]
  - apiGroups: [networking.k8s.io]
    resources: [networkpolicies]
    verbs: [get, list, watch]
  - apiGroups: [gateway.networking.k8s.io]
    resources: [httproutes, grpcroutes]
    verbs: [get, list, watch]
  - apiGroups: [gateway.networking.k8s.io]
    resources: [httproutes/status, grpcroutes/status]
    verbs: [patch]
  - apiGroups: [security.istio.io]
    resources: [authorizationpolicies, peerauthentications]
    verbs: [get, list, watch]
  - apiGroups: [weft.io]
    resources: [trafficpolicies]
    verbs: [get, list, watch]
  - apiGroups: [weft.io]
    resources: [trafficpolicies/status]
    verbs: [patch]
  - apiGroups: [events.k8s.io]
    resources: [events]
    verbs: [create]
{{- end }}
