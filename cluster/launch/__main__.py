"""`python -m cluster.launch` is the `launch` command."""

import sys

from cluster.launch.cli import main

if __name__ == "__main__":
    sys.exit(main())
