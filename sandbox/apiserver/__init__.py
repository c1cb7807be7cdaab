"""A Kubernetes-API-compatible server on loopback, with the errors of a real one and faults on demand."""

from sandbox.apiserver.access import Rule
from sandbox.apiserver.controllers import Timing
from sandbox.apiserver.faults import Fault
from sandbox.apiserver.server import ApiServer, Request

__all__ = ["ApiServer", "Fault", "Request", "Rule", "Timing"]
