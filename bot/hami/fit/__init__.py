"""HAMi's fit: whether a pod gets GPUs on a node, and what would have to change.

`filter` is the frame, `verdicts` what all vendors share. Whether a GPU has the memory is asked by each vendor's own
checks, `bot.hami.vendors.nvidia` and `bot.hami.vendors.standard_fit`; how much memory a request needs on a
GPU, by `bot.hami.pods.pod_request`.
"""
