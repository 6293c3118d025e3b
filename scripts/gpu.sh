#!/usr/bin/env bash
# Runs all checks that need a GPU, in under ten minutes. Two steps, which may run on different machines:
#   scripts/gpu.sh --bundle DIR [BUILD]   builds the program and copies it, its fixtures and its graphs into DIR (< 64 MiB)
#   DIR/gpu.sh --run [SECONDS]            runs the checks; needs only the CUDA toolkit's libraries and cuDNN 9. Writes results
#                                         to $OUT, or ./gpu-results. Default: 570 s; checks beyond the limit are skipped.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

bundle() {
  local dir=$1 build=${2:-build/release} name
  cd "$here/.."
  local program=${EMPLACE_GPU_CHECK:-}  # If set, the path of a program that is already built.
  if [ -z "$program" ]; then
    if [ ! -f "$build/CMakeCache.txt" ]; then cmake --preset release -DEMPLACE_TESTS=ON; fi
    cmake --build "$build" --target emplace-gpu-check
    program=$build/emplace-gpu-check
  fi
  mkdir -p "$dir/fixtures" "$dir/graphs"
  strip -o "$dir/emplace-gpu-check" "$program"
  cp scripts/gpu.sh bench/gpu_pytorch.py "$dir/"
  cp -r tests/fixtures/kernels "$dir/fixtures/"
  cp tests/fixtures/graphs/cifar10_cnn-bs128.json "$dir/graphs/"
  for name in tests/fixtures/graphs/resnet50-bs32 configs/graphs/resnet50-bs2 configs/graphs/transformer_base-bs2-seq40 configs/graphs/nmt-2layer-bs64; do
    gunzip -c "$name.json.gz" > "$dir/graphs/$(basename "$name").json"
  done
  local left
  left=$(ldd "$dir/emplace-gpu-check" | grep -Ev 'linux-vdso|ld-linux|libc\.so|libm\.so|libdl\.so|librt\.so|libpthread\.so' || true)
  if [ -n "$left" ]; then echo "error: gpu: the program needs libraries other than glibc: $left" >&2; exit 1; fi
  local bytes
  bytes=$(du -sb "$dir" | cut -f1)
  if [ "$bytes" -ge $((64 << 20)) ]; then echo "error: gpu: $dir has $bytes bytes; the limit is 64 MiB" >&2; exit 1; fi
  echo "$dir: $bytes bytes; on the GPU machine run $dir/gpu.sh --run"
}

run() {
  local seconds=${1:-570} out=${OUT:-gpu-results} found
  # cuDNN and cuBLASLt are in the toolkit, or in Python packages.
  for found in /usr/local/cuda*/lib64 /usr/lib/x86_64-linux-gnu; do
    if [ -d "$found" ]; then LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$found; fi
  done
  for found in $(python3 -c 'import glob, site, sys
print(*[d for s in set(sys.path + site.getsitepackages()) for d in glob.glob(s + "/nvidia/*/lib")])' 2> /dev/null || true); do
    LD_LIBRARY_PATH=$LD_LIBRARY_PATH:$found
  done
  export LD_LIBRARY_PATH
  mkdir -p "$out"
  local status=0
  "$here/emplace-gpu-check" --run "$out" --budget "$seconds" || status=$?
  # Measure the same network with PyTorch, if it is installed and 40 s are left.
  if [ $((SECONDS + 40)) -le "$seconds" ] && timeout 40 python3 "$here/gpu_pytorch.py" > "$out/pytorch.json" 2> "$out/pytorch.err"; then
    rm -f "$out/pytorch.err"
  else
    rm -f "$out/pytorch.json"
  fi
  return $status
}

case "${1:-}" in
  --bundle) bundle "${2:?a folder for the bundle}" ${3:+"$3"} ;;
  --run) run ${2:+"$2"} ;;
  *) sed -n 2,6p "$0"; exit 2 ;;
esac
