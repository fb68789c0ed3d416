"""The names of the language that mean something on AMD GPUs, which are not among the targets yet."""

import sys

from ..dialects import fill

fill(sys.modules[__name__], "rocm")
