"""A test that is a scene: `as_test` has it played as some other tests are."""

from collections.abc import Awaitable, Callable
from functools import partial, update_wrapper
from inspect import Parameter, Signature, signature
from typing import Any

Scene = Callable[..., Awaitable[None]]


def as_test(run: Callable[..., None], *fixtures: str) -> Callable[[Scene], Callable[..., None]]:
    """The test is what `run` does with these fixtures and the scene, which comes last; what the scene takes by name
    alone is given by pytest.
    """

    def decorate(scene: Scene) -> Callable[..., None]:
        def test(**given: Any) -> None:
            more = {name: given[name] for name in own}
            run(*(given[name] for name in fixtures), partial(scene, **more) if more else scene)

        update_wrapper(test, scene)
        own = [name for name, one in signature(scene).parameters.items() if one.kind is Parameter.KEYWORD_ONLY]
        del test.__wrapped__  # pytest would see the scene's parameters
        names = dict.fromkeys((*fixtures, *own))
        test.__signature__ = Signature([Parameter(name, Parameter.KEYWORD_ONLY) for name in names])
        return test

    return decorate
