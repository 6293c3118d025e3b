#!/usr/bin/env bash
# From a bare Debian 12 machine to a learned placement: installs what is missing, builds the programs, runs the main job.
#   usage: scripts/quickstart.sh [options of `emplace run`]
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh --programs-only

echo "quickstart: building emplace (a few minutes the first time)" >&2
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# A tree that was configured with tests keeps them; only the program is built here either way.
configure=(cmake --preset release)
[ -f build/release/CMakeCache.txt ] || configure+=(-DEMPLACE_TESTS=OFF -DEMPLACE_BENCHES=OFF)
build() {
  if ! "$@" >"$log" 2>&1; then
    tail -n 40 "$log" >&2
    echo "error: quickstart: the build failed; the lines above say where" >&2
    exit 4
  fi
}
build "${configure[@]}"
build cmake --build build/release --target emplace
build/release/emplace run configs/quickstart.toml "$@"
# The main job simulates: what runs on real devices is built after its table.
echo "quickstart: building the executors of real devices (--executor cpu); interrupt it if you do not need them" >&2
build cmake --build build/release --target programs
