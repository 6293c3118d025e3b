#!/bin/bash
# Fetches graphs that others publish, for `graph_bench --benchmark_filter=ReadFolder` and for reading by hand. They are not
# part of this repository: each has its own licence.
#
#   usage: tests/models/published_files.sh FOLDER
#          EMPLACE_PUBLISHED=FOLDER build/release/graph_bench --benchmark_filter=ReadFolder
set -euo pipefail
[ $# = 1 ] || { sed -n '2,6s/^# \?//p' "$0"; exit 2; }
mkdir -p "$1"
folder=$(cd "$1" && pwd)

# REPOSITORY PATTERN NAME: the files whose path matches, as NAME/PATH with '_' for '/'.
take() {
  local copy
  copy=$(mktemp -d)
  git clone --quiet --depth 1 --filter=blob:none --no-checkout "https://github.com/$1" "$copy"
  mkdir -p "$folder/$3"
  git -C "$copy" ls-tree -r --name-only HEAD | { grep -E "$2" || true; } | while read -r path; do
    git -C "$copy" show "HEAD:$path" > "$folder/$3/${path//\//_}"
  done
  echo "$3: $(find "$folder/$3" -type f | wc -l) files of $1"
  rm -rf "$copy"
}

take PaliC/triton-data 'fx_graph_readable\.py$' fx
take nyu-systems/Entangle '^examples/data/.*\.py$' fx_parallel
take nyu-systems/Entangle '\.hlo$' hlo
take xinyuyao/Doppler '^compute_graph/.*\.txt$' doppler
take msr-fiddle/piper '^inputs/.*\.json$' piper
