"""The disk cache as Python sees it: switched on and off here (env.py), read and written by the compiler."""

from __future__ import annotations

import os
import re

from .env import env

_ENTRY = re.compile(r"[0-9a-f]{16,128}\.tlc")


def clear_cache() -> int:
    """Remove every compiled kernel from the disk cache (TILELANG_CACHE_DIR); returns how many entries went.

    Only files named as the cache names them are touched, so that a folder given by mistake keeps its files.
    """
    removed = 0
    for folder, _, files in os.walk(env.get_cache_dir()):
        for name in filter(_ENTRY.fullmatch, files):
            os.unlink(os.path.join(folder, name))
            removed += 1
    return removed
