"""``python -m emplace.torch_executor``."""

import sys

from emplace.torch_executor.serving import main

if __name__ == "__main__":
    sys.exit(main())
