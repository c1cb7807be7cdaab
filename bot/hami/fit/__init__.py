"""HAMi's fit: whether a pod gets GPUs on a node, and what would have to change.

`filter` is the frame, `verdicts` has what all vendors share. Each vendor's own checks decide whether a GPU has the
memory (`bot.hami.vendors.nvidia` and `bot.hami.vendors.standard_fit`); `bot.hami.pods.pod_request` says how much memory
a request needs on a GPU.
"""
