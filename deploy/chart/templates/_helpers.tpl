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

{{- /* What agents and their cleanup may do. */ -}}
{{- define "weft.agentRights" -}}
privileged: false
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
runAsUser: 0
capabilities:
  drop: [ALL]
  # BPF, PERFMON: programs, maps, iterators. NET_ADMIN: attaching, destroying sockets, Envoy's transparent
  # sockets. SYS_ADMIN, SYS_PTRACE: entering the network namespaces of pods to close connections there.
  # SYS_NICE: Envoy's nice value.
  add: [BPF, PERFMON, NET_ADMIN, SYS_ADMIN, SYS_PTRACE, SYS_NICE]
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- define "weft.agentMounts" -}}
- name: bpffs
  mountPath: /host/bpf
  mountPropagation: HostToContainer
- name: cgroup
  mountPath: /host/cgroup
- name: run
  mountPath: /run/weft
- name: tmp
  mountPath: /tmp
{{- end }}

{{- define "weft.agentVolumes" -}}
- name: bpffs
  hostPath:
    path: {{ .Values.agent.bpffs }}
    type: Directory
- name: cgroup
  hostPath:
    path: {{ .Values.agent.cgroup }}
    type: Directory
- name: run
  hostPath:
    path: {{ .Values.agent.runDir }}
    type: DirectoryOrCreate
- name: tmp
  emptyDir: {}
{{- end }}

{{- /* Takes everything out of a node's kernel, and ends. Fails, and so is tried again, while an agent still runs there. */ -}}
{{- define "weft.cleanup" -}}
- name: cleanup
  image: {{ include "weft.image" . }}
  imagePullPolicy: {{ .Values.image.pullPolicy }}
  args: [cleanup, --bpffs=/host/bpf/weft, --cgroup=/host/cgroup, --run-dir=/run/weft]
  resources:
    {{- toYaml .Values.agent.resources | nindent 4 }}
  securityContext:
    {{- include "weft.agentRights" . | nindent 4 }}
  volumeMounts:
    {{- include "weft.agentMounts" . | nindent 4 }}
{{- end }}

{{- /* Nodes by the value of their label weft.io/mesh. */ -}}
{{- define "weft.nodeLabel" -}}
nodeAffinity:
  requiredDuringSchedulingIgnoredDuringExecution:
    nodeSelectorTerms:
      - matchExpressions:
          - {key: weft.io/mesh, operator: {{ .operator }}, values: [{{ .value }}]}
{{- end }}
