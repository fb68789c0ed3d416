"""The same as tilelang.language."""

import sys

from ..dialects import fill

fill(sys.modules[__name__], "cuda")
