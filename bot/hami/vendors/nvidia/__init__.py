"""NVIDIA's GPUs, as HAMi hands them out."""

from bot.hami.vendors.nvidia import fit, labels, registration, requests
from bot.hami.vendors.nvidia.names import NAMES
from bot.hami.vendors.vendor import Vendor

NVIDIA = Vendor(
    names=NAMES,
    plugin_labels="app.kubernetes.io/component=hami-device-plugin",
    node_label=("gpu", "on"),
    gpu_label=labels.gpu_label,
    node_keys=(registration.SCORE_KEY,),
    read_resources=requests.read_resources,
    request=requests.container_request,
    nodes=registration,
    node_facts=registration.link_scores,
    may_split=fit.may_split,
    scan=fit.scan,
    slices=fit.slices,
    obeys_quota=True,
)
