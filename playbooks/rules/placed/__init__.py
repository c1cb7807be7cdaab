"""Rules about pods that have a node: what keeps them from starting or running, and limits that do not hold."""
