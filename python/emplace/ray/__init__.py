"""Executors of a run on a Ray cluster: as many as the run asks for, and none when it asks for none.

    python -m emplace.ray tcp://HEAD:5555 --key keys/ray.key --max 64 --num-cpus 1

The driver reads the demand of a run (``executors_wanted`` of ``emplace ps``) and keeps as many Ray actors;
each runs ``emplace join`` in a bundle of resources. Ray places the actors, its autoscaler adds and removes
nodes. ``emplace up CLUSTER --on ray`` starts the driver beside the head. See docs/guide/ray.md.

Only ``emplace.ray.cluster`` imports ray; nothing here needs numpy or torch.
"""
