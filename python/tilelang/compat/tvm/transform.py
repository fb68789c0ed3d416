"""Pass contexts under TVM's name."""

from __future__ import annotations

from typing import Any

from ...jit.config import normalize_pass_configs, pass_config_scopes

__all__ = ["PassContext"]


class PassContext:
    """`with PassContext(config={PassConfigKey…: value}):` pass configs of the compilations inside.

    The other parameters are TVM's, and change nothing."""

    def __init__(
        self,
        opt_level: int = 2,
        required_pass: Any = None,
        disabled_pass: Any = None,
        instruments: Any = None,
        config: dict[Any, Any] | None = None,
    ) -> None:
        self.opt_level, self.config = opt_level, normalize_pass_configs(config)

    def __enter__(self) -> PassContext:
        pass_config_scopes.append(self.config)
        return self

    def __exit__(self, *_: object) -> None:
        pass_config_scopes.pop()

    @staticmethod
    def current() -> PassContext:
        """What holds here, of all that are open."""
        return PassContext(config={key: x for scope in pass_config_scopes for key, x in scope.items()})
