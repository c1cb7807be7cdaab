"""A Kubernetes-API-compatible server on loopback: reading, with the errors of a real one and faults on demand."""

from sandbox.apiserver.faults import Fault
from sandbox.apiserver.server import ApiServer, Request

__all__ = ["ApiServer", "Fault", "Request"]
