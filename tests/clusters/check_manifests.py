#!/usr/bin/env python3
"""Says what is wrong with Kubernetes manifests, without a cluster: a strict schema of our own (kubernetes.schema.json), then what no
schema can say: that names refer to something, labels match, volumes and ports and keys are there, quantities fit.

usage: check_manifests.py [--external KIND/NAME]... [--restricted] [--kubectl] FILE.json
  --external  a Secret, ConfigMap, ServiceAccount or PersistentVolumeClaim that is not in the file and needs not be
  --restricted  also: every pod keeps to the Pod Security Standard "restricted", cannot write its root file system, has no token of the
              API, and takes connections only as a NetworkPolicy says
  --kubectl   also has the real types of the API decode every item (kubectl set --local, which asks no server); skips without kubectl
exit status: 0 sound; 1 not, with one line "FILE: KIND/NAME: WHERE: WHAT" for each error; 2 usage; 77 skipped
"""

import argparse
import fractions
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

DEBIAN = "/usr/bin/python3"  # python3-jsonschema belongs to this one, another python3 may come first in PATH


def skip(reason):
    print("skip:", reason)
    sys.exit(77)


try:
    import jsonschema
except ImportError:
    if os.path.exists(DEBIAN) and "EMPLACE_DEBIAN_PYTHON" not in os.environ:
        os.execve(DEBIAN, [DEBIAN, *sys.argv], {**os.environ, "EMPLACE_DEBIAN_PYTHON": "1"})
    skip("python3-jsonschema is not installed")

SUFFIX = {"": 1, "m": fractions.Fraction(1, 1000), "u": fractions.Fraction(1, 10**6), "n": fractions.Fraction(1, 10**9), "k": 1000,
          **{s: 1000 ** (i + 2) for i, s in enumerate("MGTPE")}, **{s + "i": 1024 ** (i + 1) for i, s in enumerate("KMGTPE")}}


def quantity(text):
    """The number that a quantity of Kubernetes (schema: quantity) stands for."""
    number, suffix = re.fullmatch(r"([0-9.]+)(.*)", text).groups()
    if suffix[:1] in ("e", "E") and suffix[1:].lstrip("+-").isdigit():
        return fractions.Fraction(number + suffix)
    return fractions.Fraction(number) * SUFFIX[suffix]


def against_schema(document, schema):
    """[(path, what)]"""
    def pattern(validator, expression, text, _):  # Python's $ lets a last newline pass
        if isinstance(text, str) and (text.endswith("\n") or not re.search(expression, text)):
            yield jsonschema.ValidationError(f"{text!r} does not match {expression!r}")

    strict = jsonschema.validators.extend(jsonschema.Draft202012Validator, {"pattern": pattern})
    checker = strict(schema, format_checker=jsonschema.FormatChecker())
    found = []
    for error in checker.iter_errors(document):
        while error.context:  # of alternatives, the one that got furthest
            error = max(error.context, key=lambda e: len(e.absolute_path))
        found.append((list(error.absolute_path), error.message if len(error.message) < 300 else error.message[:300] + "..."))
    return found


def duplicates(names):
    seen = set()
    return sorted({n for n in names if n in seen or seen.add(n)})


def matches(selector, labels):
    return selector.items() <= labels.items()


class Checker:
    def __init__(self, items, external, restricted=False):
        self.restricted = restricted
        self.errors = []
        self.items = items
        self.external = external
        self.known = {(i["kind"], self.namespace(i), i["metadata"]["name"]): i for i in items}
        self.workloads = [i for i in items if i["kind"] in ("StatefulSet", "Deployment")]

    @staticmethod
    def namespace(item):
        return item["metadata"].get("namespace", "default")

    def error(self, item, where, what):
        self.errors.append((item, where, what))

    def refer(self, item, where, kind, name, keys=(), optional=False):
        """The item refers to another by its name, and to keys in it."""
        found = self.known.get((kind, self.namespace(item), name))
        if found is None:
            if not optional and f"{kind}/{name}" not in self.external:
                self.error(item, where, f"{kind}/{name} is neither in the file nor external")
            return
        there = {k for part in ("data", "stringData", "binaryData") for k in found.get(part, {})}
        for key in keys:
            if key not in there and not optional:
                self.error(item, where, f"{kind}/{name} has no key {key!r}")

    def all(self):
        for kind, namespace, name in duplicates((i["kind"], self.namespace(i), i["metadata"]["name"]) for i in self.items):
            self.error(self.known[kind, namespace, name], "metadata.name", "is there twice")
        for item in self.items:
            if item["kind"] == "Service":
                self.service(item)
            elif item["kind"] == "NetworkPolicy":
                self.network_policy(item)
            elif item["kind"] in ("ConfigMap", "Secret"):
                self.data(item)
            elif item["kind"] == "ServiceAccount":
                for i, secret in enumerate(item.get("imagePullSecrets", [])):
                    self.refer(item, f"imagePullSecrets[{i}]", "Secret", secret["name"])
        for item in self.workloads:
            self.workload(item)
        return self.errors

    def data(self, item):
        for key in duplicates(k for part in ("data", "stringData", "binaryData") for k in item.get(part, {})):
            self.error(item, "data", f"key {key!r} is there twice")
        if len(json.dumps([item.get(part) for part in ("data", "stringData", "binaryData")])) > 1 << 20:
            self.error(item, "data", "is larger than 1 MiB")

    def selected(self, service):
        return self.pods_with(service["spec"]["selector"], self.namespace(service))

    def pods_with(self, labels, namespace):
        return [w for w in self.workloads if self.namespace(w) == namespace and matches(labels, w["spec"]["template"]["metadata"]["labels"])]

    def network_policy(self, item):
        guarded = self.pods_with(item["spec"]["podSelector"]["matchLabels"], self.namespace(item))
        if not guarded:
            self.error(item, "spec.podSelector", "selects no pods of this file")
        for i, rule in enumerate(item["spec"]["ingress"]):
            for j, peer in enumerate(rule["from"]):
                if not self.pods_with(peer["podSelector"]["matchLabels"], self.namespace(item)):
                    self.error(item, f"spec.ingress[{i}].from[{j}]", "selects no pods of this file")
            for j, port in enumerate(rule["ports"]):
                for workload in guarded:
                    ports = [p for c in workload["spec"]["template"]["spec"]["containers"] for p in c.get("ports", [])]
                    if not any(port["port"] in (p["name"], p["containerPort"]) for p in ports):
                        self.error(item, f"spec.ingress[{i}].ports[{j}]",
                                   f"no container of {workload['metadata']['name']} has port {port['port']!r}")

    def restrict(self, item, pod, containers):
        """The Pod Security Standard "restricted", and what it leaves open."""
        at = "spec.template.spec"
        if pod.get("automountServiceAccountToken") is not False:
            self.error(item, at, "has a token of the API (automountServiceAccountToken)")
        if not any(p["kind"] == "NetworkPolicy" and item in self.pods_with(p["spec"]["podSelector"]["matchLabels"], self.namespace(p))
                   for p in self.items):
            self.error(item, at, "is guarded by no NetworkPolicy")
        shared = pod.get("securityContext", {})
        for where, container in containers:
            own = container.get("securityContext", {})
            either = {**shared, **own}
            for wrong, what in ((either.get("runAsNonRoot") is not True, "may run as root"),
                                (own.get("allowPrivilegeEscalation") is not False, "may escalate its privileges"),
                                (own.get("capabilities") != {"drop": ["ALL"]}, "keeps capabilities"),
                                (own.get("readOnlyRootFilesystem") is not True, "can write its root file system"),
                                (either.get("seccompProfile", {}).get("type") not in ("RuntimeDefault", "Localhost"), "has no seccomp profile")):
                if wrong:
                    self.error(item, f"{where}.securityContext", what)

    def service(self, item):
        spec = item["spec"]
        if not re.fullmatch(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?", item["metadata"]["name"]):
            self.error(item, "metadata.name", "of a Service is a DNS-1035 label of at most 63 characters")
        if spec.get("clusterIP") == "None" and spec.get("type", "ClusterIP") != "ClusterIP":
            self.error(item, "spec.type", "a headless Service is of type ClusterIP")
        for name in duplicates(p["name"] for p in spec["ports"]):
            self.error(item, "spec.ports", f"name {name!r} is there twice")
        for number, protocol in duplicates((p["port"], p.get("protocol", "TCP")) for p in spec["ports"]):
            self.error(item, "spec.ports", f"port {number}/{protocol} is there twice")
        selected = self.selected(item)
        if not selected:
            self.error(item, "spec.selector", "selects no pods of this file")
        for workload in selected:
            ports = [p for c in workload["spec"]["template"]["spec"]["containers"] for p in c.get("ports", [])]
            for i, port in enumerate(spec["ports"]):
                target = port.get("targetPort", port["port"])
                if not any(target in (p["name"], p["containerPort"]) and p.get("protocol", "TCP") == port.get("protocol", "TCP")
                           for p in ports):
                    self.error(item, f"spec.ports[{i}]", f"no container of {workload['metadata']['name']} has port {target!r}")

    def workload(self, item):
        spec = item["spec"]
        name = item["metadata"]["name"]
        labels = spec["template"]["metadata"]["labels"]
        selector = spec["selector"]["matchLabels"]
        if not matches(selector, labels):
            self.error(item, "spec.selector.matchLabels", f"{selector} do not select the template's labels {labels}")
        for other in self.workloads:
            if other is not item and self.namespace(other) == self.namespace(item) and matches(
                    selector, other["spec"]["template"]["metadata"]["labels"]):
                self.error(item, "spec.selector.matchLabels", f"also select the pods of {other['metadata']['name']}")
        claims = []
        if item["kind"] == "StatefulSet":
            claims = [c["metadata"]["name"] for c in spec.get("volumeClaimTemplates", [])]
            if "." in name or len(name) > 52:
                self.error(item, "metadata.name", "with number and hash is a label of pods: no dots, at most 52 characters")
            service = self.known.get(("Service", self.namespace(item), spec["serviceName"]))
            if service is None:
                self.error(item, "spec.serviceName", f"Service/{spec['serviceName']} is not in the file")
            elif service["spec"].get("clusterIP") != "None":
                self.error(item, "spec.serviceName", f"Service/{spec['serviceName']} is not headless (clusterIP: None)")
            elif item not in self.selected(service):
                self.error(item, "spec.serviceName", f"Service/{spec['serviceName']} does not select these pods")
            for i, claim in enumerate(spec.get("volumeClaimTemplates", [])):
                amounts = claim["spec"]["resources"]
                if quantity(amounts["requests"]["storage"]) <= 0:
                    self.error(item, f"spec.volumeClaimTemplates[{i}]", "asks for nothing")
        rolling = spec.get("strategy", {}).get("rollingUpdate", {})
        if rolling.get("maxSurge") in (0, "0%") and rolling.get("maxUnavailable") in (0, "0%"):
            self.error(item, "spec.strategy", "maxSurge and maxUnavailable are both 0")
        self.pod(item, spec["template"]["spec"], claims)

    def pod(self, item, pod, claims):
        at = "spec.template.spec"
        volumes = claims + [v["name"] for v in pod.get("volumes", [])]
        for name in duplicates(volumes):
            self.error(item, f"{at}.volumes", f"name {name!r} is there twice")
        for i, volume in enumerate(pod.get("volumes", [])):
            where = f"{at}.volumes[{i}]"
            for kind, field, key in (("ConfigMap", "configMap", "name"), ("Secret", "secret", "secretName"),
                                     ("PersistentVolumeClaim", "persistentVolumeClaim", "claimName")):
                source = volume.get(field)
                if source:
                    entries = source.get("items", [])
                    self.refer(item, where, kind, source[key], [e["key"] for e in entries], source.get("optional", False))
                    for path in duplicates(e["path"] for e in entries):
                        self.error(item, where, f"path {path!r} is there twice")
        account = pod.get("serviceAccountName", "default")
        if account != "default":
            self.refer(item, f"{at}.serviceAccountName", "ServiceAccount", account)
        for i, secret in enumerate(pod.get("imagePullSecrets", [])):
            self.refer(item, f"{at}.imagePullSecrets[{i}]", "Secret", secret["name"])
        containers = [(f"{at}.{part}[{i}]", c) for part in ("initContainers", "containers") for i, c in enumerate(pod.get(part, []))]
        for name in duplicates(c["name"] for _, c in containers):
            self.error(item, f"{at}.containers", f"name {name!r} is there twice")
        ports = [p for _, c in containers for p in c.get("ports", [])]
        for number, protocol in duplicates((p["containerPort"], p.get("protocol", "TCP")) for p in ports):
            self.error(item, f"{at}.containers", f"port {number}/{protocol} is there twice")
        for name in duplicates(p["name"] for p in ports):
            self.error(item, f"{at}.containers", f"port name {name!r} is there twice")
        for where, container in containers:
            self.container(item, pod, where, container, volumes)
        if self.restricted:
            self.restrict(item, pod, containers)
        mounted = {m["name"] for _, c in containers for m in c.get("volumeMounts", [])}
        for name in volumes:
            if name not in mounted:
                self.error(item, f"{at}.volumes", f"{name!r} is mounted nowhere")

    def container(self, item, pod, where, container, volumes):
        mounts = container.get("volumeMounts", [])
        for i, mount in enumerate(mounts):
            if mount["name"] not in volumes:
                self.error(item, f"{where}.volumeMounts[{i}]", f"there is no volume {mount['name']!r}")
        for path in duplicates(m["mountPath"].rstrip("/") for m in mounts):
            self.error(item, f"{where}.volumeMounts", f"mountPath {path!r} is there twice")

        names = [v["name"] for v in container.get("env", [])]
        for name in duplicates(names):
            self.error(item, f"{where}.env", f"{name!r} is there twice")
        for i, variable in enumerate(container.get("env", [])):
            for kind, field in (("ConfigMap", "configMapKeyRef"), ("Secret", "secretKeyRef")):
                source = variable.get("valueFrom", {}).get(field)
                if source:
                    self.refer(item, f"{where}.env[{i}]", kind, source["name"], [source["key"]], source.get("optional", False))
            # A variable's value may name those before it.
            self.variables(item, f"{where}.env[{i}]", variable.get("value", ""), container, names[:i])
        for i, source in enumerate(container.get("envFrom", [])):
            for kind, field in (("ConfigMap", "configMapRef"), ("Secret", "secretRef")):
                if field in source:
                    self.refer(item, f"{where}.envFrom[{i}]", kind, source[field]["name"], (), source[field].get("optional", False))
        for part in ("command", "args"):
            for i, word in enumerate(container.get(part, [])):
                self.variables(item, f"{where}.{part}[{i}]", word, container, names)

        ports = {p["name"] for p in container.get("ports", [])}
        for probe in ("livenessProbe", "readinessProbe", "startupProbe"):
            asked = container.get(probe, {})
            if where.split(".")[-1].startswith("init") and asked:
                self.error(item, f"{where}.{probe}", "an init container has no probes")
            if probe != "readinessProbe" and asked.get("successThreshold", 1) != 1:
                self.error(item, f"{where}.{probe}.successThreshold", "is 1 here")
            if probe == "readinessProbe" and "terminationGracePeriodSeconds" in asked:
                self.error(item, f"{where}.{probe}.terminationGracePeriodSeconds", "a readiness probe ends nothing")
            for handler in ("httpGet", "tcpSocket"):
                port = asked.get(handler, {}).get("port")
                if isinstance(port, str) and port not in ports:
                    self.error(item, f"{where}.{probe}.{handler}", f"there is no port {port!r}")

        requests, limits = container["resources"]["requests"], container["resources"]["limits"]
        for name, amount in requests.items():
            if name in limits and quantity(amount) > quantity(limits[name]):
                self.error(item, f"{where}.resources", f"requests {amount} of {name}, more than its limit {limits[name]}")
        for name in sorted({*requests, *limits} - {"cpu", "memory", "ephemeral-storage"}):
            if name.startswith("hugepages-"):
                continue
            if "/" not in name:
                self.error(item, f"{where}.resources", f"{name!r} is no resource")
            elif name not in limits or requests.get(name, limits[name]) != limits[name] or quantity(limits[name]).denominator != 1:
                self.error(item, f"{where}.resources", f"{name} wants a limit, whole, and the request the same")

        own, shared = container.get("securityContext", {}), pod.get("securityContext", {})
        if own.get("runAsNonRoot", shared.get("runAsNonRoot")) and own.get("runAsUser", shared.get("runAsUser")) == 0:
            self.error(item, f"{where}.securityContext", "runs as user 0 and as non-root")
        if own.get("privileged") and own.get("allowPrivilegeEscalation") is False:
            self.error(item, f"{where}.securityContext", "is privileged and may not escalate")

    def variables(self, item, where, text, container, names):
        """$(NAME) is left as it is, and so reaches the program, where no such variable is."""
        if not container.get("envFrom"):
            for name in re.findall(r"\$\(([A-Za-z_][A-Za-z0-9_]*)\)", text.replace("$$", "")):
                if name not in names:
                    self.error(item, where, f"$({name}) is not set")


def lost(given, kept, path=""):
    """Fields that the API's types do not have: they are gone when the item comes back."""
    if isinstance(given, dict) and isinstance(kept, dict):
        for key, value in given.items():
            if key in kept:
                yield from lost(value, kept[key], f"{path}.{key}")
            elif value not in (0, "", False, None, [], {}):
                yield f"{path}.{key}"
    elif isinstance(given, list) and isinstance(kept, list):
        for i, (one, other) in enumerate(zip(given, kept)):
            yield from lost(one, other, f"{path}[{i}]")


def decode(item):
    """What the types that kubectl has compiled in say to an item. set refuses kinds it cannot set, but only once they are decoded."""
    change = ["selector", "emplace=check"] if item["kind"] == "Service" else ["env", "EMPLACE_CHECK=1"]
    done = subprocess.run(["kubectl", "set", change[0], "--local", "-f", "-", "-o", "json", *change[1:]], input=json.dumps(item),
                          env={**os.environ, "KUBECONFIG": "/dev/null"}, capture_output=True, text=True, timeout=60)
    if done.returncode == 0:
        gone = [path[1:] for path in lost(item, json.loads(done.stdout))]
        return [f"the API has no {path}" for path in gone if not (item["kind"] == "Service" and path.startswith("spec.selector."))]
    return [done.stderr.strip()] if "unable to decode" in done.stderr or item["kind"] in ("Service", "StatefulSet", "Deployment") else []


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("usage: ")[1])
    parser.add_argument("--external", action="append", default=[])
    parser.add_argument("--restricted", action="store_true")
    parser.add_argument("--kubectl", action="store_true")
    parser.add_argument("file")
    options = parser.parse_args()
    for name in options.external:
        if name.split("/")[0] not in ("Secret", "ConfigMap", "ServiceAccount", "PersistentVolumeClaim") or name.count("/") != 1:
            parser.error(f"--external {name}")
    if options.kubectl and not shutil.which("kubectl"):
        skip("kubectl is not installed")
    schema = json.loads(pathlib.Path(__file__).with_name("kubernetes.schema.json").read_text())

    def once(pairs):
        if twice := duplicates(key for key, _ in pairs):
            raise ValueError(f"key {twice[0]!r} is there twice")
        return dict(pairs)

    try:
        document = json.loads(pathlib.Path(options.file).read_text(), object_pairs_hook=once)
    except (OSError, ValueError) as error:
        print(f"{options.file}: {error}", file=sys.stderr)
        return 1
    several = isinstance(document, dict) and document.get("kind") == "List"
    errors = []
    for path, what in against_schema(document, schema):
        item = document
        if several and path[:1] == ["items"] and len(path) > 1:
            item, path = document["items"][path[1]], path[2:]
        where = "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in path).lstrip(".")
        errors.append((item, where or "(whole)", what))
    if not errors:
        items = document["items"] if several else [document]
        errors = Checker(items, set(options.external), options.restricted).all()
        if options.kubectl:
            errors += [(item, "kubectl", what) for item in items for what in decode(item)]
    for item, where, what in errors:
        metadata = item.get("metadata") if isinstance(item, dict) else None
        name = metadata.get("name") if isinstance(metadata, dict) else None
        kind = item.get("kind") if isinstance(item, dict) else None
        print(f"{options.file}: {kind}/{name}: {where}: {what}".replace("\n", "\\n"), file=sys.stderr)
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
