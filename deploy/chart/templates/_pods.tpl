{{- define "mooring.image" -}}
{{ .Values.image.repository }}{{ if .Values.image.digest }}@{{ .Values.image.digest }}{{ else }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{ end }}
{{- end }}

{{- /* What all pods have: no rights on their node, and what the values say of every pod. */}}
{{- define "mooring.pod" -}}
serviceAccountName: {{ .name }}
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  seccompProfile: {type: RuntimeDefault}
{{- with .root.Values.image.pullSecrets }}
imagePullSecrets: {{ toJson . }}
{{- end }}
{{- with .root.Values.nodeSelector }}
nodeSelector: {{ toJson . }}
{{- end }}
{{- with .root.Values.tolerations }}
tolerations: {{ toJson . }}
{{- end }}
{{- with .root.Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- end }}

{{- /* What all containers have. Only /tmp can be written to. */}}
{{- define "mooring.container" -}}
image: {{ include "mooring.image" .root }}
imagePullPolicy: {{ .root.Values.image.pullPolicy }}
resources: {{ toJson .resources }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
volumeMounts:
- {name: tmp, mountPath: /tmp}
{{- end }}

{{- define "mooring.volumes" -}}
- name: tmp
  emptyDir: {medium: Memory, sizeLimit: 16Mi}
{{- end }}

{{- /* Probes of the port `metrics`. */}}
{{- define "mooring.probes" -}}
startupProbe: # a busy node may take a minute to start it
  httpGet: {path: /healthz, port: metrics}
  periodSeconds: 2
  failureThreshold: 60
livenessProbe:
  httpGet: {path: /healthz, port: metrics}
  periodSeconds: 10
readinessProbe:
  httpGet: {path: /readyz, port: metrics}
  periodSeconds: 5
{{- end }}

{{- /* Replicas on different nodes, where there are several nodes. */}}
{{- define "mooring.spread" -}}
topologySpreadConstraints:
- maxSkew: 1
  topologyKey: kubernetes.io/hostname
  whenUnsatisfiable: ScheduleAnyway
  labelSelector:
    matchLabels: {app.kubernetes.io/name: {{ . }}}
{{- end }}

{{- /* The account of a part, and the roles it has. */}}
{{- define "mooring.account" -}}
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ .name }}
  namespace: {{ .root.Release.Namespace }}
{{- range $suffix, $role := .roles }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: {{ $.name }}{{ $suffix }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: {{ $role }}
subjects:
- kind: ServiceAccount
  name: {{ $.name }}
  namespace: {{ $.root.Release.Namespace }}
{{- end }}
{{- end }}

{{- /* The binding of a Role of the same name. */}}
{{- define "mooring.roleBinding" -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: {{ .name }}
  namespace: {{ .root.Release.Namespace }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: {{ .name }}
subjects:
- kind: ServiceAccount
  name: {{ .name }}
  namespace: {{ .root.Release.Namespace }}
{{- end }}

{{- define "mooring.budget" -}}
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ .name }}
  namespace: {{ .root.Release.Namespace }}
spec:
  minAvailable: 1
  selector:
    matchLabels: {app.kubernetes.io/name: {{ .name }}}
{{- end }}
