"""``python -m emplace.ray``."""

import sys

from emplace.ray.driver import main

if __name__ == "__main__":
    sys.exit(main())
