#!/usr/bin/env bash
# Formats every C++ and CUDA source with .clang-format. Requires version 14 (Debian 12): other versions format differently.
#   usage: scripts/format.sh [--check]      (--check changes nothing and fails if a file is not formatted)
set -euo pipefail
cd "$(dirname "$0")/.."
case "${1:-}" in
  '') mode=(-i) ;;
  --check) mode=(--dry-run -Werror) ;;
  *) sed -n 's/^#   //p' "$0"; exit 2 ;;
esac
formatter=$(command -v clang-format-14 || command -v clang-format || true)
case "$("${formatter:-false}" --version 2>/dev/null || true)" in
  *" version 14."*) ;;
  *) echo "error: format: clang-format 14 was not found; apt-get install clang-format" >&2; exit 2 ;;
esac
find base graph placement messages runtime policy executor record solver actors launcher lab tests bench \
  -name third_party -prune -o \( -name '*.h' -o -name '*.cc' -o -name '*.cu' -o -name '*.cuh' \) -print0 |
  xargs -0 -n 64 -P "$(nproc)" "$formatter" "${mode[@]}"
