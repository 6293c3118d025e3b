#!/usr/bin/env bash
# Exports placements and runs them in the runtimes that they are for: ONNX Runtime, OpenVINO and TensorFlow,
# installed from PyPI by hash into an environment outside of the repository (1.5 GB on first use). The log shows
# what was run and how many were equal (docs/results/exports.md).
#
#   usage: scripts/verify_exports.sh [--log FILE] [--models N] [--only submodels,onnx,openvino,tensorflow]
#   EMPLACE_VERIFY_ENV: folder of the environment (default: ~/.cache/emplace/verify-exports)
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
program=${EMPLACE_PROGRAM:-$root/build/release/emplace}
folder=${EMPLACE_VERIFY_ENV:-${XDG_CACHE_HOME:-$HOME/.cache}/emplace/verify-exports}
requirements=$root/tests/exports/requirements.txt

if [[ ! -x $program ]]; then
  echo "error: $program: is not there; build it with scripts/test.sh or scripts/quickstart.sh" >&2
  exit 2
fi
python=$(command -v python3.11 || command -v python3)
if ! "$python" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))'; then
  echo "error: $python: is not Python 3.11, for which the packages are pinned" >&2
  exit 2
fi
# The hash of the requirements names the environment, so that a changed pin makes another one.
ready=$folder/$(sha256sum "$requirements" | cut -c1-16)
if [[ ! -e $ready/done ]]; then
  rm -rf "$ready"
  "$python" -m venv "$ready"
  "$ready/bin/pip" install --quiet --disable-pip-version-check --require-hashes --only-binary :all: \
    -r "$requirements"
  touch "$ready/done"
fi
exec "$ready/bin/python" "$root/tests/exports/verify.py" --program "$program" "$@"
