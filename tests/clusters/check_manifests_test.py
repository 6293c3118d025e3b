#!/usr/bin/env python3
"""Goal: tests/clusters/check_manifests.py accepts a valid set of manifests, and refuses each of many invalid ones with its path.
Method: one good example, written by hand; every bad one is a copy with one thing changed. The types of the API itself
(schemas/api.json) must accept the good example too. Where kubernetes-validate is installed, it must agree."""

import contextlib
import copy
import io
import json
import pathlib
import tempfile
import unittest

import check_manifests  # Exits with the status of a skipped test where there is no validator.

try:
    import kubernetes_validate
except ImportError:
    kubernetes_validate = None

HERE = pathlib.Path(__file__).resolve().parent
GOOD = json.loads((HERE / "fixtures" / "head_and_executors.json").read_text())
EXTERNAL = ("--external", "Secret/emplace-head-keys")


def checked(text, *options):
    """Exit status and errors for a file of this text."""
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "manifests.json"
        file.write_text(text)
        with contextlib.redirect_stderr(io.StringIO()) as errors:
            status = check_manifests.main([*options, str(file)])
        return status, errors.getvalue()


class Manifests:
    """A copy of the good example to change: its items by kind, their pods and containers."""

    def __init__(self):
        self.document = copy.deepcopy(GOOD)
        (self.account, self.config, self.secret, self.service, self.claim, self.head, self.executors, self.policy, self.scaled,
         self.token) = self.document["items"]
        self.pod = self.head["spec"]["template"]["spec"]
        self.box = self.pod["containers"][0]
        self.worker = self.executors["spec"]["template"]["spec"]["containers"][0]


# What is changed in the good example, and words of the error.
BAD = {
    # Errors that the schema finds.
    "an unknown kind": (lambda m: m.account.update(kind="Pod"), ["kind", "'Pod'"]),
    "another apiVersion": (lambda m: m.head.update(apiVersion="batch/v1beta1"), ["apiVersion", "batch/v1"]),
    "an unknown field": (lambda m: m.box.update(enviroment=[]), ["Job/emplace-head", "containers[0]", "enviroment"]),
    "a field one level too high": (lambda m: m.executors["spec"].update(containers=[]), ["spec", "containers"]),
    "no image": (lambda m: m.box.pop("image"), ["image", "required"]),
    "no selector": (lambda m: m.executors["spec"].pop("selector"), ["selector", "required"]),
    "no resources": (lambda m: m.worker.pop("resources"), ["Deployment/emplace-executors", "resources"]),
    "no limit of memory": (lambda m: m.worker["resources"]["limits"].pop("memory"), ["limits", "memory"]),
    "a number as text": (lambda m: m.head["spec"].update(backoffLimit="8"), ["backoffLimit", "'8'"]),
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
    "a mode that was octal": (lambda m: m.pod["volumes"][1]["projected"].update(defaultMode=600), ["defaultMode", "600"]),
    "two kinds of volume in one": (lambda m: m.pod["volumes"][0].update(emptyDir={}), ["volumes[0]"]),
    "a probe of two ways": (lambda m: m.box["readinessProbe"].update(exec={"command": ["true"]}), ["readinessProbe"]),
    "a secret that is not base64": (lambda m: m.secret["data"].update({"executor.key": "not a key"}),
                                    ["Secret/emplace-executor-key", "data"]),
    "a bad label": (lambda m: m.service["metadata"]["labels"].update(a="b c"), ["metadata.labels", "b c"]),
    "two conditions for a failed pod": (lambda m: m.head["spec"]["podFailurePolicy"]["rules"][1].update(
        onPodConditions=[{"type": "A", "status": "True"}]), ["podFailurePolicy.rules[1]"]),
    "success as a failure": (lambda m: m.head["spec"]["podFailurePolicy"]["rules"][1]["onExitCodes"].update(values=[0]), ["values[0]"]),
    "a source that KEDA is not to ask": (lambda m: m.scaled["spec"]["triggers"][0].update(type="cron"), ["triggers[0].type", "metrics-api"]),
    "a number for KEDA": (lambda m: m.scaled["spec"]["triggers"][0]["metadata"].update(targetValue=1), ["targetValue"]),
    # Errors that the types of the API find.
    "an advanced setting that KEDA has not": (lambda m: m.scaled["spec"].update(advanced={"restoreToOriginalReplicas": True}),
                                              ["ScaledObject/emplace-executors: spec.advanced", "restoreToOriginalReplicas"]),
    "a policy without a way in": (lambda m: m.policy["spec"]["ingress"][0].pop("ports"), ["NetworkPolicy/emplace-head", "ports"]),
    "a policy of another version": (lambda m: m.policy.update(apiVersion="v1"), ["NetworkPolicy/emplace-head", "networking.k8s.io/v1"]),
    # Errors that the cross checks find.
    "a policy that guards nothing": (lambda m: m.policy["spec"]["podSelector"]["matchLabels"].update(a="b"),
                                     ["NetworkPolicy/emplace-head: spec.podSelector", "selects no pods"]),
    "a policy that admits no pod": (lambda m: m.policy["spec"]["ingress"][0]["from"][0]["podSelector"]["matchLabels"].update(a="b"),
                                     ["spec.ingress[0].from[0]", "selects no pods"]),
    "a policy's port that no container has": (lambda m: m.policy["spec"]["ingress"][0]["ports"][0].update(port="link"),
                                              ["spec.ingress[0].ports[0]", "'link'"]),
    "a way from nowhere": (lambda m: m.policy["spec"]["ingress"][1]["from"][0].pop("namespaceSelector"), ["ingress[1].from[0]"]),
    "a selector that does not select": (lambda m: m.executors["spec"]["selector"]["matchLabels"].update({"emplace/part": "other"}),
                                        ["Deployment/emplace-executors: spec.selector", "do not select"]),
    "selectors that select each other's pods": (lambda m: m.executors["spec"]["selector"]["matchLabels"].pop("emplace/part"),
                                                ["also select the pods of emplace-head"]),
    "a mount without a volume": (lambda m: m.box["volumeMounts"][1].update(name="configs"), ["volumeMounts[1]", "no volume 'configs'"]),
    "a volume without a mount": (lambda m: m.box["volumeMounts"].pop(2), ["'keys' is mounted nowhere"]),
    "two mounts at one place": (lambda m: m.box["volumeMounts"][1].update(mountPath="/runs/"), ["mountPath '/runs' is there twice"]),
    "a volume twice": (lambda m: m.pod["volumes"].append({"name": "runs", "emptyDir": {}}), ["'runs' is there twice"]),
    "a claim of nothing": (lambda m: m.claim["spec"]["resources"]["requests"].update(storage="0"), ["asks for nothing"]),
    "a claim that is not there": (lambda m: m.claim["metadata"].update(name="run"), ["volumes[2]", "PersistentVolumeClaim/emplace-runs"]),
    "a restart policy that a Deployment has not": (lambda m: m.executors["spec"]["template"]["spec"].update(restartPolicy="Never"),
                                                   ["restartPolicy", "Always"]),
    "a restart policy that a Job has not": (lambda m: m.pod.pop("restartPolicy"), ["restartPolicy", "Never or OnFailure"]),
    "a failure policy and restarts in place": (lambda m: m.pod.update(restartPolicy="OnFailure"), ["podFailurePolicy", "needs"]),
    "a failure policy and two pods at a time": (lambda m: m.head["spec"].update(podReplacementPolicy="TerminatingOrFailed"),
                                                ["podReplacementPolicy", "is Failed"]),
    "a failure of no container": (lambda m: m.head["spec"]["podFailurePolicy"]["rules"][1]["onExitCodes"].update(containerName="x"),
                                  ["podFailurePolicy.rules[1]", "no container 'x'"]),
    "an index that fails in a Job without": (lambda m: m.head["spec"]["podFailurePolicy"]["rules"][1].update(action="FailIndex"),
                                             ["needs backoffLimitPerIndex"]),
    "a limit of indices in a Job without": (lambda m: m.head["spec"].update(backoffLimitPerIndex=1), ["needs an indexed Job"]),
    "indices without an end": (lambda m: m.head["spec"].update(completionMode="Indexed"), ["completions", "is missing"]),
    "no Deployment to scale": (lambda m: m.scaled["spec"]["scaleTargetRef"].update(name="x"), ["scaleTargetRef", "Deployment/x"]),
    "a number of replicas that two set": (lambda m: m.executors["spec"].update(replicas=3),
                                          ["Deployment/emplace-executors: spec.replicas", "belongs to"]),
    "a least above the most": (lambda m: m.scaled["spec"].update(minReplicaCount=9), ["minReplicaCount", "above"]),
    "pods that outlive the run": (lambda m: m.scaled["spec"].pop("fallback"), ["spec.fallback", "outlive"]),
    "a demand that no service answers": (lambda m: m.scaled["spec"]["triggers"][0]["metadata"].update(url="http://head.research.svc:9090/s"),
                                     ["triggers[0]", "no Service"]),
    "a demand in another namespace": (lambda m: m.scaled["spec"]["triggers"][0]["metadata"].update(
        url="http://emplace-head.default.svc:9090/s"), ["triggers[0]", "no Service"]),
    "a demand at another port": (lambda m: m.scaled["spec"]["triggers"][0]["metadata"].update(url="http://emplace-head:80/s"),
                                 ["triggers[0]", "has no port 80"]),
    "a token without a place": (lambda m: m.scaled["spec"]["triggers"][0].pop("authenticationRef"), ["no authenticationRef"]),
    "a token that does not exist": (lambda m: m.document["items"].remove(m.token), ["TriggerAuthentication/emplace-status is not"]),
    "a token's Secret that is not there": (lambda m: m.token["spec"]["secretTargetRef"][0].update(name="x"),
                                           ["TriggerAuthentication/emplace-status", "Secret/x"]),
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
    "a name of a Job too long for its pods": (lambda m: m.head["metadata"].update(name="h" * 60), ["label of pods with 68"]),
    "a service's name that starts with a digit": (lambda m: m.service["metadata"].update(name="7head"), ["DNS-1035"]),
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

    def test_restricted_pods_pass_and_others_are_refused(self):
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

    def test_optional_fields_may_be_missing(self):
        m = Manifests()
        m.pod["volumes"][1]["projected"]["sources"][0]["secret"]["optional"] = True
        m.document["items"] = m.document["items"][:-2]  # KEDA's token is not optional.
        self.assertEqual(checked(json.dumps(m.document)), (0, ""))

    def test_checks_a_single_object(self):
        self.assertEqual(checked(json.dumps(GOOD["items"][1])), (0, ""))
        status, errors = checked(json.dumps({"kind": "Service"}))
        self.assertEqual(status, 1)
        self.assertIn("'spec' is a required property", errors)

    def test_every_bad_manifest_is_refused_with_its_path(self):
        for name, (change, words) in BAD.items():
            with self.subTest(name):
                manifests = Manifests()
                change(manifests)
                status, errors = checked(json.dumps(manifests.document), *EXTERNAL)
                self.assertEqual(status, 1, errors)
                for word in words:
                    self.assertIn(word, errors)

    def test_a_missing_object_must_be_declared_external(self):
        status, errors = checked(json.dumps(GOOD))
        self.assertEqual(status, 1)
        self.assertIn("Secret/emplace-head-keys is neither in the file nor external", errors)
        self.assertEqual(len(errors.splitlines()), 2, errors)  # A pod's volume, and KEDA's token.

    def test_refuses_text_that_is_no_manifest(self):
        for text in ("", "{", "[]", "null", "5", "{}", '{"kind": "List"}', '{"kind": "List", "items": []}', '{"kind": ["List"]}',
                     '{"apiVersion": "v1", "kind": "List", "items": [5, null, {"kind": 5}]}', '{"kind": "Secret", "kind": "Secret"}'):
            with self.subTest(text):
                status, errors = checked(text)
                self.assertEqual(status, 1, errors)
                self.assertTrue(errors)

    def as_set(self):
        """The head as the only job of a JobSet."""
        m = Manifests()
        job = {"name": "head", "replicas": 1, "template": {"spec": m.head["spec"]}}
        m.head.update(apiVersion="jobset.x-k8s.io/v1alpha2", kind="JobSet", spec={
            "replicatedJobs": [job], "successPolicy": {"operator": "All", "targetReplicatedJobs": ["head"]}, "failurePolicy": {"maxRestarts": 0}})
        m.head["metadata"]["name"] = "emplace"
        return m, job

    def test_checks_a_jobset(self):
        self.assertEqual(checked(json.dumps(self.as_set()[0].document), *EXTERNAL), (0, ""))
        for change, word in (
                (lambda m, job: m.head["spec"]["successPolicy"].update(targetReplicatedJobs=["x"]), "there is no job 'x'"),
                (lambda m, job: m.head["spec"]["replicatedJobs"].append(copy.deepcopy(job)), "'head' is there twice"),
                (lambda m, job: m.head["spec"].pop("successPolicy"), "successPolicy"),
                (lambda m, job: m.head["metadata"].update(name="e" * 60), "label of pods with"),
                (lambda m, job: job["template"]["spec"]["template"]["spec"].pop("restartPolicy"),
                 "spec.replicatedJobs[0].template.spec.template.spec.restartPolicy"),
                (lambda m, job: job["template"]["spec"]["template"]["spec"]["containers"][0].pop("image"), "replicatedJobs[0]")):
            with self.subTest(word):
                m, job = self.as_set()
                change(m, job)
                status, errors = checked(json.dumps(m.document), *EXTERNAL)
                self.assertEqual(status, 1, errors)
                self.assertIn(word, errors)

    @unittest.skipIf(kubernetes_validate is None, "kubernetes-validate is not installed")
    def test_kubernetes_validate_agrees(self):
        for item in GOOD["items"]:
            if item["apiVersion"] != "keda.sh/v1alpha1":
                kubernetes_validate.validate(item, "1.37", strict=True)


if __name__ == "__main__":
    unittest.main()
