"""Links lead to the line in the version that the profile names, or nowhere."""

import pytest

from bot.errors import UsageError
from bot.pprof.decode import read
from bot.pprof.listing import HAMI, SourceLinks, read_versions
from handlers.profiles.shell import answer
from tests.pprof.build import Writer, data, number
from tests.pprof.cases import PROFILES

LOAD = str(PROFILES / "hami.profile-load.pb.gz")
HAMI_VERSION = {HAMI: "v2.9.0"}


def sources(versions: dict[str, str], *files: tuple[str, str]) -> SourceLinks:
    writer = Writer()
    for identity, (name, file) in enumerate(files, 1):
        text = writer.text(name)
        writer.raw(data(5, number(1, identity) + number(2, text) + number(3, text) + number(4, writer.text(file))))
    return SourceLinks(read(writer.bytes()), versions)


@pytest.mark.parametrize(
    ("function", "file", "link"),
    [
        (
            "k8s.io/klog/v2.Infof",
            "/go/pkg/mod/k8s.io/klog/v2@v2.130.1/klog.go",
            "https://github.com/kubernetes/klog/blob/v2.130.1/klog.go#L7",
        ),
        (
            "k8s.io/client-go/rest.(*Request).Do",
            "k8s.io/client-go@v0.31.3/rest/request.go",
            "https://github.com/kubernetes/client-go/blob/v0.31.3/rest/request.go#L7",
        ),
        (
            "golang.org/x/time/rate.(*Limiter).Wait",
            "/opt/go/pkg/mod/golang.org/x/time@v0.8.0/rate/rate.go",
            "https://github.com/golang/time/blob/v0.8.0/rate/rate.go#L7",
        ),
        (
            "sigs.k8s.io/json/internal/golang/encoding/json.Unmarshal",
            "/go/pkg/mod/sigs.k8s.io/json@v0.0.0-20241010143419-9aa6b5e7a4b3/internal/golang/encoding/json/decode.go",
            "https://github.com/kubernetes-sigs/json/blob/9aa6b5e7a4b3/internal/golang/encoding/json/decode.go#L7",
        ),
        (
            "github.com/NVIDIA/go-nvml/pkg/nvml.Init",
            "/go/pkg/mod/github.com/!n!v!i!d!i!a/go-nvml@v0.12.4-1/pkg/nvml/init.go",
            "https://github.com/NVIDIA/go-nvml/blob/v0.12.4-1/pkg/nvml/init.go#L7",
        ),
        (
            "github.com/aws/sdk/service/s3/v2.F",
            "/go/pkg/mod/github.com/aws/sdk/service/s3/v2@v2.1.0/f.go",
            "https://github.com/aws/sdk/blob/service/s3/v2.1.0/service/s3/f.go#L7",
        ),
        (
            "github.com/a/b.F",
            "/go/pkg/mod/github.com/a/b@v2.0.0+incompatible/f.go",
            "https://github.com/a/b/blob/v2.0.0/f.go#L7",
        ),
        (
            "runtime.mallocgc",
            "/opt/go/pkg/mod/golang.org/toolchain@v0.0.1-go1.23.4.linux-amd64/src/runtime/malloc.go",
            "https://github.com/golang/go/blob/go1.23.4/src/runtime/malloc.go#L7",
        ),
        (
            "github.com/Project-HAMi/HAMi/pkg/scheduler.(*Scheduler).Filter",
            "/k8s-vgpu/pkg/scheduler/scheduler.go",
            "https://github.com/Project-HAMi/HAMi/blob/v2.9.0/pkg/scheduler/scheduler.go#L7",
        ),
        ("example.org/unknown.F", "/go/pkg/mod/example.org/unknown@v1.0.0/f.go", ""),
        ("runtime.mallocgc", "/usr/local/go/src/runtime/malloc.go", ""),
        ("main.main", "/somewhere/else/main.go", ""),
        ("x.y", "", ""),
    ],
)
def test_the_version_is_the_one_in_the_path_or_the_one_told(function: str, file: str, link: str) -> None:
    assert sources(HAMI_VERSION, (function, file)).link(function, file, 7) == link


def test_gos_own_functions_are_linked_to_the_version_told() -> None:
    found = sources({"go": "1.25.3"}).link("runtime.mallocgc", "/usr/local/go/src/runtime/malloc.go", 7)
    assert found == "https://github.com/golang/go/blob/go1.25.3/src/runtime/malloc.go#L7"


def test_the_programs_main_package_is_found_beside_its_others() -> None:
    other = ("github.com/Project-HAMi/HAMi/pkg/util.F", "/k8s-vgpu/pkg/util/util.go")
    found = sources(HAMI_VERSION, other).link("main.start", "/k8s-vgpu/cmd/scheduler/main.go", 7)
    assert found == "https://github.com/Project-HAMi/HAMi/blob/v2.9.0/cmd/scheduler/main.go#L7"


def test_a_list_without_the_source_has_links() -> None:
    text = answer(["list", f"-versions={HAMI}@v2.10.0", "Scheduler..Filter$", LOAD])
    assert "\n         .       20ms   1095:https://github.com/Project-HAMi/HAMi/blob/v2.10.0/pkg/" in text


def test_a_version_that_makes_no_sense_is_refused() -> None:
    assert read_versions("") == {}
    with pytest.raises(UsageError, match="is not a module with a version"):
        read_versions("v2.9.0")


def test_a_list_reads_no_file_outside_the_folder(tmp_path) -> None:
    (tmp_path / "secret.go").write_text("secret\n")
    (tmp_path / "src").mkdir()
    writer = Writer()
    for identity, file in enumerate(("../secret.go", str(tmp_path / "secret.go"), "x/src/../../secret.go"), 1):
        name = writer.text(f"f{identity}")
        path = writer.text(file)
        writer.raw(data(5, number(1, identity) + number(2, name) + number(3, name) + number(4, path)))
        writer.location(identity, identity).sample([identity], 1)
    (tmp_path / "p.pb").write_bytes(writer.bytes())
    text = answer(["list", f"-source={tmp_path / 'src'}", "f", str(tmp_path / "p.pb")])
    assert text.count("ROUTINE") == text.count(" Error: ") == 3
    assert ":secret" not in text
