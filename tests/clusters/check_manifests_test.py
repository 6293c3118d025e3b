#!/usr/bin/env python3
"""Goal: tests/clusters/check_manifests.py lets a sound set of manifests pass, and refuses each of many unsound ones, saying where.
Method: one good example, written by hand; every bad one is that with one thing changed. Where kubectl is, the API's own types must
find the good example as good: so the schema is no invention of ours."""

import copy
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
GOOD = json.loads((HERE / "fixtures" / "head_and_executors.json").read_text())
EXTERNAL = ("--external", "Secret/emplace-head-keys")


def checked(text, *options):
    """Exit status and errors for a file of this text."""
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "manifests.json"
        file.write_text(text)
        done = subprocess.run([sys.executable, str(HERE / "check_manifests.py"), *options, str(file)], capture_output=True, text=True)
        return done.returncode, done.stderr


class Manifests:
    """A copy of the good example to change: its items by kind, their pods and containers."""

    def __init__(self):
        self.document = copy.deepcopy(GOOD)
        self.account, self.config, self.secret, self.service, self.head, self.executors, self.policy = self.document["items"]
        self.pod = self.head["spec"]["template"]["spec"]
        self.box = self.pod["containers"][0]
        self.worker = self.executors["spec"]["template"]["spec"]["containers"][0]


# What is changed in the good example, and words of the error.
BAD = {
    # by the schema
    "an unknown kind": (lambda m: m.account.update(kind="Pod"), ["kind", "'Pod'"]),
    "another apiVersion": (lambda m: m.head.update(apiVersion="apps/v1beta1"), ["apiVersion", "apps/v1"]),
    "an unknown field": (lambda m: m.box.update(enviroment=[]), ["StatefulSet/emplace-head", "containers[0]", "enviroment"]),
    "a field one level too high": (lambda m: m.executors["spec"].update(containers=[]), ["spec", "containers"]),
    "no image": (lambda m: m.box.pop("image"), ["image", "required"]),
    "no selector": (lambda m: m.executors["spec"].pop("selector"), ["selector", "required"]),
    "no resources": (lambda m: m.worker.pop("resources"), ["Deployment/emplace-executors", "resources"]),
    "no limit of memory": (lambda m: m.worker["resources"]["limits"].pop("memory"), ["limits", "memory"]),
    "a number as text": (lambda m: m.executors["spec"].update(replicas="8"), ["replicas", "'8'"]),
    "a number as value of a variable": (lambda m: m.box["env"][0].update(value=1), ["env[0]", "value"]),
    "a variable with two values": (lambda m: m.box["env"][1].update(value="x"), ["env[1]"]),
    "a text as command": (lambda m: m.box.update(command="emplace run"), ["command", "array"]),
    "a port without a name": (lambda m: m.box["ports"][0].pop("name"), ["ports[0]", "name"]),
    "a port's name of 16 characters": (lambda m: m.service["spec"]["ports"][0].update(name="links-to-the-hea"), ["ports[0]", "too long"]),
    "a port out of range": (lambda m: m.box["ports"][0].update(containerPort=70000), ["containerPort", "70000"]),
    "a malformed quantity": (lambda m: m.box["resources"]["limits"].update(memory="2GB"), ["limits.memory", "2GB"]),
    "a quantity with a blank": (lambda m: m.box["resources"]["limits"].update(memory="2 Gi"), ["limits.memory"]),
    "capitals in a name": (lambda m: m.executors["metadata"].update(name="Executors"), ["metadata.name", "Executors"]),
    "an underscore in a container's name": (lambda m: m.box.update(name="the_head"), ["containers[0].name"]),
    "a name with a line's end": (lambda m: m.account["metadata"].update(name="emplace\n"), ["metadata.name"]),
    "a mode that was octal": (lambda m: m.pod["volumes"][1]["secret"].update(defaultMode=600), ["defaultMode", "600"]),
    "two kinds of volume in one": (lambda m: m.pod["volumes"][0].update(emptyDir={}), ["volumes[0]"]),
    "a probe of two ways": (lambda m: m.box["readinessProbe"].update(exec={"command": ["true"]}), ["readinessProbe"]),
    "a restart policy that a Deployment has not": (lambda m: m.pod.update(restartPolicy="OnFailure"), ["restartPolicy", "Always"]),
    "a secret that is not base64": (lambda m: m.secret["data"].update({"executor.key": "not a key"}),
                                    ["Secret/emplace-executor-key", "data"]),
    "a bad label": (lambda m: m.service["metadata"]["labels"].update(a="b c"), ["metadata.labels", "b c"]),
    "no claims in a list of them": (lambda m: m.head["spec"].update(volumeClaimTemplates=[]), ["volumeClaimTemplates"]),
    "a policy without a way in": (lambda m: m.policy["spec"]["ingress"][0].pop("ports"), ["NetworkPolicy/emplace-head", "ports"]),
    "a policy of another version": (lambda m: m.policy.update(apiVersion="v1"), ["NetworkPolicy/emplace-head", "networking.k8s.io/v1"]),
    # by the cross checks
    "a policy that guards nothing": (lambda m: m.policy["spec"]["podSelector"]["matchLabels"].update(a="b"),
                                     ["NetworkPolicy/emplace-head: spec.podSelector", "selects no pods"]),
    "a policy that lets nobody in": (lambda m: m.policy["spec"]["ingress"][0]["from"][0]["podSelector"]["matchLabels"].update(a="b"),
                                     ["spec.ingress[0].from[0]", "selects no pods"]),
    "a policy's port that no container has": (lambda m: m.policy["spec"]["ingress"][0]["ports"][0].update(port="link"),
                                              ["spec.ingress[0].ports[0]", "'link'"]),
    "a selector that does not select": (lambda m: m.head["spec"]["selector"]["matchLabels"].update({"emplace/part": "other"}),
                                        ["StatefulSet/emplace-head: spec.selector", "do not select"]),
    "selectors that select each other's pods": (lambda m: m.executors["spec"]["selector"]["matchLabels"].pop("emplace/part"),
                                                ["also select the pods of emplace-head"]),
    "a mount without a volume": (lambda m: m.box["volumeMounts"][1].update(name="configs"), ["volumeMounts[1]", "no volume 'configs'"]),
    "a volume without a mount": (lambda m: m.box["volumeMounts"].pop(2), ["'keys' is mounted nowhere"]),
    "two mounts at one place": (lambda m: m.box["volumeMounts"][1].update(mountPath="/runs/"), ["mountPath '/runs' is there twice"]),
    "a volume twice": (lambda m: m.pod["volumes"].append({"name": "runs", "emptyDir": {}}), ["'runs' is there twice"]),
    "no such service": (lambda m: m.head["spec"].update(serviceName="head"), ["spec.serviceName", "Service/head"]),
    "a service with an address": (lambda m: m.service["spec"].pop("clusterIP"), ["not headless"]),
    "a service of another namespace": (lambda m: m.service["metadata"].pop("namespace"), ["spec.serviceName", "not in the file"]),
    "a service that selects nothing": (lambda m: m.service["spec"]["selector"].update(a="b"), ["selects no pods"]),
    "a service's port that no container has": (lambda m: m.service["spec"]["ports"][0].update(targetPort="link"), ["ports[0]", "'link'"]),
    "a probe's port that the container has not": (lambda m: m.box["readinessProbe"]["tcpSocket"].update(port="link"),
                                                  ["readinessProbe", "'link'"]),
    "a ConfigMap that is not there": (lambda m: m.config["metadata"].update(name="run"), ["volumes[0]", "ConfigMap/emplace-run"]),
    "a key that is not there": (lambda m: m.config["data"].pop("run.toml"), ["volumes[0]", "no key 'run.toml'"]),
    "a variable's key that is not there": (lambda m: m.config["data"].pop("log-level"), ["env[1]", "no key 'log-level'"]),
    "a Secret that is not there": (lambda m: m.document["items"].remove(m.secret), ["Secret/emplace-executor-key", "nor external"]),
    "an account that is not there": (lambda m: m.document["items"].remove(m.account), ["ServiceAccount/emplace"]),
    "an item twice": (lambda m: m.document["items"].append(m.config), ["ConfigMap/emplace-run", "twice"]),
    "a request above its limit": (lambda m: m.box["resources"]["requests"].update(memory="3G"), ["resources", "more than its limit 2Gi"]),
    "a GPU asked for without a limit": (lambda m: m.worker["resources"]["limits"].pop("nvidia.com/gpu"), ["nvidia.com/gpu wants a limit"]),
    "half a GPU": (lambda m: [m.worker["resources"][k].update({"nvidia.com/gpu": "500m"}) for k in ("requests", "limits")], ["whole"]),
    "a variable that is not set": (lambda m: m.box["args"].append("$(SEED)"), ["args[7]", "$(SEED) is not set"]),
    "a variable twice": (lambda m: m.box["env"].append({"name": "RUN", "value": "x"}), ["'RUN' is there twice"]),
    "non-root as root": (lambda m: m.pod["securityContext"].update(runAsUser=0), ["user 0"]),
    "a set's name too long for its pods": (lambda m: m.head["metadata"].update(name="h" * 53), ["at most 52"]),
    "a service's name that begins with a digit": (lambda m: m.service["metadata"].update(name="7head"), ["DNS-1035"]),
}


# What is changed in the restricted example, and words of the error.
UNRESTRICTED = {
    "a token of the API": (lambda m: m.pod.pop("automountServiceAccountToken"), ["has a token"]),
    "no policy": (lambda m: m.document["items"].remove(m.policy), ["guarded by no NetworkPolicy"]),
    "root": (lambda m: m.pod["securityContext"].pop("runAsNonRoot"), ["containers[0]", "may run as root"]),
    "root again": (lambda m: m.box["securityContext"].update(runAsNonRoot=False), ["containers[0]", "may run as root"]),
    "privileges": (lambda m: m.box["securityContext"].pop("allowPrivilegeEscalation"), ["escalate"]),
    "capabilities": (lambda m: m.box["securityContext"]["capabilities"].update(add=["NET_ADMIN"]), ["capabilities"]),
    "a root file system to write": (lambda m: m.box["securityContext"].update(readOnlyRootFilesystem=False), ["root file system"]),
    "no seccomp": (lambda m: m.pod["securityContext"].pop("seccompProfile"), ["seccomp"]),
}


class CheckManifests(unittest.TestCase):
    def restricted(self):
        m = Manifests()
        m.policy["spec"]["podSelector"]["matchLabels"] = {"app.kubernetes.io/name": "emplace"}
        m.policy["spec"]["ingress"] = []
        for workload in (m.head, m.executors):
            pod = workload["spec"]["template"]["spec"]
            pod["automountServiceAccountToken"] = False
            pod["securityContext"] = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
            for box in pod.get("initContainers", []) + pod["containers"]:
                box["securityContext"] = {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}
        return m

    def test_restricted_pods_pass_and_every_other_is_named(self):
        self.assertEqual(checked(json.dumps(self.restricted().document), *EXTERNAL, "--restricted"), (0, ""))
        for name, (change, words) in UNRESTRICTED.items():
            with self.subTest(name):
                manifests = self.restricted()
                change(manifests)
                status, errors = checked(json.dumps(manifests.document), *EXTERNAL, "--restricted")
                self.assertEqual(status, 1, errors)
                for word in words:
                    self.assertIn(word, errors)

    def test_the_good_example_passes(self):
        self.assertEqual(checked(json.dumps(GOOD), *EXTERNAL), (0, ""))

    def test_what_is_optional_may_be_missing(self):
        m = Manifests()
        m.pod["volumes"][1]["secret"]["optional"] = True
        self.assertEqual(checked(json.dumps(m.document)), (0, ""))

    def test_one_object_is_checked_as_well(self):
        self.assertEqual(checked(json.dumps(GOOD["items"][1])), (0, ""))
        status, errors = checked(json.dumps({"kind": "Service"}))
        self.assertEqual(status, 1)
        self.assertIn("'spec' is a required property", errors)

    def test_every_bad_one_is_refused_and_the_place_is_named(self):
        for name, (change, words) in BAD.items():
            with self.subTest(name):
                manifests = Manifests()
                change(manifests)
                status, errors = checked(json.dumps(manifests.document), *EXTERNAL)
                self.assertEqual(status, 1, errors)
                for word in words:
                    self.assertIn(word, errors)

    def test_external_is_only_what_was_said_to_be(self):
        status, errors = checked(json.dumps(GOOD))
        self.assertEqual(status, 1)
        self.assertIn("Secret/emplace-head-keys is neither in the file nor external", errors)
        self.assertEqual(len(errors.splitlines()), 1, errors)

    def test_what_is_no_manifest_is_an_error_not_a_crash(self):
        for text in ("", "{", "[]", "null", "5", "{}", '{"kind": "List"}', '{"kind": "List", "items": []}', '{"kind": ["List"]}',
                     '{"apiVersion": "v1", "kind": "List", "items": [5, null, {"kind": 5}]}', '{"kind": "Secret", "kind": "Secret"}'):
            with self.subTest(text):
                status, errors = checked(text)
                self.assertEqual(status, 1, errors)
                self.assertNotIn("Traceback", errors)
                self.assertTrue(errors)

    @unittest.skipUnless(shutil.which("kubectl"), "kubectl is not installed")
    def test_the_real_types_agree(self):
        self.assertEqual(checked(json.dumps(GOOD), *EXTERNAL, "--kubectl"), (0, ""))


if __name__ == "__main__":
    if checked(json.dumps(GOOD), *EXTERNAL)[0] == 77:
        print("skip: python3-jsonschema is not installed")
        sys.exit(77)
    unittest.main()
