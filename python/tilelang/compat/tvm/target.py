"""Targets under TVM's name."""

from __future__ import annotations

import json
from typing import Any

from ...jit.config import target_scopes, target_text

__all__ = ["Target", "target"]


class Target(str):
    """A target as text; `Target("cuda -arch=sm_90")` can be given wherever a target is taken; in a `with` it
    is the one of compilations that name none."""

    attrs: dict[str, str]

    def __new__(cls, target: Any, host: Any = None) -> Target:
        made = super().__new__(cls, target_text(target))
        made.attrs = _attributes(target)
        return made

    def __enter__(self) -> Target:
        target_scopes.append(str(self))
        return self

    def __exit__(self, *_: object) -> None:
        target_scopes.pop()

    @staticmethod
    def current(allow_none: bool = True) -> Target | None:
        """The target of the innermost `with`."""
        if not target_scopes and not allow_none:
            raise ValueError("Target.current: there is no `with Target(…):` around this")
        return Target(target_scopes[-1]) if target_scopes else None

    @property
    def kind(self) -> Any:
        """An object whose .name is the first word."""
        from types import SimpleNamespace

        return SimpleNamespace(name=self.split()[0])

    @property
    def arch(self) -> str:
        """What -arch= says; empty without it."""
        return next((word[6:] for word in self.split() if word.startswith("-arch=")), "")


def _attributes(target: Any) -> dict[str, str]:
    """The attributes that a target was written with, those too that have no meaning here."""
    if isinstance(target, Target):
        return dict(target.attrs)
    if isinstance(target, str) and target.lstrip().startswith("{"):
        target = json.loads(target)
    if isinstance(target, dict):
        return {key: value for key, value in target.items() if key != "kind" and value is not None}
    words = str(target).split()[1:]
    return dict(word.lstrip("-").partition("=")[::2] for word in words if word.startswith("-"))


def target(target_config: Any, host: Any = None) -> Target:
    """The same as Target(target_config)."""
    return Target(target_config, host)
