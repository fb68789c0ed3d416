"""Targets under TVM's name."""

from __future__ import annotations

from typing import Any

from ...jit.config import target_text

__all__ = ["Target", "target"]


class Target(str):
    """A target as text; `Target("cuda -arch=sm_90")` can be given wherever a target is taken."""

    def __new__(cls, target: Any, host: Any = None) -> Target:
        return super().__new__(cls, target_text(target))

    @property
    def kind(self) -> Any:
        """An object whose .name is the first word."""
        from types import SimpleNamespace

        return SimpleNamespace(name=self.split()[0])

    @property
    def arch(self) -> str:
        """What -arch= says; empty without it."""
        return next((word[6:] for word in self.split() if word.startswith("-arch=")), "")


def target(target_config: Any, host: Any = None) -> Target:
    """The same as Target(target_config)."""
    return Target(target_config, host)
