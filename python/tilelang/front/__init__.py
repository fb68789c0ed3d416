"""The front: a Python function becomes the compiler's program.  It knows the binding and nothing else here.

From a source text (texts.py, source.py) a definition is rewritten (parse.py); what the new text calls while
it runs (activation.py, expressions.py) builds the program, in the Trace of this thread (trace.py)."""

from . import dunders  # the compiler's values have Python's operators from here on
