#!/usr/bin/env bash
# Installs what is missing, builds everything in release, runs every test. The last lines are CTest's summary.
#   usage: scripts/test.sh [preset] [options of ctest]        presets: release (default) dev asan tsan
set -euo pipefail
cd "$(dirname "$0")/.."
preset=release
case "${1:-}" in
  -h | --help)
    sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//p}' "$0"
    exit 0
    ;;
esac
case "${1:-}" in release | dev | asan | tsan) preset=$1; shift ;; esac
scripts/setup.sh
# Kernels for one GPU are enough to compile and to test here; what users build has more.
cmake --preset "$preset" -DEMPLACE_TESTS=ON -DEMPLACE_BENCHES=ON -DEMPLACE_CUDA_ARCHITECTURES=90-real
cmake --build "build/$preset"
# Three at a time on two cores: a third of the time of those that take part in a run is waiting.
ctest --preset "$preset" -j3 "$@"
