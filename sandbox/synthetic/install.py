"""One HAMi 2.10 installation, as its chart's default values leave it in namespace hami-system."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from sandbox.synthetic.nodes import GpuNode
from sandbox.synthetic.objects import Mint, Object, managed, owner

NAMESPACE = "hami-system"

_VERSION = "2.10.0"
_IMAGE = f"docker.io/projecthami/hami:v{_VERSION}"
_TEMPLATE_HASH = "7c9d8f6b54"
_SCHEDULER = "hami-scheduler"
_PLUGIN = "hami-device-plugin"

_SCHEDULER_COMMAND = [
    "scheduler",
    "--http_bind=0.0.0.0:443",
    "--cert_file=/tls/tls.crt",
    "--key_file=/tls/tls.key",
    "--scheduler-name=hami-scheduler",
    "--metrics-bind-address=:9395",
    "--node-scheduler-policy=binpack",
    "--gpu-scheduler-policy=spread",
    "--force-overwrite-default-scheduler=true",
    "--device-config-file=/device-config.yaml",
    "--leader-elect=true",
    "--leader-elect-resource-name=hami-scheduler",
    "--leader-elect-resource-namespace=hami-system",
    "--debug",
    "-v=4",
]
_DEVICE_CONFIG = """\
nvidia:
  resourceCountName: nvidia.com/gpu
  resourceMemoryName: nvidia.com/gpumem
  resourceMemoryPercentageName: nvidia.com/gpumem-percentage
  resourceCoreName: nvidia.com/gpucores
  defaultMemory: 0
  defaultCores: 0
  defaultGPUNum: 1
  memoryFactor: 1
  deviceSplitCount: 10
  deviceMemoryScaling: 1
  deviceCoreScaling: 1
"""
_SCHEDULER_CONFIG = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: true, resourceName: hami-scheduler, resourceNamespace: hami-system}
profiles: [{schedulerName: hami-scheduler}]
extenders:
  - urlPrefix: https://127.0.0.1:443
    filterVerb: filter
    bindVerb: bind
    nodeCacheCapable: true
    httpTimeout: 30s
    managedResources:
      - {name: nvidia.com/gpu, ignoredByScheduler: true}
      - {name: nvidia.com/gpumem, ignoredByScheduler: true}
      - {name: nvidia.com/gpucores, ignoredByScheduler: true}
      - {name: nvidia.com/gpumem-percentage, ignoredByScheduler: true}
"""


def hami_install(mint: Mint, nodes: Sequence[GpuNode]) -> dict[str, list[Object]]:
    """The installation's objects: the scheduler runs on the first node, a device plugin on each."""
    deployment = _deployment(mint)
    replica_set = _replica_set(mint, deployment)
    scheduler = _scheduler_pod(mint, replica_set, nodes[0])
    daemon_set = _daemon_set(mint, len(nodes))
    return {
        "deployments.apps": [deployment],
        "replicasets.apps": [replica_set],
        "daemonsets.apps": [daemon_set],
        "pods": [scheduler, *_plugin_pods(mint, daemon_set, nodes)],
        "leases.coordination.k8s.io": [_lease(mint, scheduler)],
        "configmaps": [
            _config_map(mint, "hami-scheduler-device", "device-config.yaml", _DEVICE_CONFIG),
            _config_map(mint, "hami-scheduler", "config.yaml", _SCHEDULER_CONFIG),
            _config_map(mint, "hami-device-plugin", "config.json", '{"nodeconfig": []}\n'),
        ],
        "services": [_service(mint)],
        "endpointslices.discovery.k8s.io": [_endpoint_slice(mint, scheduler)],
        "mutatingwebhookconfigurations.admissionregistration.k8s.io": [_webhook(mint)],
    }


def _selector(component: str) -> dict[str, str]:
    return {
        "app.kubernetes.io/component": component,
        "app.kubernetes.io/instance": "hami",
        "app.kubernetes.io/name": "hami",
    }


def _labels(component: str) -> dict[str, str]:
    chart = {"app.kubernetes.io/managed-by": "Helm", "app.kubernetes.io/version": _VERSION}
    return _selector(component) | chart | {"helm.sh/chart": f"hami-{_VERSION}"}


def _pod_labels(component: str) -> dict[str, str]:
    return _selector(component) | {"hami.io/webhook": "ignore"}


def _container(name: str, image: str, command: Sequence[str], **more: Any) -> Object:
    container = {"name": name, "image": image, "imagePullPolicy": "IfNotPresent", "command": [*command]}
    end = {"terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"}
    return container | {"resources": {}} | more | end


def _pod_spec(account: str, containers: Sequence[Object]) -> Object:
    return {
        "containers": [*containers],
        "dnsPolicy": "ClusterFirst",
        "priorityClassName": "system-node-critical",
        "restartPolicy": "Always",
        "schedulerName": "default-scheduler",
        "securityContext": {},
        "serviceAccount": account,
        "serviceAccountName": account,
        "terminationGracePeriodSeconds": 30,
    }


def _deployment(mint: Mint) -> Object:
    created = mint.ago(days=60)
    probe = {"httpGet": {"path": "/readyz", "port": "https", "scheme": "HTTPS"}, "periodSeconds": 10}
    ports = [
        {"name": "https", "containerPort": 443, "protocol": "TCP"},
        {"name": "metrics", "containerPort": 9395, "protocol": "TCP"},
    ]
    kube_scheduler = ["kube-scheduler", "--config=/config/config.yaml", "-v=4"]
    containers = [
        _container("kube-scheduler", "registry.k8s.io/kube-scheduler:v1.34.1", kube_scheduler),
        _container("vgpu-scheduler-extender", _IMAGE, _SCHEDULER_COMMAND, ports=ports, readinessProbe=probe),
    ]
    template = {"metadata": {"labels": _pod_labels(_SCHEDULER)}, "spec": _pod_spec(_SCHEDULER, containers)}
    conditions = [
        {"type": "Available", "status": "True", "reason": "MinimumReplicasAvailable", "lastTransitionTime": created},
        {"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable", "lastTransitionTime": created},
    ]
    revision = {"deployment.kubernetes.io/revision": "1"}
    return {
        "kind": "Deployment",
        "apiVersion": "apps/v1",
        "metadata": mint.metadata(
            _SCHEDULER,
            created,
            namespace=NAMESPACE,
            generation=1,
            labels=_labels(_SCHEDULER),
            annotations=revision,
        ),
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": _selector(_SCHEDULER)},
            "template": template,
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"}},
            "revisionHistoryLimit": 10,
            "progressDeadlineSeconds": 600,
        },
        "status": _replicas() | {"conditions": conditions},
    }


def _replicas() -> Object:
    counts = ("replicas", "readyReplicas", "availableReplicas", "updatedReplicas")
    return {"observedGeneration": 1} | dict.fromkeys(counts, 1)


def _replica_set(mint: Mint, deployment: Object) -> Object:
    template = _copy(deployment["spec"]["template"])
    labels = template["metadata"]["labels"] = template["metadata"]["labels"] | {"pod-template-hash": _TEMPLATE_HASH}
    status = _replicas()
    del status["updatedReplicas"]
    return {
        "kind": "ReplicaSet",
        "apiVersion": "apps/v1",
        "metadata": mint.metadata(
            f"{_SCHEDULER}-{_TEMPLATE_HASH}",
            deployment["metadata"]["creationTimestamp"],
            namespace=NAMESPACE,
            generation=1,
            labels=dict(labels),
            annotations=dict(deployment["metadata"]["annotations"]),
            ownerReferences=owner(deployment),
        ),
        "spec": {"replicas": 1, "selector": {"matchLabels": dict(labels)}, "template": template},
        "status": status,
    }


def _scheduler_pod(mint: Mint, replica_set: Object, node: GpuNode) -> Object:
    labels = replica_set["metadata"]["labels"] | {"hami.io/scheduler-role": "leader"}
    return _running_pod(mint, replica_set, "x7k2p", labels, node)


def _plugin_pods(mint: Mint, daemon_set: Object, nodes: Sequence[GpuNode]) -> list[Object]:
    """A running device plugin for each of the nodes."""
    labels = _pod_labels(_PLUGIN) | {"controller-revision-hash": "5d9c8b7f6", "pod-template-generation": "1"}
    return [_running_pod(mint, daemon_set, f"{index:05x}", labels, node) for index, node in enumerate(nodes)]


def _running_pod(mint: Mint, workload: Object, suffix: str, labels: Mapping[str, str], node: GpuNode) -> Object:
    """A ready pod of the workload on the node."""
    started, address = mint.ago(days=30), mint.pod_address()
    prefix = workload["metadata"]["name"] + "-"
    spec = _copy(workload["spec"]["template"]["spec"]) | {"nodeName": node.name}
    kinds = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
    status = {
        "phase": "Running",
        "conditions": [{"type": kind, "status": "True", "lastTransitionTime": started} for kind in kinds],
        "containerStatuses": [
            {
                "name": container["name"],
                "image": container["image"],
                "imageID": "",
                "ready": True,
                "started": True,
                "restartCount": 0,
                "lastState": {},
                "state": {"running": {"startedAt": started}},
            }
            for container in spec["containers"]
        ],
        "hostIP": node.address,
        "podIP": address,
        "podIPs": [{"ip": address}],
        "qosClass": "BestEffort",
        "startTime": started,
    }
    metadata = mint.metadata(
        prefix + suffix,
        started,
        namespace=NAMESPACE,
        generateName=prefix,
        labels=dict(labels),
        ownerReferences=owner(workload),
        managedFields=[managed("kubelet", started, {"status": status}, subresource="status")],
    )
    return {"kind": "Pod", "apiVersion": "v1", "metadata": metadata, "spec": spec, "status": status}


def _daemon_set(mint: Mint, nodes: int) -> Object:
    privileged = {"privileged": True, "allowPrivilegeEscalation": True}
    ports = [{"name": "metrics", "containerPort": 9394, "protocol": "TCP"}]
    plugin = ["nvidia-device-plugin", "--config-file=/device-config.yaml", "--mig-strategy=none", "-v=4"]
    containers = [
        _container("device-plugin", _IMAGE, plugin, securityContext=privileged),
        _container("vgpu-monitor", _IMAGE, ["vGPUmonitor", "-v=4"], ports=ports),
    ]
    spec = _pod_spec(_PLUGIN, containers) | {"hostPID": True, "nodeSelector": {"gpu": "on"}}
    counts = ("currentNumberScheduled", "desiredNumberScheduled", "numberAvailable", "numberReady")
    status = dict.fromkeys((*counts, "updatedNumberScheduled"), nodes)
    return {
        "kind": "DaemonSet",
        "apiVersion": "apps/v1",
        "metadata": mint.metadata(
            _PLUGIN, mint.ago(days=60), namespace=NAMESPACE, generation=1, labels=_labels(_PLUGIN)
        ),
        "spec": {
            "selector": {"matchLabels": _selector(_PLUGIN)},
            "template": {"metadata": {"labels": _pod_labels(_PLUGIN)}, "spec": spec},
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}},
            "revisionHistoryLimit": 10,
        },
        "status": status | {"numberMisscheduled": 0, "observedGeneration": 1},
    }


def _lease(mint: Mint, scheduler: Object) -> Object:
    spec = {
        "holderIdentity": f"{scheduler['metadata']['name']}_{mint.uid()}",
        "leaseDurationSeconds": 3600,  # the chart's are 15, but nobody renews this one
        "acquireTime": mint.now.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        "renewTime": mint.now.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        "leaseTransitions": 1,
    }
    metadata = mint.metadata(_SCHEDULER, mint.ago(days=60), namespace=NAMESPACE)
    return {"kind": "Lease", "apiVersion": "coordination.k8s.io/v1", "metadata": metadata, "spec": spec}


def _config_map(mint: Mint, name: str, key: str, text: str) -> Object:
    component = _PLUGIN if name == _PLUGIN else _SCHEDULER
    metadata = mint.metadata(name, mint.ago(days=60), namespace=NAMESPACE, labels=_labels(component))
    return {"kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata, "data": {key: text}}


def _service(mint: Mint) -> Object:
    address = mint.pod_address()
    spec = {
        "type": "NodePort",
        "clusterIP": address,
        "clusterIPs": [address],
        "ports": [
            {"name": "http", "port": 443, "protocol": "TCP", "targetPort": 443, "nodePort": 31998},
            {"name": "monitor", "port": 31993, "protocol": "TCP", "targetPort": 9395, "nodePort": 31993},
        ],
        "selector": _selector(_SCHEDULER) | {"hami.io/scheduler-role": "leader"},
    }
    metadata = mint.metadata(_SCHEDULER, mint.ago(days=60), namespace=NAMESPACE, labels=_labels(_SCHEDULER))
    return {"kind": "Service", "apiVersion": "v1", "metadata": metadata, "spec": spec, "status": {"loadBalancer": {}}}


def _endpoint_slice(mint: Mint, scheduler: Object) -> Object:
    metadata = mint.metadata(
        f"{_SCHEDULER}-n8w4t",
        mint.ago(days=60),
        namespace=NAMESPACE,
        labels=_labels(_SCHEDULER) | {"kubernetes.io/service-name": _SCHEDULER},
    )
    pod = scheduler["metadata"]
    endpoint = {
        "addresses": [scheduler["status"]["podIP"]],
        "conditions": {"ready": True, "serving": True, "terminating": False},
        "nodeName": scheduler["spec"]["nodeName"],
        "targetRef": {"kind": "Pod", "namespace": NAMESPACE, "name": pod["name"], "uid": pod["uid"]},
    }
    return {
        "kind": "EndpointSlice",
        "apiVersion": "discovery.k8s.io/v1",
        "metadata": metadata,
        "addressType": "IPv4",
        "endpoints": [endpoint],
        "ports": [
            {"name": "http", "port": 443, "protocol": "TCP"},
            {"name": "monitor", "port": 9395, "protocol": "TCP"},
        ],
    }


def _webhook(mint: Mint) -> Object:
    ignored = {"matchExpressions": [{"key": "hami.io/webhook", "operator": "NotIn", "values": ["ignore"]}]}
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"], "scope": "*"}
    service = {"namespace": NAMESPACE, "name": _SCHEDULER, "path": "/webhook", "port": 443}
    trusted = "c3ludGhldGljCg=="  # no certificate: nobody verifies anything by it
    webhook = {
        "name": "vgpu.hami.io",
        "admissionReviewVersions": ["v1beta1"],
        "clientConfig": {"service": service, "caBundle": trusted},
        "failurePolicy": "Ignore",
        "matchPolicy": "Equivalent",
        "namespaceSelector": ignored,
        "objectSelector": _copy(ignored),
        "reinvocationPolicy": "Never",
        "rules": [rule],
        "sideEffects": "None",
        "timeoutSeconds": 10,
    }
    return {
        "kind": "MutatingWebhookConfiguration",
        "apiVersion": "admissionregistration.k8s.io/v1",
        "metadata": mint.metadata("hami-webhook", mint.ago(days=60), generation=1),
        "webhooks": [webhook],
    }


def _copy(item: Mapping[str, Any]) -> Object:
    return msgspec.json.decode(msgspec.json.encode(item))
