"""The functions of postproc.py, under the name that published programs import."""

from __future__ import annotations

from .postproc import *  # noqa: F403
from .postproc import __all__ as __all__
