#!/usr/bin/env bash
# Runs clang-tidy on sources and compiles each header alone. Configures build/tidy with clang++ for the flags; only
# generated headers are built there.
#   usage: scripts/tidy.sh [--all | --most N | FILE…]
# Default: the C++ files that differ from the merge base with origin/main (or from the last commit but one, on main itself).
# --most N: checks at most N of them, and prints how many were skipped.
set -euo pipefail
cd "$(dirname "$0")/.."
case "${1:-}" in -h | --help) sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//p}' "$0"; exit 0 ;; esac
command -v clang-tidy >/dev/null && command -v clang++ >/dev/null || {
  echo "skipped: clang-tidy or clang++ was not found; apt-get install clang clang-tidy" >&2
  exit 0
}

folders=(base graph placement messages runtime policy executor record solver actors launcher lab)
most=0
if [ "${1:-}" = --all ]; then
  mapfile -t files < <(git ls-files -- "${folders[@]}")
elif [ $# -gt 0 ] && [ "$1" != --most ]; then
  files=("$@")
else
  [ "${1:-}" = --most ] && most=$2
  base=$(git merge-base HEAD origin/main 2>/dev/null || true)
  if [ -z "$base" ] || [ "$base" = "$(git rev-parse HEAD)" ]; then base=$(git rev-parse -q --verify HEAD~1 || git rev-parse HEAD); fi
  mapfile -t files < <(git diff --name-only --diff-filter=d "$base" -- "${folders[@]}")
fi
sources=()
for file in "${files[@]}"; do
  case $file in
    executor/cuda/* | launcher/worker/cuda_main.cc | *third_party*) ;; # CUDA sources need the toolkit.
    *.h | *.cc) sources+=("$file") ;;
  esac
done
if [ "$most" -gt 0 ] && [ ${#sources[@]} -gt "$most" ]; then
  echo "tidy: checking $most of ${#sources[@]} changed files; scripts/tidy.sh checks all of them" >&2
  sources=("${sources[@]:0:$most}")
fi
[ ${#sources[@]} -gt 0 ] || { echo "tidy: nothing to check"; exit 0; }

build=build/tidy
if [ ! -f $build/compile_commands.json ]; then
  cmake -S . -B $build -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_COMPILER=clang++ -DEMPLACE_PRECOMPILE=OFF -DEMPLACE_TOGETHER=OFF \
    -DEMPLACE_TESTS=OFF -DEMPLACE_BENCHES=OFF -DEMPLACE_CUDA=OFF >/dev/null
fi
ninja -C $build emplace_onnx emplace_tf_graphdef emplace_event >/dev/null

# A header has no compile command: use that of a source in its folder, or of any source.
command_of() {
  python3 - "$build/compile_commands.json" "$1" <<'PY'
import json, os, shlex, sys
commands = json.load(open(sys.argv[1]))
header = os.path.abspath(sys.argv[2])
near = max(commands, key=lambda c: len(os.path.commonpath([header, c["file"]])) if c["file"].endswith(".cc") else -1)
words = shlex.split(near["command"])
cut = words.index("-o")
print(shlex.join([w for w in words[:cut] + words[cut + 2:] if w not in ("-c", near["file"])]))
PY
}
export -f command_of
export build
check() {
  case $1 in
    *.h) eval "$(command_of "$1")" -fsyntax-only -Wno-pragma-once-outside-header -Wno-unused-const-variable -Wno-unused-function -x c++ "$1" ;;
    *) clang-tidy --quiet -p "$build" "$1" 2>/dev/null ;;
  esac || { echo "error: tidy: $1" >&2; return 1; }
}
export -f check
printf '%s\0' "${sources[@]}" | xargs -0 -n 1 -P "$(nproc)" bash -c 'check "$0"'
echo "tidy: ${#sources[@]} files, no findings"
