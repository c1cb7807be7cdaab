"""The files of a profile beside its report: the picture, the page, the whole table, and the bytes as fetched."""

from collections.abc import Iterator

from bot.pprof.findings import began_at
from bot.pprof.nodes import no_location, node_table
from bot.pprof.profile import Profile, sample_index, shown_type
from bot.pprof.top import Options, prepared, top, total_of
from bot.pprof.units import AUTO, label
from bot.render.flame import StackSample, flame_alt_text, flame_page, flame_picture, lay_out
from bot.slack.message import File
from bot.texts import Texts

_SECOND_NS = 1_000_000_000
_LONGEST_NAME = 1000


def profile_files(  # noqa: PLR0917  # each is needed
    name: str, kind: str, pod: str, content: bytes, source: Profile, say: Texts
) -> tuple[File, ...]:
    """The files of a profile, picture first. `source` is `content` decoded; takes a second for 100,000 samples."""
    measured = shown_type(source)
    table = top(source.copy(), options=Options(sample_index=measured)).encode("utf-8", "surrogateescape")
    profile = prepared(source.copy())
    index = sample_index(profile, measured)
    unit = profile.sample_types[index].unit
    seconds = profile.duration_nanos / _SECOND_NS
    title = " · ".join(filter(None, (pod, kind, f"{seconds:.0f} s" if seconds > 0 else "")))
    total = label(total_of(profile, index), unit, AUTO)
    stacks = f"{sum(1 for _ in profile.samples):,} stacks"
    facts = (profile.sample_types[index].type, f"{total} in {stacks}", began_at(profile), name)
    subtitle = ", ".join(filter(None, facts))
    flame = lay_out(_stacks(profile, index))
    alt_text = say.words(flame_alt_text(flame, title)) if flame.boxes else say("profile.alt-none")
    return (
        File(f"{name}.png", flame_picture(flame, title, subtitle, say), say("profile.picture"), alt_text),
        File(
            f"{name}.top.txt",
            table,
            say("profile.whole-table-of", kind=measured) if measured else say("profile.whole-table"),
        ),
        File(f"{name}.html", flame_page(flame, title, subtitle).encode(), say("profile.page")),
        File(f"{name}.pb.gz", content, say("profile.as-fetched")),
    )


def _stacks(profile: Profile, index: int) -> Iterator[StackSample]:
    table = node_table(profile, lines=False, inlines=True)
    texts: dict[str, str] = {}
    shown = [texts.setdefault(text, text) for text in (_shown(str(node)) for node in table.nodes)]
    names = {number: [shown[node] for node in nodes] for number, nodes in table.by_location.items()}
    for ids, value in profile.samples.stacks(index):
        try:
            leaf_first = [name for number in ids for name in names[number]]
        except KeyError as error:
            raise no_location() from error
        yield StackSample(leaf_first[::-1], value)


def _shown(name: str) -> str:
    name = name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…"
