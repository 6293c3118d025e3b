#!/usr/bin/env bash
# Goal: the image of scripts/image.sh is small, has the same bytes twice, reports its version, and runs the quickstart as a
# pod does. Method: it is unpacked, and run by its user on a read-only root file system, in namespaces of its own, without a
# network. Exit status 77: skipped.
#   usage: EMPLACE_IMAGE=1 tests/clusters/image_test.sh BUILD
set -euo pipefail
cd "$(dirname "$0")/../.."
skip() { echo "skip: $*"; exit 77; }
fail() { echo "error: image_test: $*" >&2; exit 1; }
[ "${EMPLACE_IMAGE:-}" = 1 ] || skip "it takes minutes and a mirror of Debian; EMPLACE_IMAGE=1 runs it"
for tool in mmdebstrap umoci; do command -v $tool >/dev/null || skip "$tool is not installed"; done
[ "$(id -u)" -eq 0 ] || skip "only root can take the place of a container runtime"
unshare --mount --pid --net --fork true 2>/dev/null || skip "no namespaces here"

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export SOURCE_DATE_EPOCH=1700000000
for name in first second; do scripts/image.sh "$1" "$folder/$name.tar"; done
cmp "$folder/first.tar" "$folder/second.tar" || fail "two archives of the same programs differ"
[ "$(stat -c %s "$folder/first.tar")" -lt 200000000 ] || fail "the archive has 200 MB or more"

version=$("$1/emplace" --version | sed -n 's/^emplace //p')
mkdir "$folder/layout"
tar -C "$folder/layout" -xf "$folder/first.tar"
umoci unpack --image "$folder/layout:$version" "$folder/bundle" >/dev/null
root=$folder/bundle/rootfs
[ "$(du -s --block-size=1M "$root" | cut -f1)" -lt 200 ] || fail "unpacked it has 200 MB or more"
python3 - "$folder/bundle/config.json" "$folder/layout" "$version" <<'PY' || fail "its config is another one"
import json, pathlib, sys
bundle, layout, version = sys.argv[1:]
process = json.loads(pathlib.Path(bundle).read_text())["process"]
assert (process["user"]["uid"], process["user"]["gid"]) == (10001, 10001), process["user"]
assert process["args"] == ["emplace"] and process["cwd"] == "/var/lib/emplace", process
blobs = pathlib.Path(layout) / "blobs" / "sha256"
configs = [blob for blob in map(lambda f: f.read_bytes(), blobs.iterdir()) if blob.startswith(b'{"created"')]
(config,) = map(json.loads, configs)
labels = config["config"]["Labels"]
assert labels["org.opencontainers.image.version"] == version, labels
assert config["created"] == "2023-11-14T22:13:20Z", config["created"]
PY
grep -q aiconfigurator-core "$root/usr/share/doc/emplace/copyright" || fail "it lacks the notice of the fitted tables"
times=$(find "$root" -newermt @1700000001 ! -type l | head -3)
[ -z "$times" ] || fail "files are newer than SOURCE_DATE_EPOCH: $times"

# A container: namespaces of its own, a read-only root, two folders to write.
inside() {
  unshare --mount --pid --net --ipc --uts --fork --kill-child bash -euc '
    root=$1; shift
    mount --bind "$root" "$root"
    mount -t proc proc "$root/proc"
    mount -t tmpfs -o uid=10001,gid=10001 tmpfs "$root/var/lib/emplace"
    mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
    mount --bind /dev "$root/dev"
    mount -o remount,bind,ro "$root"
    exec env -i PATH=/usr/local/bin:/usr/bin:/bin HOME=/var/lib/emplace \
      /usr/sbin/chroot --userspec=10001:10001 --groups= "$root" setpriv --no-new-privs "$@"' bash "$root" "$@"
}
out=$(inside emplace --version) || fail "the program does not start: $out"
[ "${out%%$'\n'*}" = "emplace $version" ] || fail "it is another version: $out"
for word in sh cp sleep tar; do inside sh -c "command -v $word" >/dev/null || fail "$word is missing"; done
if inside sh -c 'touch /usr/x' 2>/dev/null; then fail "its root file system can be written"; fi
inside emplace run /usr/share/emplace/configs/quickstart.toml --budget 3s --run-dir /var/lib/emplace/run \
  >"$folder/out" 2>"$folder/err" || { tail -5 "$folder/err" >&2; fail "the quickstart fails in it"; }
grep -q '^best placement:' "$folder/out" || fail "the quickstart has no result: $(tail -3 "$folder/out")"
missing=$(for program in "$root"/usr/bin/emplace*; do inside ldd "/usr/bin/${program##*/}" | grep "not found" || true; done)
[ -z "$missing" ] || fail "libraries are missing: $missing"
echo "the image is sound: $(stat -c %s "$folder/first.tar") bytes"
