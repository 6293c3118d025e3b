#!/usr/bin/env bash
# Builds the pages of docs/ as a site in build/site; open build/site/index.html. A broken link fails, and so does a
# page that the navigation of mkdocs.yml lacks.
#   usage: scripts/docs.sh [FOLDER]      (default: build/site)
set -euo pipefail
cd "$(dirname "$0")/.."
case "${1:-}" in -h | --help) sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//p}' "$0"; exit 0 ;; esac
site=$(realpath -m "${1:-build/site}")
command -v mkdocs >/dev/null || { echo "error: docs: mkdocs is missing; apt-get install mkdocs" >&2; exit 2; }
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if ! mkdocs build --strict --clean --site-dir "$site" >"$log" 2>&1 || grep -q 'not included in the "nav"' "$log"; then
  cat "$log" >&2
  echo "error: docs: the site was not built as it should be; the lines above name the pages" >&2
  exit 4
fi
echo "$site/index.html"
