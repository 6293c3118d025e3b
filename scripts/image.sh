#!/usr/bin/env bash
# Writes an OCI image of the programs of a release build as one archive, emplace-VERSION.oci.tar: Debian's smallest
# system, the libraries that the programs need, and the example configs; a user without privileges, entrypoint emplace.
# Needs no daemon and no registry, and no root where users may have namespaces (package uidmap).
#   usage: scripts/image.sh [BUILD [ARCHIVE]]
#     BUILD    folder of a build (default: build/release, built if it is missing)
#     ARCHIVE  default: build/image/emplace-VERSION.oci.tar
# SOURCE_DATE_EPOCH (default: time of the newest commit) is the only time in the archive: from the same programs and the
# same packages it has the same bytes. Use the archive with: skopeo copy oci-archive:FILE docker://…, podman load -i FILE,
# ctr image import FILE.
set -euo pipefail
cd "$(dirname "$0")/.."
case "${1:-}" in
  -h | --help)
    sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//p}' "$0"
    exit 0
    ;;
esac
fail() { echo "error: image: $*" >&2; exit 2; }
for tool in mmdebstrap umoci; do
  command -v $tool >/dev/null || fail "$tool is missing; apt-get install mmdebstrap umoci"
done
. /etc/os-release
[ "${ID:-}" = debian ] || fail "this machine is ${ID:-unknown}: the image would lack the libraries that the programs need; use Debian"
mode=root
if [ "$(id -u)" -ne 0 ]; then
  mode=unshare
  unshare --user --map-root-user true 2>/dev/null || fail "this user may not create namespaces; run it as root"
  { command -v newuidmap && grep -q "^$(id -un):" /etc/subuid; } >/dev/null ||
    fail "this user has no range of user numbers; install uidmap and add a line to /etc/subuid and /etc/subgid, or run it as root"
fi
build=${1:-build/release}
if [ ! -x "$build/emplace" ]; then
  [ $# -eq 0 ] || fail "$build/emplace: no such program; build it, or leave BUILD out"
  scripts/setup.sh --programs-only
  cmake --preset release -DEMPLACE_TESTS=OFF -DEMPLACE_BENCHES=OFF
  cmake --build "$build" --target programs
fi
version=$("$build/emplace" --version | sed -n 's/^emplace //p')
[ -n "$version" ] || fail "$build/emplace does not report its version"
archive=$(realpath -m "${2:-build/image/emplace-$version.oci.tar}")
revision=$(git rev-parse HEAD 2>/dev/null || echo unknown)
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 0)}
created=$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)
mkdir -p "$(dirname "$archive")"
work=$(mktemp -d "${TMPDIR:-/tmp}/emplace-image.XXXXXX")
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"

# The programs, the example configs with their graphs, and the user.
mkdir -p "$work/files/usr/bin" "$work/files/usr/share/emplace"
programs=()
for program in emplace emplace-exec-cpu emplace-exec-fake emplace-exec-cuda; do
  [ -x "$build/$program" ] || { echo "image: $program was not built and is left out" >&2; continue; }
  strip -o "$work/files/usr/bin/$program" "$build/$program"
  programs+=("$build/$program")
done
cp -r configs "$work/files/usr/share/emplace/configs"
install -D -m 644 placement/costs/third_party/copyright "$work/files/usr/share/doc/emplace/copyright"
install -D -m 644 graph/formats/onnx/third_party/onnx/LICENSE "$work/files/usr/share/doc/emplace/copyright.onnx"
mkdir -p "$work/files/var/lib/emplace"

# Packages of the libraries: those that the programs are linked with, and those that they open by name. CUDA's belong to
# the driver of a machine.
libraries=$({
  ldd "${programs[@]}" | awk '$2 == "=>" && $3 ~ /^\// { print $3 }'
  strings -n 8 "$build/emplace" | grep -xE 'libClp\.so\.[0-9]+' | while read -r name; do
    ldconfig -p | awk -v name="$name" '$1 == name { print $NF; exit }'
  done
} | sort -u)
packages=()
while read -r library; do
  real=$(realpath "$library") # Older packages name /lib, which is /usr/lib.
  owner=$(dpkg-query -S "$real" "${real#/usr}" 2>/dev/null | cut -d: -f1 | head -1) || true
  [ -n "$owner" ] || fail "$library belongs to no package of Debian; build without it"
  packages+=("$owner")
done <<<"$libraries"
include=$(printf '%s\n' "${packages[@]}" | sort -u | paste -sd,)

# What a container never reads is left out; copyright files stay. /usr is merged from the start, so that usrmerge, which
# needs Perl, is not. Logs and caches would have times in them.
mmdebstrap --quiet --mode=$mode --variant=essential --include="$include" \
  --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
  --dpkgopt='path-exclude=/usr/share/info/*' --dpkgopt='path-exclude=/usr/share/doc/*' \
  --dpkgopt='path-include=/usr/share/doc/*/copyright' --dpkgopt='path-exclude=/usr/lib/*/gconv/*' \
  --hook-dir=/usr/share/mmdebstrap/hooks/merged-usr \
  --setup-hook='printf "Package: usrmerge\nPin: version *\nPin-Priority: -1\n" >"$1/etc/apt/preferences.d/image"' \
  --customize-hook="tar -C '$work/files' --owner=0 --group=0 -c . | tar -C \"\$1\" -x --no-same-owner --no-overwrite-dir" \
  --customize-hook='echo emplace:x:10001: >>"$1/etc/group"' \
  --customize-hook='echo emplace:x:10001:10001::/var/lib/emplace:/usr/sbin/nologin >>"$1/etc/passwd"' \
  --customize-hook='chroot "$1" chown 10001:10001 /var/lib/emplace' \
  --customize-hook='rm -rf "$1"/var/log/* "$1"/var/cache/ldconfig/* "$1"/var/cache/debconf/* "$1"/etc/*- "$1"/var/lib/dpkg/*-old "$1"/etc/apt/apt.conf.d/99mmdebstrap "$1"/etc/apt/preferences.d/image' \
  "$VERSION_CODENAME" "$work/root.tar" 2>"$work/log" ||
  { tail -5 "$work/log" >&2; fail "mmdebstrap failed; its mirror must be reachable"; }

image=$work/image
umoci init --layout "$image"
umoci new --image "$image:$version"
umoci raw add-layer --image "$image:$version" --history.created "$created" --history.created_by scripts/image.sh \
  "$work/root.tar" >/dev/null
umoci config --image "$image:$version" --no-history --created "$created" --architecture "$(dpkg --print-architecture)" \
  --os linux --config.user 10001:10001 --config.workingdir /var/lib/emplace --config.entrypoint emplace \
  --config.env PATH=/usr/local/bin:/usr/bin:/bin --config.env HOME=/var/lib/emplace \
  --config.label "org.opencontainers.image.title=emplace" \
  --config.label "org.opencontainers.image.version=$version" \
  --config.label "org.opencontainers.image.revision=$revision" \
  --config.label "org.opencontainers.image.created=$created"
umoci gc --layout "$image" >/dev/null
tar -C "$image" --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --mode=go=rX,u+rw -cf "$archive" .
echo "$archive: $(du -h "$archive" | cut -f1), $(du -h --apparent-size "$work/root.tar" | cut -f1) unpacked"
