"""The names of the language that mean something on CPUs."""

import sys

from ..dialects import fill

fill(sys.modules[__name__], "cpu")
