#!/usr/bin/env python3
"""Checks Kubernetes manifests without a cluster: a strict schema of our own (kubernetes.schema.json), the types of Kubernetes, JobSet
and KEDA (schemas/api.json), then what no schema can express: that names refer to something, labels match, volumes, ports and keys
exist, quantities fit.

usage: check_manifests.py [--external KIND/NAME]... [--restricted] FILE.json
  --external  a Secret, ConfigMap, ServiceAccount or PersistentVolumeClaim that is not in the file and needs not be
  --restricted  also: every pod keeps to the Pod Security Standard "restricted", cannot write its root file system, has no token of the
              API, and takes only the connections that a NetworkPolicy permits
exit status: 0 valid; 1 not, with one line "FILE: KIND/NAME: WHERE: WHAT" for each error; 2 usage; 77 skipped
"""

import argparse
import fractions
import json
import os
import pathlib
import re
import sys

DEBIAN = "/usr/bin/python3"  # The Python of python3-jsonschema; another python3 may come first in PATH.


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
    def pattern(validator, expression, text, _):  # Python's $ lets a last newline pass.
        if isinstance(text, str) and (text.endswith("\n") or not re.search(expression, text)):
            yield jsonschema.ValidationError(f"{text!r} does not match {expression!r}")

    strict = jsonschema.validators.extend(jsonschema.Draft202012Validator, {"pattern": pattern})
    checker = strict(schema, format_checker=jsonschema.FormatChecker())
    found = []
    for error in checker.iter_errors(document):
        while error.context:  # The alternative that matched furthest.
            error = max(error.context, key=lambda e: len(e.absolute_path))
        found.append((list(error.absolute_path), error.message if len(error.message) < 300 else error.message[:300] + "..."))
    return found


def duplicates(names):
    seen = set()
    return sorted({n for n in names if n in seen or seen.add(n)})


def against_types(item, types):
    """[(path, what)]: what the server's own types do not have. None of these is stricter than kubernetes.schema.json should be."""
    kind = f"{item['apiVersion']} {item['kind']}"
    return against_schema(item, {**types["kinds"][kind], "$defs": types["$defs"]})


class Workload:
    """A template of pods: of a Deployment, a Job, or a job of a JobSet."""

    def __init__(self, item, job=None):
        self.item = item
        self.at, spec = "spec", item["spec"]
        if job is not None:
            self.at, spec = f"spec.replicatedJobs[{job}].template.spec", spec["replicatedJobs"][job]["template"]["spec"]
        self.spec = spec
        self.name = item["metadata"]["name"] + ("" if job is None else "-" + item["spec"]["replicatedJobs"][job]["name"])
        self.is_job = item["kind"] != "Deployment"
        self.labels = spec["template"]["metadata"]["labels"]
        self.pod = spec["template"]["spec"]
        self.ports = [p for c in self.pod["containers"] for p in c.get("ports", [])]


def workloads_of(item):
    if item["kind"] == "JobSet":
        return [Workload(item, job) for job in range(len(item["spec"]["replicatedJobs"]))]
    return [Workload(item)] if item["kind"] in ("Deployment", "Job") else []


def matches(selector, labels):
    return selector.items() <= labels.items()


class Checker:
    def __init__(self, items, external, restricted=False):
        self.restricted = restricted
        self.errors = []
        self.items = items
        self.external = external
        self.known = {(i["kind"], self.namespace(i), i["metadata"]["name"]): i for i in items}
        self.workloads = [w for i in items for w in workloads_of(i)]

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
            elif item["kind"] == "JobSet":
                self.job_set(item)
            elif item["kind"] == "ScaledObject":
                self.scaled_object(item)
            elif item["kind"] == "TriggerAuthentication":
                for i, source in enumerate(item["spec"]["secretTargetRef"]):
                    self.refer(item, f"spec.secretTargetRef[{i}]", "Secret", source["name"], [source["key"]])
            elif item["kind"] == "PersistentVolumeClaim":
                if quantity(item["spec"]["resources"]["requests"]["storage"]) <= 0:
                    self.error(item, "spec.resources", "asks for nothing")
            elif item["kind"] == "ServiceAccount":
                for i, secret in enumerate(item.get("imagePullSecrets", [])):
                    self.refer(item, f"imagePullSecrets[{i}]", "Secret", secret["name"])
        for workload in self.workloads:
            self.workload(workload)
        return self.errors

    def data(self, item):
        for key in duplicates(k for part in ("data", "stringData", "binaryData") for k in item.get(part, {})):
            self.error(item, "data", f"key {key!r} is there twice")
        if len(json.dumps([item.get(part) for part in ("data", "stringData", "binaryData")])) > 1 << 20:
            self.error(item, "data", "is larger than 1 MiB")

    def selected(self, service):
        return self.pods_with(service["spec"]["selector"], self.namespace(service))

    def pods_with(self, labels, namespace):
        return [w for w in self.workloads if self.namespace(w.item) == namespace and matches(labels, w.labels)]

    def network_policy(self, item):
        guarded = self.pods_with(item["spec"]["podSelector"]["matchLabels"], self.namespace(item))
        if not guarded:
            self.error(item, "spec.podSelector", "selects no pods of this file")
        for i, rule in enumerate(item["spec"]["ingress"]):
            for j, peer in enumerate(rule["from"]):
                if "podSelector" in peer and "namespaceSelector" not in peer and not self.pods_with(peer["podSelector"]["matchLabels"], self.namespace(item)):
                    self.error(item, f"spec.ingress[{i}].from[{j}]", "selects no pods of this file")
            for j, port in enumerate(rule["ports"]):
                for workload in guarded:
                    if not any(port["port"] in (p["name"], p["containerPort"]) for p in workload.ports):
                        self.error(item, f"spec.ingress[{i}].ports[{j}]", f"no container of {workload.name} has port {port['port']!r}")

    def job_set(self, item):
        jobs = [job["name"] for job in item["spec"]["replicatedJobs"]]
        for name in duplicates(jobs):
            self.error(item, "spec.replicatedJobs", f"name {name!r} is there twice")
        for name in item["spec"]["successPolicy"]["targetReplicatedJobs"]:
            if name not in jobs:
                self.error(item, "spec.successPolicy.targetReplicatedJobs", f"there is no job {name!r}")

    def scaled_object(self, item):
        spec, namespace = item["spec"], self.namespace(item)
        target = self.known.get(("Deployment", namespace, spec["scaleTargetRef"]["name"]))
        if target is None:
            self.error(item, "spec.scaleTargetRef", f"Deployment/{spec['scaleTargetRef']['name']} is not in the file")
        elif "replicas" in target["spec"]:
            self.error(target, "spec.replicas", f"belongs to ScaledObject/{item['metadata']['name']}")
        if spec["minReplicaCount"] > spec["maxReplicaCount"]:
            self.error(item, "spec.minReplicaCount", "is above maxReplicaCount")
        if spec["minReplicaCount"] == 0 and spec.get("fallback", {}).get("replicas") != 0:
            # Without a fallback KEDA changes nothing when its source does not answer.
            self.error(item, "spec.fallback", "is not 0: pods outlive what they are scaled by")
        for i, trigger in enumerate(spec["triggers"]):
            where = f"spec.triggers[{i}]"
            name = trigger.get("authenticationRef", {}).get("name")
            if "authMode" in trigger["metadata"] and name is None:
                self.error(item, where, "has no authenticationRef")
            if name is not None and ("TriggerAuthentication", namespace, name) not in self.known:
                self.error(item, where, f"TriggerAuthentication/{name} is not in the file")
            host, port = re.match(r"https?://([^:/]+):(\d+)", trigger["metadata"]["url"]).groups()
            service = self.known.get(("Service", namespace, host.split(".")[0]))
            if service is None or host.split(".")[1:] not in ([], [namespace], [namespace, "svc"], [namespace, "svc", "cluster", "local"]):
                self.error(item, where, f"no Service of this file is {host}")
            elif int(port) not in [p["port"] for p in service["spec"]["ports"]]:
                self.error(item, where, f"Service/{service['metadata']['name']} has no port {port}")

    def restrict(self, workload, containers):
        """The Pod Security Standard "restricted", and what it leaves open."""
        item, pod, at = workload.item, workload.pod, workload.at + ".template.spec"
        if pod.get("automountServiceAccountToken") is not False:
            self.error(item, at, "has a token of the API (automountServiceAccountToken)")
        if not any(p["kind"] == "NetworkPolicy" and workload in self.pods_with(p["spec"]["podSelector"]["matchLabels"], self.namespace(p))
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
            for i, port in enumerate(spec["ports"]):
                target = port.get("targetPort", port["port"])
                if not any(target in (p["name"], p["containerPort"]) and p.get("protocol", "TCP") == port.get("protocol", "TCP")
                           for p in workload.ports):
                    self.error(item, f"spec.ports[{i}]", f"no container of {workload.name} has port {target!r}")

    def workload(self, workload):
        item, spec, at = workload.item, workload.spec, workload.at
        if workload.is_job:
            self.job(workload)
        else:
            selector = spec["selector"]["matchLabels"]
            if not matches(selector, workload.labels):
                self.error(item, f"{at}.selector.matchLabels", f"{selector} do not select the template's labels {workload.labels}")
            for other in self.pods_with(selector, self.namespace(item)):
                if other is not workload:
                    self.error(item, f"{at}.selector.matchLabels", f"also select the pods of {other.name}")
            if workload.pod.get("restartPolicy", "Always") != "Always":
                self.error(item, f"{at}.template.spec.restartPolicy", "of a Deployment is Always")
        rolling = spec.get("strategy", {}).get("rollingUpdate", {})
        if rolling.get("maxSurge") in (0, "0%") and rolling.get("maxUnavailable") in (0, "0%"):
            self.error(item, f"{at}.strategy", "maxSurge and maxUnavailable are both 0")
        self.pod(workload)

    def job(self, workload):
        item, spec, at = workload.item, workload.spec, workload.at
        policy = workload.pod.get("restartPolicy")
        if policy not in ("Never", "OnFailure"):
            self.error(item, f"{at}.template.spec.restartPolicy", "of a Job is Never or OnFailure")
        indexed = spec.get("completionMode") == "Indexed"
        # The name of a pod, with the number of its job and its index, is a label: at most 63 characters.
        longest = f"{workload.name}-{'0-' if item['kind'] == 'JobSet' else ''}{spec.get('completions', 1) - 1}-xxxxx"
        if "." in workload.name or len(longest) > 63:
            self.error(item, "metadata.name", f"makes a label of pods with {len(longest)} characters: {longest}")
        if indexed and "completions" not in spec:
            self.error(item, f"{at}.completions", "is missing: the Job is indexed")
        if not indexed:
            for key in ("backoffLimitPerIndex", "maxFailedIndexes"):
                if key in spec:
                    self.error(item, f"{at}.{key}", "needs an indexed Job")
        if "podFailurePolicy" in spec:
            if policy != "Never":
                self.error(item, f"{at}.podFailurePolicy", "needs restartPolicy Never")
            if spec.get("podReplacementPolicy", "Failed") != "Failed":
                self.error(item, f"{at}.podReplacementPolicy", "is Failed with a podFailurePolicy")
        containers = [c["name"] for c in workload.pod["containers"]]
        for i, rule in enumerate(spec.get("podFailurePolicy", {}).get("rules", [])):
            where = f"{at}.podFailurePolicy.rules[{i}]"
            name = rule.get("onExitCodes", {}).get("containerName")
            if name is not None and name not in containers:
                self.error(item, where, f"there is no container {name!r}")
            if rule["action"] == "FailIndex" and "backoffLimitPerIndex" not in spec:
                self.error(item, where, "FailIndex needs backoffLimitPerIndex")

    def pod(self, workload):
        item, pod, at = workload.item, workload.pod, workload.at + ".template.spec"
        volumes = [v["name"] for v in pod.get("volumes", [])]
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
            secrets = [source["secret"] for source in volume.get("projected", {}).get("sources", [])]
            for secret in secrets:
                self.refer(item, where, "Secret", secret["name"], [e["key"] for e in secret["items"]], secret.get("optional", False))
            for path in duplicates(e["path"] for secret in secrets for e in secret["items"]):
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
            self.restrict(workload, containers)
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


def main(words=None):
    parser = argparse.ArgumentParser(usage=__doc__.split("usage: ")[1])
    parser.add_argument("--external", action="append", default=[])
    parser.add_argument("--restricted", action="store_true")
    parser.add_argument("file")
    options = parser.parse_args(words)
    for name in options.external:
        if name.split("/")[0] not in ("Secret", "ConfigMap", "ServiceAccount", "PersistentVolumeClaim") or name.count("/") != 1:
            parser.error(f"--external {name}")
    here = pathlib.Path(__file__).resolve().parent
    schema = json.loads((here / "kubernetes.schema.json").read_text())
    types = json.loads((here / "schemas" / "api.json").read_text())

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
        for item in items:
            for path, what in against_types(item, types):
                errors.append((item, "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in path).lstrip("."), what))
    if not errors:
        errors = Checker(items, set(options.external), options.restricted).all()
    for item, where, what in errors:
        metadata = item.get("metadata") if isinstance(item, dict) else None
        name = metadata.get("name") if isinstance(metadata, dict) else None
        kind = item.get("kind") if isinstance(item, dict) else None
        print(f"{options.file}: {kind}/{name}: {where}: {what}".replace("\n", "\\n"), file=sys.stderr)
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
