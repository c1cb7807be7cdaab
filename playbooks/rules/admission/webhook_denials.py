"""What to do about a refusal of HAMi's webhook, or of the API after it, by the words of the refusal.

Source: HAMi v2.7 to v2.10, pkg/scheduler/webhook.go and pkg/device/*/ MutateAdmission.
"""

from bot.texts import Text

BY_QUOTA = Text("admission-denied.quota")
_REMEDIES = {
    "pod has node assigned": Text("admission-denied.node"),
    "exceeding resource quota": BY_QUOTA,
    "is privileged": Text("admission-denied.privileged"),
    "supported for multiple devices": Text("admission-denied.part-of-several"),
    "must be 1 or 2*n": Text("admission-denied.modules"),
    "soft split": Text("admission-denied.soft-split"),
    "-memory ": Text("admission-denied.too-much"),
    "request value is invalid": Text("admission-denied.sizes"),
    "must be set one of": Text("admission-denied.one-of"),
    "must request single device": Text("admission-denied.single"),
    "must be greater than 0": Text("admission-denied.positive"),
    "must be in range (0,100]": Text("admission-denied.percentage"),
    "percentage between 1 and 100": Text("admission-denied.percentage"),
    "between 0 and 100": Text("admission-denied.percentage"),
    "or a multiple of": Text("admission-denied.multiple"),
    "must be equal to": Text("admission-denied.own-amount"),
    "must be an integer": Text("admission-denied.whole"),
    "Limit must be set": Text("admission-denied.limit"),
}


def remedy(words: str) -> Text | None:
    """What to do; None where the words are not known."""
    return next((text for part, text in _REMEDIES.items() if part in words), None)
