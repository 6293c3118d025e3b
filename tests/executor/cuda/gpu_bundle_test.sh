#!/usr/bin/env bash
# Goal: the bundle for a machine with a GPU is whole: it needs nothing beyond glibc, fits into 64 MiB, finds its fixtures and
# graphs from anywhere, and each of its checks runs to its end. Method: a rehearsal, on functions that call no GPU; and its
# output on a machine without a GPU.
#   usage: gpu_bundle_test.sh REPOSITORY EMPLACE-GPU-CHECK FOLDER
set -euo pipefail
repository=$1 program=$2 folder=$3
rm -rf "$folder"
mkdir -p "$folder"
EMPLACE_GPU_CHECK=$program "$repository/scripts/gpu.sh" --bundle "$folder/bundle"
cd /
EMPLACE_GPU_REHEARSE=1 OUT=$folder/rehearsed "$folder/bundle/gpu.sh" --run all 200 > "$folder/rehearsed.txt"
python3 - "$folder/rehearsed" <<'PYTHON'
import json, pathlib, sys, tarfile
checks = {}
for part in (1, 2, 3):
    with tarfile.open(pathlib.Path(sys.argv[1]) / f"gpu-{part}.tar.gz") as tar:
        for member in tar.getmembers():
            if member.name.endswith(".jsonl"):
                name = pathlib.PurePath(member.name).stem
                checks.setdefault(name, []).extend(json.loads(line) for line in tar.extractfile(member).read().splitlines())
summary = checks.pop("summary")
assert len(summary) == 12 and summary[-1]["check"] == "illegal_access", summary
for one in summary:
    assert one["status"] == 0, one
    assert any("expected" in row for row in checks[one["check"]]), one["check"]
assert checks["full_device"][0]["found"] == 100
assert checks["green_contexts"][0]["devices"][0]["promised"] == 64
assert all(row["synthetic_share"] == 0 for row in checks["step_times"])
PYTHON
# The page is written from the results, and a rehearsal is no result.
status=0
"$repository/scripts/gpu_page.py" "$folder"/rehearsed/gpu-*.tar.gz -o "$folder/page.md" 2> "$folder/refused.txt" || status=$?
[ "$status" -eq 2 ] && [ ! -e "$folder/page.md" ] && grep -q "is a rehearsal's output" "$folder/refused.txt"
"$repository/scripts/gpu_page.py" "$folder"/rehearsed/gpu-*.tar.gz --rehearsal -o "$folder/page.md"
grep -q '^\*\*Rehearsal' "$folder/page.md"
grep -q '^| `placements` | as expected |' "$folder/page.md"
grep -q '^| resnet50-bs32 | ' "$folder/page.md"
grep -q '^| shaped link from 1 | 12 GB/s to a tenth' "$folder/page.md"
grep -q '^| device 0 while the other one is busy | ' "$folder/page.md"
# A result that is not as expected, and a check that is ended, are in the page and in the exit status.
mkdir -p "$folder/gpu-1"
printf '{"case": "2 parts", "expected": "no overlap", "found": "overlap", "ok": false}\n{"case": "4 pa' > "$folder/gpu-1/green_contexts.jsonl"
printf '{"check": "green_contexts", "status": 124, "outcome": "took too long", "seconds": 60}\n' > "$folder/gpu-1/summary.jsonl"
tar czf "$folder/gpu-1.tar.gz" -C "$folder" gpu-1
"$repository/scripts/gpu_page.py" "$folder/gpu-1.tar.gz" -o "$folder/page.md"
grep -q '^| `green_contexts` | 2 parts | no overlap | overlap |' "$folder/page.md"
grep -q '^| `green_contexts` | took too long | 60 s |' "$folder/page.md"
for name in emplace emplace-exec-cuda; do
  LD_LIBRARY_PATH=$folder/bundle/lib "$folder/bundle/bin/$name" --version > /dev/null
done
# Without a GPU every check is answered in one line, and the table and the file are there all the same.
status=0
OUT=$folder/real "$folder/bundle/gpu.sh" --run 1 60 > "$folder/real.txt" || status=$?
grep -q '^versions ' "$folder/real.txt"
[ -s "$folder/real/gpu-1.tar.gz" ]
if grep -q '^versions *unsupported here' "$folder/real.txt"; then grep -q '^no CUDA device: ' "$folder/real.txt"; [ "$status" -eq 1 ]; fi
