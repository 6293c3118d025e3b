#!/usr/bin/env bash
# Library: TensorFlow's Hierarchical Planner, tensorflow/python/grappler/hierarchical_controller.py (commit c4259089) with
#   tensorflow-cpu 2.12.0. None of twelve packages tried (1.6.0 to 2.12.0) has the module, so the script takes two files
#   from the public repository.
#   usage: findings/tensorflow-placer-gradient.sh [REPOSITORY COMMIT]    # another copy of the repository
# Guess: the reward of a measured placement weighs the gradient of that placement's log p. Two variables keep the
#   grouping and the devices that were drawn.
# Behaviour: the loss reads neither. process_reward is a session call of its own, without inputs, in which the loss draws
#   groups and devices again and the Placer reads zeros instead of groups. The measured reward weighs log p of a sample
#   that was not measured, so the gradient's mean is 0.
# Output seen: a small graph on two GPUs, the time grows with the ops on one. In 0 of 500 updates the sample under the
#   gradient is the measured one, in all the Placer reads zeros, and the shares of ops that both have on that GPU
#   correlate by 0.00. If the loss is given the measured sample: in 500, in none, by 1.00. Nothing is learned meanwhile
#   (rate 0), so all samples are of one policy.
# Source: https://github.com/tensorflow/tensorflow, get_groupings, get_placements, process_reward; found by reading, then
#   by running it on the copy in a public fork (uve/tensorflow, commit e0807946: one letter shorter, near its beginning),
#   with one direction of the encoder: the width of the default is a fraction for Python 3. The download from GitHub has
#   not been run.
# Consequence: the mean of this code's updates does not depend on which placements are fast. What it finds is the best of
#   many samples, and so is a baseline of a paper that ran it. emplace's rows with TensorFlow's settings have the gradient
#   of the measured sample; docs/results/papers.md names the difference.
folder=$(mktemp -d)
repository=${1:-https://github.com/tensorflow/tensorflow} commit=${2:-c4259089f20bbdc3d69e589660f39ffdbcc90c85}
. "$(dirname "$0")/environment.bash" tensorflow-cpu==2.12.0 numpy==1.23.5 six==1.17.0
git init -q source
git -C source remote add origin "$repository"
git -C source fetch -q --depth 1 --filter=blob:none origin "$commit"
grappler=$(echo environment/lib/python3*/site-packages/tensorflow/python/grappler)
for file in controller hierarchical_controller; do
  git -C source show "$commit:tensorflow/python/grappler/$file.py" >"$grappler/$file.py"
done
export TF_CPP_MIN_LOG_LEVEL=3
python - 2>log <<'PYTHON' || { cat log; exit 1; }
import numpy as np
import tensorflow.compat.v1 as tf
from finding import seen
from tensorflow.core.protobuf import device_properties_pb2
from tensorflow.python.grappler import cluster, hierarchical_controller, item

UPDATES, SEED = 500, 1  # Later updates draw no devices
tf.disable_v2_behavior()


class Planner(hierarchical_controller.HierarchicalController):
    """Keeps the tensors under the gradient; with `kept`, the loss has log p of the devices in the variable."""

    kept = False

    def make_grouping_predictions(self, *inputs, **options):
        self.groups_drawn, log_p = super().make_grouping_predictions(*inputs, **options)
        return self.groups_drawn, log_p

    def decode(self, *inputs, **options):
        actions, log_p = super().decode(*inputs, **options)
        if options["mode"] == ("target" if self.kept else "sample"):
            self.devices_drawn = actions
        return actions, log_p

    def get_placements(self, *inputs, **options):
        actions, log_p = super().get_placements(*inputs, **options)
        return actions, {**log_p, "sample": log_p["target"]} if self.kept else log_p


class Kept(Planner):
    kept = True


class Watch:
    """A session that also notes what the loss has drawn in the call with the training op."""

    def __init__(self, session, planner, feeds):
        self.session, self.planner, self.feeds = session, planner, feeds

    def run(self, fetches):
        if not isinstance(fetches, list):
            return self.session.run(fetches)
        planner = self.planner
        under = [planner.groups_drawn, planner.devices_drawn, planner.seq2seq_input_layer]
        found, *self.drawn = self.session.run([fetches, *under], self.feeds)
        return found


def model():
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [8, 8])
        for _ in range(6):
            x = tf.nn.relu(tf.matmul(x, x) + 1.0)
        tf.add_to_collection("train_op", x)
        return item.Item(tf.train.export_meta_graph(graph=graph))


def gpus():
    of_a_gpu = {"type": "GPU", "frequency": 1000, "num_cores": 60, "environment": {"architecture": "7"}}
    properties = device_properties_pb2.DeviceProperties(**of_a_gpu)
    return cluster.Cluster(devices=[device_properties_pb2.NamedDevice(name=f"/GPU:{i}", properties=properties) for i in range(2)])


def slow_share(groups, devices):
    """The time is 1 s plus 9 s times this share of the ops, which is on GPU 1."""
    return np.mean(devices[0][groups[0]])


def updates(kind):
    """How many have the measured sample and have zeros for the groups; how both samples' shares correlate."""
    values = hierarchical_controller.hierarchical_controller_hparams()
    values.hidden_size, values.bi_lstm, values.num_groups, values.seed = 32, False, 4, SEED
    values.lr = 0.0  # All samples are of one policy
    measured, weighed, equal, zeros = [], [], 0, 0
    with tf.Graph().as_default():
        tf.set_random_seed(SEED)
        planner = kind(values, model(), gpus())
        planner.build_controller()
        with tf.train.MonitoredSession(session_creator=tf.train.ChiefSessionCreator()) as session:
            for _ in range(UPDATES):
                inputs = planner.create_group_embeddings(planner.generate_grouping(session))
                planner.generate_placement(inputs, session)
                groups, devices = session.run([planner.grouping_actions_cache, planner.actions_cache])
                measured.append(slow_share(groups, devices))
                planner.update_reward(session, 1 + 9 * measured[-1])
                feeds = {planner.groups_drawn: groups, planner.seq2seq_input_layer: inputs} if kind.kept else {}
                watch = Watch(session, planner, feeds)
                planner.process_reward(watch)
                under_groups, under_devices, read = watch.drawn
                weighed.append(slow_share(under_groups, under_devices))
                equal += np.array_equal(under_groups, groups) and np.array_equal(under_devices, devices)
                zeros += not np.any(read)
    return equal, zeros, np.corrcoef(measured, weighed)[0, 1]


for kind in (Planner, Kept):
    name = "kept" if kind.kept else "as it is"
    equal, zeros, correlation = updates(kind)
    print(f"{name}: of {UPDATES} updates {equal} with the measured sample, {zeros} with zeros; correlation {correlation:.2f}")
    related = "one" if correlation > 0.99 else "none" if abs(correlation) < 0.2 else "some"
    found = equal > UPDATES / 2, zeros == UPDATES, related
    seen("measured sample, zeros, correlation", found, (True, False, "one") if kind.kept else (False, True, "none"))
PYTHON
