"""`python -m loadtests.drills`: the same as `cluster drill`."""

import sys

from loadtests.drills.cli import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
