#!/usr/bin/env bash
# Goal: the bundle for a machine with a GPU is whole: it needs nothing beyond glibc, fits into 64 MiB, finds its fixtures and
# graphs from anywhere, and each of its checks runs to its end. Method: a rehearsal, on functions that call no GPU; and what it
# says where there is none.
#   usage: gpu_bundle_test.sh REPOSITORY EMPLACE-GPU-CHECK FOLDER
set -euo pipefail
repository=$1 program=$2 folder=$3
rm -rf "$folder"
mkdir -p "$folder"
EMPLACE_GPU_CHECK=$program "$repository/scripts/gpu.sh" --bundle "$folder/bundle"
cd /
EMPLACE_GPU_REHEARSE=1 OUT=$folder/rehearsed "$folder/bundle/gpu.sh" --run 300
python3 - "$folder/rehearsed" <<'PYTHON'
import json, pathlib, sys
folder = pathlib.Path(sys.argv[1])
summary = json.loads((folder / "summary.json").read_text())
checks = [name for name, one in summary.items() if isinstance(one, dict)]
assert summary["rehearsal"] is True and len(checks) == 10, summary
for name in checks:
    assert summary[name]["outcome"] == "done", (name, summary[name])
    json.loads((folder / f"{name}.json").read_text())
assert json.loads((folder / "full_device.json").read_text())["full_of_100"] == 100
assert json.loads((folder / "green_contexts.json").read_text())[0]["devices"][0]["promised"] == 64
assert all(step["synthetic_share"] == 0 for step in json.loads((folder / "step_times.json").read_text()).values())
PYTHON
status=0
OUT=$folder/real "$folder/bundle/gpu.sh" --run 11 > "$folder/real.txt" || status=$?
grep -q '"versions"' "$folder/real.txt"
if [ ! -s "$folder/real/versions.json" ]; then grep -q '^no CUDA device: ' "$folder/real/versions.json.err"; [ "$status" -eq 1 ]; fi
