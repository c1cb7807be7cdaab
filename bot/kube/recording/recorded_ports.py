"""What a recording holds of its pods' ports, as the pods would serve it.

Profiles are `pprof/<namespace>/<pod>/<profile>.pb.gz`, metrics `metrics/<namespace>/<pod>/<port>.prom`.
"""

from bot.errors import SourceError
from bot.kube.client.pod_http_request import PodAnswer, PodGet
from bot.kube.recording.files import NotRecordedError
from bot.kube.recording.recorded_cluster import RecordedCluster
from bot.texts import Text

_PPROF = "debug/pprof/"
_METRICS = "metrics"


class RecordedPorts:
    """See `bot.kube.client.pod_http_request.PodPorts`. What was recorded is served at once, whatever the query says."""

    def __init__(self, cluster: RecordedCluster) -> None:
        self._cluster = cluster

    async def pod_get(self, wanted: PodGet) -> PodAnswer:
        """See `bot.kube.client.pod_http_request.PodPorts`."""
        name = _file_name(wanted)
        if name not in self._cluster.files(f"{name.rpartition('/')[0]}/"):
            raise NotRecordedError(
                Text("error-recording.not-in-recording", name=name),
                hint=Text("error-recording.add-what-pod-answered-byte"),
            )
        body = self._cluster.read(name)
        return PodAnswer(200, {}, body[: wanted.limit_bytes], cut=len(body) > wanted.limit_bytes)


def _file_name(wanted: PodGet) -> str:
    profile = wanted.path.removeprefix(_PPROF)
    for part in (wanted.namespace, wanted.pod, profile):
        if part in ("", ".", "..") or any(character in part for character in "/\\\0"):
            raise SourceError(Text("error-recording.no-name-of-profile", part=repr(part)))
    if wanted.path == _METRICS:
        return f"metrics/{wanted.namespace}/{wanted.pod}/{wanted.port}.prom"
    return f"pprof/{wanted.namespace}/{wanted.pod}/{profile}.pb.gz"
