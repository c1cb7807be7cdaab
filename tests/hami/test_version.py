import pytest

from bot.hami.version import Version, parse_version


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("v2.7.1", (2, 7, 1)),
        ("2.10", (2, 10, 0)),
        ("hami-2.7.1", (2, 7, 1)),
        ("hami-2.10.0", (2, 10, 0)),
        ("projecthami/hami:v2.8.3", (2, 8, 3)),
        ("registry-1.example.com:5000/a/hami:v2.9.0", (2, 9, 0)),
        ("10.0.2.15:5000/hami:2.6.1", (2, 6, 1)),
        ("projecthami/hami:v2.10.0@sha256:0011223344", (2, 10, 0)),
        ("v2.10.0-rc1", (2, 10, 0)),
        ("v2.7.1-abc123", (2, 7, 1)),
        ("hami:2.5.1_amd64", (2, 5, 1)),
    ],
)
def test_a_version_is_read_from_tags_and_chart_labels(text, version):
    assert parse_version(text) == version


@pytest.mark.parametrize(
    "text",
    [
        "",
        "latest",
        "registry-1.example.com:5000/hami",
        "10.0.2.15:5000/hami:latest",
        "projecthami/hami@sha256:2.10",
        "v2",
        "2.10.0.1",
        "hami:2026.11.21.3",
        "hami:master-20261121",
    ],
)
def test_no_version_is_guessed(text):
    assert parse_version(text) is None


def test_versions_order_as_versions():
    assert Version(2, 9, 0) < Version(2, 10, 0) < Version(2, 10, 1) < Version(3, 0)
    assert Version(2, 9) >= (2, 9)
    assert str(Version(2, 10)) == "2.10.0"
