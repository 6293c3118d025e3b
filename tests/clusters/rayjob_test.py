#!/usr/bin/env python3
"""Goal: the RayJob of docs/guide/ray.md is what KubeRay takes. Method: the types of Kubernetes (schemas/api.json) and,
where EMPLACE_KUBERAY_CRD names KubeRay's ray-operator/config/crd/bases/ray.io_rayjobs.yaml, its own, strict; examples
with one thing changed are refused."""

import copy
import json
import os
import pathlib
import re
import sys
import unittest

import check_manifests  # Exits with the status of a skipped test where there is no validator.

try:
    import yaml
except ImportError:
    check_manifests.skip("python3-yaml is not installed")

HERE = pathlib.Path(__file__).resolve().parent
PAGE = (HERE.parents[1] / "docs" / "guide" / "ray.md").read_text()
JOB = yaml.safe_load(re.search(r"```yaml\n(.*?)```", PAGE, re.S)[1])


CRD = os.environ.get("EMPLACE_KUBERAY_CRD", "")
POD = {"$ref": "#/$defs/io.k8s.api.core.v1.PodTemplateSpec"}
METADATA = {"$ref": "#/$defs/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"}
NOT_OURS = ("status", "submitterPodTemplate")  # What no person writes.


def strict(schema):
    """A schema of KubeRay that refuses unknown fields, with the templates of pods of Kubernetes, which are stricter."""
    if isinstance(schema, list):
        return [strict(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.get("x-kubernetes-preserve-unknown-fields"):
        return {"type": "object"}
    if schema.get("x-kubernetes-int-or-string"):
        return {"anyOf": [{"type": "integer"}, {"type": "string"}]}
    kept = {key: value for key, value in schema.items()
            if key not in ("description", "default") and not key.startswith("x-kubernetes")}
    if "properties" in kept:
        kept["properties"] = {name: POD if name == "template" else strict(one)
                              for name, one in schema["properties"].items() if name not in NOT_OURS}
        kept.setdefault("additionalProperties", False)
    return {key: value if key == "properties" else strict(value) for key, value in kept.items()}


def types():
    versions = yaml.safe_load(pathlib.Path(CRD).read_text())["spec"]["versions"]
    schema = strict(next(one for one in versions if one["name"] == "v1")["schema"]["openAPIV3Schema"])
    schema["properties"].update(apiVersion={"const": "ray.io/v1"}, kind={"const": "RayJob"}, metadata=METADATA)
    schema["required"] = ["apiVersion", "kind", "metadata", "spec"]
    api = json.loads((HERE / "schemas" / "api.json").read_text())
    return {"kinds": {"ray.io/v1 RayJob": {"$ref": "#/$defs/RayJob"}}, "$defs": {**api["$defs"], "RayJob": schema}}


def errors(job):
    return check_manifests.against_types(job, types())


class RayJob(unittest.TestCase):
    @unittest.skipUnless(CRD, "EMPLACE_KUBERAY_CRD is not set")
    def test_the_example_of_the_guide_is_valid(self):
        self.assertEqual(errors(JOB), [])

    def test_every_mounted_volume_exists(self):
        spec = JOB["spec"]["rayClusterSpec"]
        for group in [spec["headGroupSpec"], *spec["workerGroupSpecs"]]:
            pod = group["template"]["spec"]
            mounted = {mount["name"] for container in pod["containers"] for mount in container.get("volumeMounts", ())}
            self.assertEqual(mounted, {volume["name"] for volume in pod.get("volumes", ())})

    def test_executors_scale_from_zero_and_do_not_fit_on_the_head(self):
        spec = JOB["spec"]["rayClusterSpec"]
        self.assertTrue(spec["enableInTreeAutoscaling"])
        self.assertEqual(spec["headGroupSpec"]["rayStartParams"]["num-cpus"], "0")
        self.assertEqual([(group["replicas"], group["minReplicas"]) for group in spec["workerGroupSpecs"]], [(0, 0)])

    def test_keys_are_private(self):
        volumes = JOB["spec"]["rayClusterSpec"]["headGroupSpec"]["template"]["spec"]["volumes"]
        self.assertEqual([v["secret"]["defaultMode"] for v in volumes if "secret" in v], [0o600])

    @unittest.skipUnless(CRD, "EMPLACE_KUBERAY_CRD is not set")
    def test_invalid_manifests_are_refused(self):
        def changed(change):
            job = copy.deepcopy(JOB)
            change(job["spec"], job["spec"]["rayClusterSpec"])
            return errors(job)

        for name, change in {
            "an unknown field": lambda job, _: job.update(entryPoint="x"),
            "an unknown field of the cluster": lambda _, cluster: cluster.update(autoscaling=True),
            "a number for a text": lambda _, cluster: cluster.update(rayVersion=2.6),
            "a number for a text of Ray": lambda _, cluster: cluster["headGroupSpec"]["rayStartParams"].update({"num-cpus": 0}),
            "no head": lambda _, cluster: cluster.pop("headGroupSpec"),
            "an unknown field of a pod": lambda _, cluster: cluster["headGroupSpec"]["template"]["spec"].update(volume=[]),
            "a group without a name": lambda _, cluster: cluster["workerGroupSpecs"][0].pop("groupName"),
        }.items():
            with self.subTest(name):
                self.assertNotEqual(changed(change), [])


if __name__ == "__main__":
    sys.exit(unittest.main())
