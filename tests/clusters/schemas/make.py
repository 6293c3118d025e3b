#!/usr/bin/env python3
"""Writes api.json: the schemas of the Kubernetes kinds that emplace writes, and of JobSet and KEDA, from PyPI packages (README.md).

    pip install kubernetes-validate==1.37.0 kubeflow-trainer-api==2.3.0 cloudcoil-models-keda==2.16.1.0
    tests/clusters/schemas/make.py [--check]        --check writes nothing and fails if api.json is another one
"""

import json
import pathlib
import sys

import kubernetes_validate
from cloudcoil.models.keda import v1alpha1 as keda
from kubeflow_trainer_api import models as kubeflow

HERE = pathlib.Path(__file__).resolve().parent
API = "io.k8s.api."
CORE = {
    "batch/v1 Job": API + "batch.v1.Job", "apps/v1 Deployment": API + "apps.v1.Deployment",
    "v1 ConfigMap": API + "core.v1.ConfigMap", "v1 Secret": API + "core.v1.Secret", "v1 Service": API + "core.v1.Service",
    "v1 ServiceAccount": API + "core.v1.ServiceAccount", "v1 Pod": API + "core.v1.Pod",
    "v1 PersistentVolumeClaim": API + "core.v1.PersistentVolumeClaim",
    "networking.k8s.io/v1 NetworkPolicy": API + "networking.v1.NetworkPolicy",
}
OTHERS = {
    "jobset.x-k8s.io/v1alpha2 JobSet": kubeflow.JobsetV1alpha2JobSet,
    "keda.sh/v1alpha1 ScaledObject": keda.ScaledObject,
    "keda.sh/v1alpha1 TriggerAuthentication": keda.TriggerAuthentication,
}
TEXTS = ("description", "title", "default", "$schema", "$id", "discriminator")


def bare(schema, rename):
    """The schema without texts and null, with references renamed, and strict about unknown fields."""
    if isinstance(schema, list):
        return [bare(one, rename) for one in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        return {"$ref": "#/$defs/" + rename(schema["$ref"].rsplit("/", 1)[-1])}
    kept = {key: value for key, value in schema.items()
            if not (key in TEXTS and not isinstance(value, dict)) and not key.startswith("x-kubernetes")}
    kept = {key: {name: bare(one, rename) for name, one in value.items()} if key == "properties" else bare(value, rename)
            for key, value in kept.items()}
    if isinstance(kept.get("type"), list):
        kept["type"] = next(one for one in kept["type"] if one != "null")
    for several in ("anyOf", "oneOf"):
        kept[several] = [one for one in kept.pop(several, ()) if one != {"type": "null"}]
        if len(kept[several]) < 2:
            kept.update(*kept.pop(several))
    if "properties" in kept and "additionalProperties" not in kept:
        kept["additionalProperties"] = False
    return kept


def references(schema):
    if isinstance(schema, dict):
        for key, value in schema.items():
            if key == "$ref":
                yield value.rsplit("/", 1)[-1]
            else:
                yield from references(value)
    elif isinstance(schema, list):
        for one in schema:
            yield from references(one)


def core_definitions():
    folder = pathlib.Path(kubernetes_validate.__file__).parent / "kubernetes-json-schema"
    newest = max(folder.glob("*-strict"), key=lambda f: [int(n) for n in f.name.split("-")[0][1:].split(".")])
    return json.loads((newest / "_definitions.json").read_text())["$defs"]


def schemas():
    known = {name: bare(schema, str) for name, schema in core_definitions().items()}
    # Types of Kubernetes that the models of JobSet and KEDA repeat, less exactly: theirs are replaced.
    same = {"".join(part[0].upper() + part[1:] for part in name.split(".")): name for name in known}
    same["ObjectMeta"] = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
    kinds = dict(CORE)
    for kind, model in OTHERS.items():
        group = kind.split(".")[0]
        made = model.model_json_schema(by_alias=True)
        rename = lambda name: same.get(name, f"{group}-{name}")  # noqa: E731
        for name, schema in made.pop("$defs").items():
            if name not in same:
                known[rename(name)] = bare(schema, rename)
        kinds[kind] = rename(model.__name__)
        known[kinds[kind]] = bare(made, rename)
    for name in ("apiVersion", "kind"):  # The server wants both everywhere.
        for definition in kinds.values():
            known[definition].setdefault("required", []).append(name)
    used, open_ = {}, list(kinds.values())
    while open_:
        name = open_.pop()
        if name not in used:
            used[name] = known[name]
            open_ += references(known[name])
    for kind, definition in kinds.items():
        version, name = kind.split()
        used[definition]["properties"].update(apiVersion={"const": version}, kind={"const": name})
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "$comment": "Made by make.py; sources in README.md.",
            "kinds": {kind: {"$ref": "#/$defs/" + definition} for kind, definition in kinds.items()},
            "$defs": dict(sorted(used.items()))}


def main():
    text = json.dumps(schemas(), separators=(",", ":"), sort_keys=True).replace('"$defs":', '\n"$defs":\n').replace("},\"", "},\n\"")
    text += "\n"
    file = HERE / "api.json"
    if sys.argv[1:] == ["--check"]:
        sys.exit(0 if file.read_text() == text else f"error: {file}: another one than the packages give; run make.py")
    file.write_text(text)


if __name__ == "__main__":
    main()
