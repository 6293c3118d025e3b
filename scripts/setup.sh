#!/usr/bin/env bash
# Installs the packages of scripts/packages.txt that are missing. Needs root only if there are any.
#   usage: scripts/setup.sh [--programs-only]     (skips packages that only tests and benchmarks need)
set -euo pipefail
cd "$(dirname "$0")/.."

wanted() {
  if [ "${1:-}" = "--programs-only" ]; then sed '/^# tests and benches only/,$d' scripts/packages.txt; else cat scripts/packages.txt; fi |
    grep -vE '^\s*(#|$)'
}

missing=()
while read -r package; do
  dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing+=("$package")
done < <(wanted "$@")
[ ${#missing[@]} -eq 0 ] && exit 0

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || { echo "error: setup: missing packages and no sudo: ${missing[*]}; install them as root" >&2; exit 2; }
  as_root=(sudo)
fi
echo "setup: installing ${missing[*]}" >&2
"${as_root[@]}" apt-get update -qq
# Do not start the servers among them (sshd, munged, Slurm, Prometheus) as services: tests start their own instances.
rule=/usr/sbin/policy-rc.d
if [ ! -e $rule ]; then
  trap '"${as_root[@]}" rm -f $rule' EXIT
  printf '#!/bin/sh\nexit 101\n' | "${as_root[@]}" install -m 755 /dev/stdin $rule
fi
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
for package in "${missing[@]}"; do
  case $package in
    openssh-server) service=ssh ;;
    munge | prometheus | slurmctld | slurmd) service=$package ;;
    *) continue ;;
  esac
  "${as_root[@]}" systemctl disable "$service" >/dev/null 2>&1 || true # Do not start it at boot either.
done
