"""`python -m ordered_memory.cli` is `om`."""

import sys

from ordered_memory.cli import main

if __name__ == "__main__":
    sys.exit(main())
