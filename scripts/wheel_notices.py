#!/usr/bin/env python3
"""Writes the third-party notices into a wheel: every library in it, and what is compiled into its programs.

    usage: scripts/wheel_notices.py WHEEL            writes emplace/THIRD_PARTY_NOTICES, and its line in RECORD
           scripts/wheel_notices.py --check WHEEL    fails, with the names, where a library in it has no notice

Licences are those of the Debian packages that the files come from (/usr/share/doc/PACKAGE/copyright), and of files of this
repository that others wrote or measured.
"""

import base64
import gzip
import hashlib
import os
import re
import subprocess
import sys
import zipfile

NOTICES = "emplace/THIRD_PARTY_NOTICES"
# Packages whose code is compiled into the programs, by headers or static libraries; graphs of reports use dygraphs.
COMPILED_IN = ["cppzmq-dev", "libboost-dev", "libcli11-dev", "libeigen3-dev", "libfmt-dev", "libjs-dygraphs",
               "libmsgpack-cxx-dev", "libspdlog-dev", "libsqlitecpp-dev", "libtomlplusplus-dev", "libxxhash-dev",
               "nlohmann-json3-dev"]
# Of this repository: what is compiled in, its source, and the file with its notice.
IN_REPOSITORY = [("tables of costs, fitted to measurements", "pypi.org/project/aiconfigurator-core, github.com/sitar-lab/NeuSight, "
                  "github.com/VIA-Research/vTrain", "placement/costs/third_party/copyright"),
                 ("onnx.proto 1.23.2", "https://github.com/onnx/onnx", "graph/formats/onnx/third_party/onnx/LICENSE")]
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# Licences that Debian's copyright files name without their text.
FULL_TEXTS = {"libscotch-7.0": "/usr/share/doc/libscotch-dev/CeCILL-C_V1-en.txt.gz"}
CUDA = """CUDA runtime (libcudart_static), NVIDIA
Compiled into emplace-exec-cuda. Attachment A of the CUDA Toolkit End User License Agreement
(https://docs.nvidia.com/cuda/eula/) permits to distribute it in applications.
"""


def output_of(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def libraries_in(wheel):
    """Names of the shared libraries in a wheel, as they lie in it."""
    return sorted(os.path.basename(name) for name in wheel.namelist() if re.search(r"\.so(\.|$)", name))


def soname(name):
    """auditwheel puts a hash into names: libzmq-1a2b3c4d.so.5.2.4 is libzmq.so.5.2.4."""
    return re.sub(r"-[0-9a-f]{8}(?=\.|-)", "", name)


def installed_file(name, known):
    """The file of this machine that a library in the wheel is a copy of."""
    stem = re.escape(soname(name))
    for path in known:
        real = os.path.realpath(path)
        if re.fullmatch(stem, os.path.basename(path)) or re.fullmatch(stem, os.path.basename(real)):
            return real
    raise SystemExit(f"error: {name}: no library of this machine has this name; make the wheel on the machine that built it")


def package_of(path):
    """The Debian package of a file. Files of merged folders are known under /lib or under /usr/lib."""
    for candidate in (path, path.removeprefix("/usr")):
        found = subprocess.run(["dpkg", "-S", candidate], capture_output=True, text=True)
        if found.returncode == 0:
            return found.stdout.split(":")[0].split(",")[0]
    raise SystemExit(f"error: {path}: belongs to no Debian package; its licence is unknown")


def notice(package):
    """Name, source and version, and the text of a package's licences."""
    name, version, source, source_version = output_of(
        "dpkg-query", "-W", "-f", "${Package}\t${Version}\t${source:Package}\t${source:Version}\n", package
    ).splitlines()[0].split("\t")
    path = f"/usr/share/doc/{name}/copyright"
    if not os.path.exists(path):
        raise SystemExit(f"error: {path}: is missing; reinstall {name} (a container may leave out /usr/share/doc)")
    with open(path, encoding="utf-8", errors="replace") as file:
        text = file.read().strip()
    licences = sorted(set(re.findall(r"^License: *(\S.*)$", text, re.M))) or ["see its text"]
    return {"package": name, "version": version, "licences": "; ".join(licences), "text": text,
            "source": f"https://sources.debian.org/src/{source}/{source_version}/"}


def notice_in_repository(name, source, path):
    """As notice(), of something in this repository."""
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        text = file.read().strip()
    licences = sorted(set(re.findall(r"^License: *(\S.*)$", text, re.M))) or ["see its text"]
    return {"package": name, "version": "", "licences": "; ".join(licences), "text": text, "source": source}


def notices_of(wheel):
    known = [line.split("=> ")[1] for line in output_of("ldconfig", "-p").splitlines() if "=> " in line]
    files = {}
    for name in libraries_in(wheel):
        files.setdefault(package_of(installed_file(name, known)), []).append(name)
    parts = ["Third-party software in this wheel\n",
             "Each library lies in the wheel as Debian built it, without debug symbols; its source is at the address",
             "beside it. The libraries are separate files, which may be replaced by other versions of the same interface.\n"]
    shipped = [(notice(package), names) for package, names in sorted(files.items())]
    texts = [*map(notice, COMPILED_IN), *(notice_in_repository(*one) for one in IN_REPOSITORY)]
    compiled = [(about, ["compiled into the programs"]) for about in texts]
    for about, names in shipped + compiled:
        parts += [f"{about['package']} {about['version']}".strip(), f"  files     {', '.join(names)}",
                  f"  licences  {about['licences']}", f"  source    {about['source']}", ""]
    cuda = any(name.endswith("/emplace-exec-cuda") for name in wheel.namelist())
    if cuda:
        parts.append(CUDA)
    for text in sorted({about["text"] for about, _ in shipped + compiled}):
        owners = sorted(about["package"] for about, _ in shipped + compiled if about["text"] == text)
        parts += ["=" * 78, ", ".join(owners), "=" * 78, text, ""]
    for path in sorted({FULL_TEXTS[about["package"]] for about, _ in shipped if about["package"] in FULL_TEXTS}):
        with gzip.open(path, "rt", encoding="latin-1") as file:
            parts += ["=" * 78, os.path.basename(path).removesuffix(".gz"), "=" * 78, file.read(), ""]
    # Debian's files refer to the full texts of common licences.
    for name in sorted(set(re.findall(r"/usr/share/common-licenses/([\w.-]*\w)", "\n".join(parts)))):
        with open(f"/usr/share/common-licenses/{name}", encoding="utf-8") as file:
            parts += ["=" * 78, f"/usr/share/common-licenses/{name}", "=" * 78, file.read(), ""]
    return "\n".join(parts)


def write(path):
    partial = path + ".partial"
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED) as new:
        text = notices_of(old).encode()
        digest = base64.urlsafe_b64encode(hashlib.sha256(text).digest()).rstrip(b"=").decode()
        for entry in old.infolist():
            if entry.filename == NOTICES:
                continue
            content = old.read(entry)
            if entry.filename.endswith(".dist-info/RECORD"):
                lines = [line for line in content.decode().splitlines() if not line.startswith(NOTICES + ",")]
                lines.insert(-1, f"{NOTICES},sha256={digest},{len(text)}")
                content = "\n".join([*lines, ""]).encode()
                new.writestr(NOTICES, text)
            entry.compress_type = zipfile.ZIP_DEFLATED
            new.writestr(entry, content, compresslevel=9)
    os.replace(partial, path)


def check(path):
    with zipfile.ZipFile(path) as wheel:
        text = wheel.read(NOTICES).decode()
        listed = set(re.findall(r"[^\s,]+\.so[^\s,]*", "\n".join(re.findall(r"^  files     (.*)$", text, re.M))))
        missing = sorted(set(libraries_in(wheel)) - listed)
    if missing:
        raise SystemExit(f"error: {path}: no notice for {', '.join(missing)}; make the wheel again")


def main():
    arguments = sys.argv[1:]
    if len(arguments) == 2 and arguments[0] == "--check":
        check(arguments[1])
    elif len(arguments) == 1 and not arguments[0].startswith("-"):
        write(arguments[0])
    else:
        raise SystemExit(__doc__)


if __name__ == "__main__":
    main()
