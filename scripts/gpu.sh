#!/usr/bin/env bash
# What only a GPU can answer, in three commands of at most ten minutes each. They may run on another machine than the build.
#   scripts/gpu.sh --bundle DIR [BUILD]       builds the programs and copies them, their libraries, fixtures and graphs into
#                                             DIR (< 64 MiB)
#   DIR/gpu.sh --run 1|2|3|all [SECONDS]      does that part (570 s): 1 does it run and is it right, 2 how fast is it,
#                                             3 does a search by it work, and at the very end a deliberate fault
#   DIR/gpu.sh --check NAME                   one check, to standard output
#   DIR/gpu.sh --list 1|2|3                   the checks of a part with their limits
# Needs glibc, the CUDA toolkit's libraries and cuDNN 9 there. Every check prints a line per result as soon as it has it, and
# compares results with what is expected. Exit status of a check: 0 as expected, 1 not as expected, 3 unsupported here, 4 it
# failed, 75 the device is lost, 124 or 137 it took too long. All output is in one file, $OUT/gpu-PART.tar.gz (OUT: gpu-results),
# written again after every check; the last thing printed is a table. Exit status: 0 if every check was as expected.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

bundle() {
  local dir=$1 build=${2:-build/release} name program library
  cd "$here/.."
  if [ -z "${EMPLACE_GPU_CHECK:-}" ]; then  # If set, the programs are already built.
    if [ ! -f "$build/CMakeCache.txt" ]; then cmake --preset release -DEMPLACE_TESTS=ON; fi
    cmake --build "$build" --target emplace-gpu-check emplace emplace-exec-cuda
  else
    build=$(dirname "$EMPLACE_GPU_CHECK")
  fi
  mkdir -p "$dir/fixtures" "$dir/graphs" "$dir/bin" "$dir/lib"
  strip -o "$dir/emplace-gpu-check" "${EMPLACE_GPU_CHECK:-$build/emplace-gpu-check}"
  for program in emplace-gpu-check bin/emplace bin/emplace-exec-cuda; do
    [ -e "$dir/$program" ] || strip -o "$dir/$program" "$build/$(basename "$program")"
    for library in $(ldd "$dir/$program" | awk '$3 ~ /^\// {print $3}' | grep -Ev '/(libc|libm|libdl|librt|libpthread|libresolv)\.so'); do
      cp -L "$library" "$dir/lib/"
    done
  done
  find "$dir/lib" -size +16M ! -name '*.gz' -exec gzip -9 -f {} +  # oneDNN, which only placements with a CPU need.
  cp scripts/gpu.sh bench/gpu_pytorch.py "$dir/"
  cp -r tests/fixtures/kernels "$dir/fixtures/"
  cp tests/fixtures/graphs/cifar10_cnn-bs128.json "$dir/graphs/"
  for name in tests/fixtures/graphs/resnet50-bs32 configs/graphs/resnet50-bs2 configs/graphs/transformer_base-bs2-seq40 configs/graphs/nmt-2layer-bs64; do
    gunzip -c "$name.json.gz" > "$dir/graphs/$(basename "$name").json"
  done
  find "$dir/graphs" -size +1M ! -name '*.gz' -exec gzip -9 -f {} +
  local left
  left=$(ldd "$dir/emplace-gpu-check" | grep -Fv "=> $(realpath "$dir")/lib/" | grep -Ev 'linux-vdso|ld-linux|libc\.so|libm\.so|libdl\.so|librt\.so|libpthread\.so' || true)
  if [ -n "$left" ]; then echo "error: gpu: the program needs libraries other than glibc and those of the bundle: $left" >&2; exit 1; fi
  local bytes
  bytes=$(du -sb "$dir" | cut -f1)
  if [ "$bytes" -ge $((64 << 20)) ]; then echo "error: gpu: $dir has $bytes bytes; the limit is 64 MiB" >&2; exit 1; fi
  echo "$dir: $bytes bytes; on the GPU machine run $dir/gpu.sh --run 1, then 2, then 3"
}

# Unpacks what the bundle has packed, and finds cuDNN and cuBLASLt: in the toolkit, or in Python packages. PyTorch keeps the
# path that it had.
original_path=${LD_LIBRARY_PATH:-}
prepare() {
  local found
  for found in $(python3 -c 'import glob, site, sys
print(*[d for s in dict.fromkeys(sys.path + site.getsitepackages()) for d in glob.glob(s + "/nvidia/*/lib")])' 2> /dev/null || true) \
    /usr/local/cuda*/lib64 /usr/lib/x86_64-linux-gnu; do
    if [ -d "$found" ]; then LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$found; fi
  done
  for found in "$here"/lib/*.gz "$here"/graphs/*.gz; do
    if [ ! -e "$found" ] || [ -e "${found%.gz}" ]; then continue; fi
    gunzip -c "$found" > "${found%.gz}.$$" && mv "${found%.gz}.$$" "${found%.gz}"
  done
  export LD_LIBRARY_PATH
  # A stream of its own for every logical device on a GPU; numbers of GPUs as nvidia-smi prints them.
  export CUDA_DEVICE_MAX_CONNECTIONS=32 CUDA_DEVICE_ORDER=PCI_BUS_ID
}

# one NAME LIMIT COMMAND...: runs a check; its lines go to results/NAME.jsonl.
one() {
  local name=$1 limit=$2 status=0 begin=$SECONDS left
  shift 2
  left=$((budget - (SECONDS - started) - 5))
  if [ "$left" -lt 5 ]; then
    table+=$(printf '%-18s %-34s %6s' "$name" "left out: no time" "")$'\n'
    bad=1
    return
  fi
  timeout -k 5 "$((left < limit ? left : limit))" "$@" > "$results/$name.jsonl" 2> "$results/$name.err" || status=$?
  local word="as expected"
  case $status in
    0) ;;
    1) word="NOT as expected" ;;
    2) word="not run: usage" ;;
    3) word="unsupported here" ;;
    75) word="the device is lost" ;;
    77) word="skipped" ;;
    124 | 137) word="took too long" ;;
    *) word="failed with status $status" ;;
  esac
  if [ "$status" -ne 0 ] && [ "$status" -ne 77 ]; then bad=1; fi
  printf '{"check": "%s", "status": %d, "outcome": "%s", "seconds": %d}\n' "$name" "$status" "$word" "$((SECONDS - begin))" \
    >> "$results/summary.jsonl"
  echo "== $name: $word, $((SECONDS - begin)) s"
  { grep '"expected"' "$results/$name.jsonl" || true; } | cut -c1-300 | tail -12
  head -c 500 "$results/$name.err"
  table+=$(printf '%-18s %-34s %4d s' "$name" "$word" "$((SECONDS - begin))")$'\n'
  tar czf "$out/gpu-$part.tar.gz" -C "$(dirname "$results")" "$(basename "$results")"
}

run() {
  part=$1 budget=${2:-570} started=$SECONDS bad=0 table=""
  out=$(mkdir -p "${OUT:-gpu-results}" && cd "${OUT:-gpu-results}" && pwd)
  work=$(mktemp -d) results=$work/gpu-$1
  trap 'rm -rf "$work"' EXIT
  mkdir -p "$results"
  prepare
  { nvidia-smi --query-gpu=name,driver_version,memory.total,memory.used,mig.mode.current,persistence_mode --format=csv || true
    uname -r; ldd --version | sed -n 1p; echo "rehearsal: ${EMPLACE_GPU_REHEARSE:-0}"; } > "$results/machine.txt" 2>&1
  local name limit
  while read -r name limit; do
    case $name in
      pytorch)  # It loads its own cuBLAS and cuDNN.
        if [ -n "${EMPLACE_GPU_REHEARSE:-}" ]; then continue; fi
        one pytorch "$limit" env LD_LIBRARY_PATH="$original_path" python3 "$here/gpu_pytorch.py" ;;
      evaluate)
        if [ -n "${EMPLACE_GPU_REHEARSE:-}" ]; then continue; fi
        one evaluate "$limit" "$here/gpu.sh" --check evaluate ;;
      racecheck)
        if [ -n "${EMPLACE_GPU_REHEARSE:-}" ] || ! command -v compute-sanitizer > /dev/null; then continue; fi
        one racecheck "$limit" compute-sanitizer --tool racecheck --error-exitcode 1 --kernel-name kns=reduce_kernel \
          --kernel-name kns=merge_kernel --kernel-name kns=tiled_kernel \
          "$here/emplace-gpu-check" --check kernel_parity ;;
      *) one "$name" "$limit" "$here/emplace-gpu-check" --check "$name" ;;
    esac
  done < <("$here/emplace-gpu-check" --list "$part")
  printf '\n%s' "$table"
  echo "all output: $out/gpu-$part.tar.gz"
  return "$bad"
}

# A search by it as a user starts it: two logical devices on one GPU, and one with a CPU, both compared with one device.
evaluate() {
  local folder status=0 machine
  folder=$(mktemp -d)
  printf '[[device]]\nname = "gpu:%d"\nprofile = "h200"\nmemory = "8GiB"\n\n' 0 1 > "$folder/gpus.toml"
  printf '[[device]]\nname = "%s"\nprofile = "%s"\nmemory = "2GiB"\n\n' gpu:0 h200 cpu:0 haswell18 > "$folder/mixed.toml"
  export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$here/lib
  for machine in gpus mixed; do
    printf '[[link]]\nbetween = ["*", "*"]\nprofile = "pcie3_x16"\n' >> "$folder/$machine.toml"
    # Round-robin, so that every device has ops.
    "$here/bin/emplace" place "$here/graphs/cifar10_cnn-bs128.json" -d "$folder/$machine.toml" --method round-robin \
      -o "$folder/$machine.json" > "$folder/placed.txt" &&
      "$here/bin/emplace" evaluate "$here/graphs/cifar10_cnn-bs128.json" "$folder/$machine.json" -d "$folder/$machine.toml" \
        --executor cuda --verify --json || status=$?
  done
  rm -rf "$folder"
  return "$status"
}

case "${1:-}" in
  --bundle) bundle "${2:?a folder for the bundle}" ${3:+"$3"} ;;
  --run)
    case "${2:-}" in
      1 | 2 | 3) run "$2" ${3:+"$3"} ;;
      all)
        worst=0
        for number in 1 2 3; do (run "$number" ${3:+"$3"}) || worst=1; done
        exit "$worst"
        ;;
      *) echo "error: gpu: --run needs 1, 2, 3 or all" >&2; exit 2 ;;
    esac
    ;;
  --check)
    prepare
    if [ "${2:?the name of a check}" = evaluate ]; then evaluate; else exec "$here/emplace-gpu-check" --check "$2"; fi
    ;;
  --list) exec "$here/emplace-gpu-check" --list "${2:?1, 2 or 3}" ;;
  *) sed -n 2,14p "$0"; exit 2 ;;
esac
