# Sourced by the scripts of this folder. Installs packages in the temporary folder of the script, which it removes at the
# end, and goes there.
#   usage: folder=$(mktemp -d)
#          . "$(dirname "$0")/environment.bash" PACKAGE==VERSION…
# Afterwards `python` runs the Python of that environment. Its programs import `seen` from `finding`: it prints a value
# and ends with status 1 where it is another one than before.
set -euo pipefail
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/environment"
"$folder/environment/bin/pip" install --quiet --disable-pip-version-check "$@"
cd "$folder"
cat >finding.py <<'PYTHON'
import sys


def seen(what, value, before):
    print(f"{what}: {value}", flush=True)
    if value != before:
        sys.exit(f"changed: it was {before}")
PYTHON
export OMP_NUM_THREADS=1 PYTHONWARNINGS=ignore
python() { "$folder/environment/bin/python" "$@"; }
