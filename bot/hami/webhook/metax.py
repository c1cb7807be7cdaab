"""MetaX' shared GPUs: an app class, and a policy that says how the GPU's cores are shared.

Source: HAMi v2.10, pkg/device/metax/sdevice.go MutateAdmission.
"""

from bot.hami.pods.pod_request import Resources
from bot.hami.webhook.container import AnnotatedContainer, Answer, Denied, Mutation

CLASS_KEY, CLASSES = "metax-tech.com/sgpu-app-class", ("online", "offline")
POLICY_KEY, POLICIES = "metax-tech.com/sgpu-qos-policy", ("best-effort", "fixed-share", "burst-share")


def admit(shown: AnnotatedContainer, resources: Resources) -> Answer:
    """A container that names the count of shared GPUs in its limits."""
    count = shown.limit(resources.count)
    if count is None:
        return None
    app_class = shown.annotations.get(CLASS_KEY)
    if app_class is not None:
        if app_class not in CLASSES:
            return Denied(f"{CLASS_KEY} must be set one of [{', '.join(CLASSES)}]")
        if count != 1:
            return Denied("app-class pod must request single device")
    if app_class == CLASSES[0]:
        return Mutation()
    policy = shown.annotations.get(POLICY_KEY)
    if policy is None:
        return Mutation(annotations={POLICY_KEY: POLICIES[0]})
    return Mutation() if policy in POLICIES else Denied(f"{POLICY_KEY} must be set one of [{', '.join(POLICIES)}]")
