#!/usr/bin/env bash
# Fuzzes with libFuzzer and the address and undefined-behaviour sanitizers, one target after the other. Findings are in
# build/fuzz/findings/TARGET; add a fixed one to tests/fuzz/corpus/TARGET.
#   usage: scripts/fuzz.sh [seconds per target, default 600] [targets, default all]
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-600}
[ $# -gt 0 ] && shift
targets=("$@")
[ ${#targets[@]} -gt 0 ] || mapfile -t targets < <(ls tests/fuzz/corpus)

build=build/fuzz
mkdir -p "$build"
if ! echo 'extern "C" int LLVMFuzzerTestOneInput(const char*, unsigned long) { return 0; }' |
  clang++ -x c++ -fsanitize=fuzzer,address,undefined - -o "$build/probe" 2>/dev/null; then
  echo "skipped: clang++ with libFuzzer was not found; apt-get install clang libclang-rt-14-dev" >&2
  exit 0
fi
cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo -DCMAKE_CXX_COMPILER=clang++ -DEMPLACE_FUZZ=ON \
  -DEMPLACE_SANITIZE=address,undefined -DEMPLACE_BENCHES=OFF >"$build/configure.log"
ninja -C "$build" ${EMPLACE_JOBS:+-j "$EMPLACE_JOBS"} fuzz

found=0
for target in "${targets[@]}"; do
  mkdir -p "$build/corpus/$target" "$build/findings/$target"
  # Detect leaks at the end of the run, not after each input: router_input keeps its node between inputs.
  if EMPLACE_FUZZ=$target nice -n 10 "$build/fuzz" -max_total_time="$seconds" -timeout=20 -rss_limit_mb=2048 -malloc_limit_mb=1024 \
    -max_len=65536 -detect_leaks=0 -print_final_stats=1 -artifact_prefix="$build/findings/$target/" \
    "$build/corpus/$target" "tests/fuzz/corpus/$target" >"$build/$target.log" 2>&1; then
    echo "$target: no finding in $seconds s, $(sed -n 's/^stat::number_of_executed_units: *//p' "$build/$target.log") inputs, $(grep -oE 'cov: [0-9]+' "$build/$target.log" | tail -1)"
  else
    found=1
    echo "$target: $(grep -m1 -E 'ERROR|runtime error|SUMMARY|error:' "$build/$target.log" || tail -1 "$build/$target.log"); see $build/$target.log and $build/findings/$target"
  fi
done
exit $found
