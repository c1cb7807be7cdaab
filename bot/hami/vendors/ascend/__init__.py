"""Huawei's Ascend NPUs: one device for each chip that the device config names."""

from bot.hami.vendors.ascend import chips, fit, requests
from bot.hami.vendors.ascend.names import NAMES, SOFT_NODE_KEY
from bot.hami.vendors.shared.annotated_nodes import Annotated
from bot.hami.vendors.vendor import Vendor

_NODES = Annotated(NAMES)

ASCEND = Vendor(
    names=NAMES,
    read_resources=chips.read_resources,
    request=requests.container_request,
    askable=requests.askable,
    nodes=_NODES,
    scan=fit.scan,
    orders=True,  # modules are told by the index
    flag="enable-ascend",
    plugin_labels="app.kubernetes.io/component in (hami-ascend-device-plugin, hami-ascend)",
    plugin_names="ascend-(k8s-)?device-plugin",
    node_label=("ascend", "on"),
    node_keys=(SOFT_NODE_KEY,),
    node_facts=fit.soft_node,
    hinted=chips.hinted,
)
