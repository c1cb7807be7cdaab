"""What to do about a refusal of HAMi's webhook, or of the API after it, by the words of the refusal.

Source: HAMi v2.7 to v2.10, pkg/scheduler/webhook.go and pkg/device/*/ MutateAdmission.
"""

_REMEDIES = {
    "pod has node assigned": "node",
    "exceeding resource quota": "quota",
    "is privileged": "privileged",
    "supported for multiple devices": "part-of-several",
    "must be 1 or 2*n": "modules",
    "soft split": "soft-split",
    "-memory ": "too-much",
    "request value is invalid": "sizes",
    "must be set one of": "one-of",
    "must request single device": "single",
    "must be greater than 0": "positive",
    "must be in range (0,100]": "percentage",
    "percentage between 1 and 100": "percentage",
    "between 0 and 100": "percentage",
    "or a multiple of": "multiple",
    "must be equal to": "own-amount",
    "must be an integer": "whole",
    "Limit must be set": "limit",
}


def remedy(words: str) -> str:
    """The text under `admission-denied` that says what to do; empty where the words are not known."""
    return next((key for text, key in _REMEDIES.items() if text in words), "")
