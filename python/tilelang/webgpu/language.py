"""The names of the language that mean something on WebGPU, which is not among the targets."""

import sys

from ..dialects import fill

fill(sys.modules[__name__], "webgpu")
