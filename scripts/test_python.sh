#!/usr/bin/env bash
# Tests the Python package with Debian's Python and PyTorch, or with the newest ones from PyPI.
#   usage: scripts/test_python.sh [options of pytest]
#          scripts/test_python.sh --newest [options of pytest]      makes build/python-newest, and the wheel; then all
# With --newest the last lines go to docs/results/python_newest.log. EMPLACE_PROGRAM names the program to test
# (default: build/release/emplace); EMPLACE_NEWEST another environment for --newest.
set -euo pipefail
cd "$(dirname "$0")/.."
case "${1:-}" in
  -h | --help)
    sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//p}' "$0"
    exit 0
    ;;
esac
export EMPLACE_PROGRAM=${EMPLACE_PROGRAM:-$PWD/build/release/emplace} OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
[ -x "$EMPLACE_PROGRAM" ] || { echo "error: test_python: $EMPLACE_PROGRAM: no such program; scripts/test.sh builds it" >&2; exit 2; }

if [ "${1:-}" != --newest ]; then
  # 77: skipped, as CTest reads it.
  /usr/bin/python3 -c 'import pytest, numpy' 2>/dev/null ||
    { echo "test_python: skipped: Debian's python3 has no pytest or numpy; install python3-pytest" >&2; exit 77; }
  cd python
  exec /usr/bin/python3 -m pytest -q -rs "$@"
fi

shift
environment=${EMPLACE_NEWEST:-build/python-newest}
if [ ! -x "$environment/bin/python3" ]; then
  /usr/bin/python3 -m venv "$environment"
  "$environment/bin/pip" install -q --upgrade pip
  # The build of PyTorch for CPUs is a tenth of the size of the one for CUDA, but PyPI has only the latter.
  "$environment/bin/pip" install -q numpy torch torchvision transformers accelerate onnx onnxscript jax pandas tqdm pyzmq \
    msgpack xxhash pytest mypy ipython
fi
# Ray has no wheel for the newest Pythons; its tests skip then.
"$environment/bin/python3" -c 'import ray' 2>/dev/null || "$environment/bin/pip" install -q ray ||
  echo "test_python: no wheel of ray for this Python" >&2
scripts/wheel.sh "$(dirname "$EMPLACE_PROGRAM")"
log=docs/results/python_newest.log
environment=$(realpath "$environment")
{
  echo "scripts/test_python.sh --newest $*"
  "$environment/bin/python3" - <<'PYTHON'
import importlib.metadata as m, platform
print("Python", platform.python_version())
for name in ("torch", "torchvision", "transformers", "accelerate", "onnxscript", "jax", "numpy", "pandas", "ray", "mypy"):
    try:
        print(name, m.version(name))
    except m.PackageNotFoundError:
        print(name, "is not installed")
PYTHON
  status=0
  (cd python && "$environment/bin/python3" -m pytest -q -rs --newest --color=no --durations=30 "$@") || status=$?
  echo "status $status"
} 2>&1 | sed "s|$PWD/||g; s|$environment/||g; s|$HOME/|~/|g" | tee "$log"
tail -1 "$log" | grep -qx 'status 0'
