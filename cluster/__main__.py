"""`python -m cluster` is the `cluster` command."""

import sys

from cluster.operate.cli import main

if __name__ == "__main__":
    sys.exit(main())
