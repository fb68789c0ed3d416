"""The names of the language that mean something on Apple GPUs, which are not among the targets."""

import sys

from ..dialects import fill

fill(sys.modules[__name__], "metal")
