"""`python -m tilelang`; see tools/command_line.py."""

import sys

from .tools.command_line import main

if __name__ == "__main__":
    sys.exit(main())
