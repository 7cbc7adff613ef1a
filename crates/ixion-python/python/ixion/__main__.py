"""``python -m ixion``: the command ``ixion``."""

import sys

from ._ixion import main

if __name__ == "__main__":
    sys.exit(main())
