"""``python -m emplace.torch_executor``, the command ``emplace-exec-torch``."""

import sys

from emplace.errors import EmplaceError
from emplace.torch_executor.options import missing, parse, version_line


def main() -> int:
    """Serves the parent process; returns the exit status."""
    try:
        options = parse(sys.argv[1:])
    except EmplaceError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if absent := missing():
        print(absent, file=sys.stderr)
        return 2
    if options.version:
        print(version_line())
        return 0
    from emplace.torch_executor.serving import serve

    return serve(options)


if __name__ == "__main__":
    sys.exit(main())
