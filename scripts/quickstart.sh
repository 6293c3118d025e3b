#!/usr/bin/env bash
# From a fresh Debian 12 machine to a learned placement: installs missing packages, builds the programs, runs the main job.
#   usage: scripts/quickstart.sh [options of `emplace run`]
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh --programs-only

echo "quickstart: building emplace (a few minutes the first time)" >&2
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# Keep the configuration of an existing build tree; only the program is built here in any case.
configure=(cmake --preset release)
[ -f build/release/CMakeCache.txt ] || configure+=(-DEMPLACE_TESTS=OFF -DEMPLACE_BENCHES=OFF)
build() {
  if ! "$@" >"$log" 2>&1; then
    tail -n 40 "$log" >&2
    echo "error: quickstart: the build failed; see the lines above" >&2
    exit 4
  fi
}
build "${configure[@]}"
build cmake --build build/release --target emplace
build/release/emplace run configs/quickstart.toml "$@"
# The main job only simulates, so build the executors of real devices after it.
echo "quickstart: building the executors of real devices (--executor cpu); press Ctrl-C if you do not need them" >&2
build cmake --build build/release --target programs
