"""Makes `python -m dicast.cli` the `dicast` command."""

import sys

from dicast.cli import main

if __name__ == "__main__":
    sys.exit(main())
