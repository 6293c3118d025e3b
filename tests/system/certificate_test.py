"""Goal: certificates of `emplace bound` prove what the program printed, whatever the graph and the machine; a
certificate that was changed so that it is wrong is refused.
Method: the checker on certificates of fixtures, generated models and random graphs on machines with much and little
memory under all objectives, and with memory plans; then 1,000 seeded mutations of them. A changed certificate may only pass if it proves the
same claim, or a smaller one, about the same data.

usage: certificate_test.py SOURCE_DIR EMPLACE
"""
import contextlib
import copy
import gzip
import io
import json
import math
import pathlib
import random
import subprocess
import sys
import tempfile
import unittest
from fractions import Fraction

SOURCE, PROGRAM = pathlib.Path(sys.argv[1]), sys.argv[2]
sys.path.insert(0, str(SOURCE / "scripts"))
sys.dont_write_bytecode = True
import certificate_graph  # noqa: E402
import check_certificate  # noqa: E402

FIXTURES = ["cifar10_cnn-bs4", "nmt-tiny", "rnnlm-bs2-hidden8-steps2", "densenet-tiny", "transformer-tiny", "bert-tiny"]
MODELS = [["cifar10-cnn", "--training"], ["rnnlm", "--training", "--layers", "1", "--steps", "2"]]
OBJECTIVES = ["step-time", "latency", "throughput", "max-load"]
REFUSED = (check_certificate.Unproved, check_certificate.Malformed, certificate_graph.Different)
MUTATIONS = 1000


def machine(rng, memory=None):
    """A CPU and one to three GPUs of one or two kinds; `memory` of each GPU [B]."""
    text = '[[device]]\nname = "cpu:0"\nprofile = "haswell18"\n'
    for gpu in range(rng.randrange(1, 4)):
        text += '[[device]]\nname = "gpu:%d"\nprofile = "%s"\n' % (gpu, rng.choice(["k40", "k40", "v100"]))
        text += 'memory = "%dB"\n' % memory if memory else ""
    link = rng.choice(['profile = "pcie3_x16"', 'bandwidth = "1GB/s"\nlatency = "20us"', 'profile = "nvlink2"'])
    return text + '[[link]]\nbetween = ["*", "*"]\n%s\n' % link


def random_graph(rng, size):
    """Kernels that suit one kind of device or the other, views, state and its updates, and ops that share a device."""
    ops, weights = [], rng.randrange(3)
    for i in range(size):
        shape = [1 + rng.randrange(40), 1 + rng.randrange(200)]
        op = {"id": i, "name": "op%d" % i, "type": "aten::add", "inputs": [], "outputs": [{"dtype": "f32", "shape": shape}],
              "attrs": {}, "flops": 1000 * rng.randrange(5000), "param_bytes": 0, "phase": "forward"}
        if i < weights:
            op["type"] = "Parameter"
        elif i > weights:
            op["inputs"] = [[rng.randrange(i), 0] for _ in range(1 + rng.randrange(3))]
            op["type"] = rng.choice(["aten::add", "aten::mm", "aten::sum", "aten::embedding"])
            if rng.random() < 0.1:
                op["attrs"] = {"view": True}
            elif weights and rng.random() < 0.1:
                op["phase"], op["colocate"] = "update", rng.randrange(weights)
            elif rng.random() < 0.1:
                op["colocate"] = rng.randrange(i)
        if rng.random() < 0.5:
            op["measured_us"] = {"gpu": rng.randrange(400) / 8, "cpu": rng.randrange(400) / 8}
        ops.append(op)
    return {"format": "emplace-graph v1", "name": "random", "source": "test", "meta": {}, "ops": ops}


def heavy_graph(rng, size):
    """Weights, each with a kernel on its device that suits GPUs: memory decides how many run there."""
    ops = []
    for i in range(size):
        weight = {"id": 2 * i, "name": "weight%d" % i, "type": "Parameter", "inputs": [], "attrs": {}, "flops": 0,
                  "param_bytes": 0, "outputs": [{"dtype": "f32", "shape": [1000 + rng.randrange(1000)]}]}
        ops += [weight, {**weight, "id": 2 * i + 1, "name": "op%d" % i, "type": "aten::mul", "inputs": [[2 * i, 0]],
                         "outputs": [{"dtype": "f32", "shape": [1]}], "colocate": 2 * i,
                         "measured_us": {"gpu": 1 + rng.randrange(20), "cpu": 100 + rng.randrange(900)}}]
    return {"format": "emplace-graph v1", "name": "heavy", "source": "test", "meta": {}, "ops": ops}


def training_graph(rng, size):
    """A chain of kernels and some that write parts or in place, most of which gradients read later."""
    ops = [{"id": 0, "name": "op0", "type": "Parameter", "inputs": [], "outputs": [{"dtype": "f32", "shape": [10]}],
            "attrs": {}, "flops": 0, "param_bytes": 0, "phase": "forward"}]
    for i in range(1, size):
        late = i > size * 2 // 3
        inputs = [[i - 1, 0], [rng.randrange(size * 2 // 3) if late else rng.randrange(i), 0]]
        op = {**ops[0], "id": i, "name": "op%d" % i, "type": rng.choice(["aten::add", "aten::mul", "aten::mm", "aten::relu_"]),
              "inputs": inputs, "phase": "backward" if late else "forward",
              "outputs": [{"dtype": "f32", "shape": [100 + rng.randrange(900)]} for _ in range(1 + (rng.random() < 0.2))],
              "measured_us": {"gpu": 1 + rng.randrange(40), "cpu": 10 + rng.randrange(400)}}
        if not late and rng.random() < 0.15:
            op.update(attrs={"view": True}, outputs=[{"dtype": "f32", "shape": [50]}], inputs=inputs[:1])
            del op["measured_us"]
        ops.append(op)
    return {"format": "emplace-graph v1", "name": "training", "source": "test", "meta": {}, "ops": ops}


class Folder:
    """Runs the program on graphs and machines in a folder."""

    def __init__(self, path):
        self.path = path

    def certify(self, graph, devices, objective, *options):
        """The text of a certificate and the printed bound [s]; None if no placement exists."""
        (self.path / "machine.toml").write_text(devices)
        done = subprocess.run([PROGRAM, "bound", graph, "-d", self.path / "machine.toml", "--objective", objective, "--json",
                               "--certificate", self.path / "certificate.json", *options], capture_output=True, text=True)
        if done.returncode:
            raise AssertionError(done.stderr)
        return (self.path / "certificate.json").read_text(), json.loads(done.stdout)["lower_bound_s"]


def proves(document, graph):
    """Raises one of REFUSED unless the certificate proves its claim about the graph."""
    case = check_certificate.check(document)
    certificate_graph.difference(case, graph)
    return case


def at(document, *keys):
    for key in keys:
        document = document[key]
    return document


def canonical(document):
    """What a certificate is about. A rate that is not used may change, and classes may have other numbers."""
    ops = {key: value for key, value in document["ops"].items() if key not in ("class", "cost_class")}
    classes = [document["choices"][choice] for choice in document["classes"]]
    return [ops, document.get("buffers"), document.get("nets"), [classes[c] for c in document["ops"]["class"]], document["machine"]["devices"],
            document["machine"]["latency_s"], document["machine"]["bytes_per_s"]]


def change_number(rng, items):
    """Changes one of a list of numbers. Returns whether it could."""
    if not items:
        return False
    i = rng.randrange(len(items))
    items[i] = rng.choice([items[i] + 1, items[i] * 2 + 1, max(0, items[i] - 1), rng.randrange(len(items) + 1)])
    return True


def mutate(rng, document):
    """Changes one thing. Returns what."""
    ops, buffers, witness = document["ops"], document.get("buffers"), document["witness"]
    what = rng.choice(["claim", "claim", "time", "read dropped", "read invented", "class", "name", "choice", "column", "row",
                       "witness", "witness", "witness", "witness", "part lost", "device lost", "unit"])
    reads = ops["reads" if buffers else "makers"]
    if what == "claim":
        document["claim"] = Fraction(document["claim"]) * (1 + Fraction(1, 10 ** rng.randrange(1, 7)))
    elif what == "time":
        change_number(rng, rng.choice(ops["times"]))
    elif what == "read dropped":
        full = [read for read in reads if read]
        if full:
            read = rng.choice(full)
            read.pop(rng.randrange(len(read)))
    elif what == "read invented":
        rng.choice(reads).append(rng.randrange(len(buffers["op"] if buffers else reads)))
    elif what == "class":
        change_number(rng, ops["class"])
    elif what == "name":
        ops["name"].reverse()
    elif what == "choice":
        choice = rng.choice(document["choices"])
        choice.pop(rng.randrange(len(choice)))
    elif what == "column":
        table = rng.choice([ops, buffers or document.get("nets") or ops])
        columns = [key for key, value in table.items() if isinstance(value[0], int)]
        change_number(rng, table[rng.choice(columns)])
    elif what == "row":
        row = rng.choice(document["machine"]["rows"])
        key = rng.choice(["launch_us", "peak_gflops", "bandwidth_gbs", "bandwidth_efficiency"])
        row[key] = Fraction(row[key]) * 2 + 1
    elif what == "part lost":
        place = rng.choice([document, ops, document["machine"], witness])
        del place[rng.choice(sorted(key for key in place if key not in ("graph", "bound", "rents", "allow")))]
    elif what == "device lost":
        document["machine"]["devices"].pop()
    elif what == "unit":
        document["unit"] = {"ns": "ps", "ps": "ns"}[document["unit"]]
    else:
        key = rng.choice([key for key in sorted(witness) if key != "kind"])
        value = witness[key]
        if key == "joins":
            joins = value[rng.choice(["heads", "tails"])]
            if joins:
                join = rng.choice(joins)
                part = rng.randrange(5)
                if part < 3:
                    join[part] += 1
                elif join[3]:
                    join[3].pop(rng.randrange(len(join[3])))
        elif key in ("prices", "rents"):
            i = rng.randrange(len(value))
            value[i] = Fraction(value[i]) * rng.choice([0, 2, 3, -1, Fraction(1, 2)])
        elif key in ("kept", "read"):
            if value:
                change_number(rng, rng.choice(value))
        elif key == "rent":
            witness[key] = Fraction(value) * rng.choice([0, 2, Fraction(1, 2)])
        elif key == "kinds":
            rng.choice(value).append(rng.randrange(len(document["machine"]["devices"])))
        elif isinstance(value, list):
            rng.choice([change_number, lambda _, items: items.pop(rng.randrange(len(items)))])(rng, value)
        else:
            witness[key] = max(0, value + rng.choice([-1, 1, 1000, -1000, value]))
        return "witness " + key
    return what


class CheckCertificate(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = Folder(pathlib.Path(holder.name))

    def accepts(self, path, graph, devices, objective, *options):
        """The certificate, after it was found to prove what the program printed."""
        text, bound_s = self.folder.certify(path, devices, objective, *options)
        document = check_certificate.parse(text)
        case = proves(document, graph)
        self.assertAlmostEqual(float(case.claim) * (1e-9 if case.unit == "ns" else 1e-12) / (bound_s or 1), bound_s > 0, 12)
        return document

    def random_certificates(self, seeds, size):
        for seed in seeds:
            rng = random.Random(seed)
            graph = (random_graph if seed % 10 else heavy_graph)(rng, size)
            path = self.folder.path / "graph.json"
            path.write_text(json.dumps(graph))
            total = sum(4 * math.prod(op["outputs"][0]["shape"]) for op in graph["ops"])
            tight = rng.random() < 0.5
            objective = "step-time" if seed % 3 else rng.choice(OBJECTIVES)
            devices = machine(rng, total // rng.randrange(2, 6) if tight else None)
            yield seed, self.accepts(path, graph, devices, objective), graph

    def test_fixtures_and_models_are_proved(self):
        rng = random.Random(1)
        paths = [SOURCE / "tests/fixtures/graphs" / (name + ".json.gz") for name in FIXTURES]
        for number, words in enumerate(MODELS):
            paths.append(self.folder.path / ("model%d.json.gz" % number))
            subprocess.run([PROGRAM, "generate", *words, "-o", paths[-1]], check=True, capture_output=True)
        for path in paths:
            graph = json.loads(gzip.decompress(path.read_bytes()))
            for objective in OBJECTIVES:
                with self.subTest(path.name, objective=objective):
                    self.accepts(path, graph, machine(rng), objective)
            with self.subTest(path.name, memory="tight"):
                self.accepts(path, graph, machine(rng, 200_000), "step-time")

    def test_random_graphs_are_proved_with_each_kind_of_witness(self):
        kinds = {"rents" if "rents" in document["witness"] else document["witness"]["kind"]
                 for _, document, _ in self.random_certificates(range(150), 14)}
        self.assertEqual(kinds, {"path", "ideals", "work", "rents", "route", "window", "class"})

    def certificates_of_plans(self, seeds):
        """Of one or two GPUs, alike or not, with less memory than everything takes."""
        for seed in seeds:
            rng = random.Random(seed)
            graph = training_graph(rng, 12 + rng.randrange(20))
            path = self.folder.path / "graph.json"
            path.write_text(json.dumps(graph))
            total = sum(4 * tensor["shape"][0] for op in graph["ops"] for tensor in op["outputs"])
            devices = ['[[device]]\nname = "gpu:%d"\nprofile = "%s"\nmemory = "%dB"\n' % (gpu, profile, total // rng.randrange(3, 6))
                       for gpu, profile in enumerate(rng.choice([["k40"], ["k40"], ["k40", "k40"], ["k40", "v100"]]))]
            link = '[[link]]\nbetween = ["*", "*"]\nprofile = "nvlink2"\n'
            allow = rng.choice(["recompute", "all"])
            document = self.accepts(path, graph, "".join(devices) + link, "step-time", "--allow", allow)
            self.assertEqual(document["allow"], ["recompute"] if allow == "recompute" else ["recompute", "offload"])
            yield seed, document, graph

    def test_plans_are_proved(self):
        kinds = [document["witness"]["kind"] for _, document, _ in self.certificates_of_plans(range(80))]
        self.assertGreater(kinds.count("waiting"), 20)
        self.assertGreater(len(set(kinds)), 1)

    def test_plans_need_links_without_detours(self):
        _, document, _ = next(self.certificates_of_plans([3]))
        document["allow"] = ["recompute", "offload"]
        machine = document["machine"]
        machine["devices"] = [machine["devices"][0]] * 3
        machine["latency_s"] = [[0, 1, 5], [1, 0, 1], [5, 1, 0]]
        machine["bytes_per_s"] = [[1] * 3] * 3
        document["witness"]["kinds"] = [[0, 1, 2]]
        with self.assertRaisesRegex(check_certificate.Malformed, "detour"):
            check_certificate.check(document)

    def test_mutations_are_refused(self):
        subjects = [(document, graph) for _, document, graph in [*self.random_certificates(range(1000, 1040), 20),
                                                                 *self.certificates_of_plans(range(1000, 1020))]
                    if document["claim"] > 0]
        refused, seen, seed = 0, {}, 0
        while refused < MUTATIONS:
            seed += 1
            rng = random.Random(seed)
            document, graph = subjects[rng.randrange(len(subjects))]
            mutant = copy.deepcopy(document)
            what = mutate(rng, mutant)
            counts = seen.setdefault(what, [0, 0])
            try:
                proves(mutant, graph)
                # It must still prove something true: no more than before, about the same data.
                self.assertLessEqual(mutant["claim"], document["claim"], (seed, what))
                self.assertEqual(canonical(mutant), canonical(document), (seed, what))
                counts[1] += 1
            except REFUSED:
                refused += 1
                counts[0] += 1
        self.assertLess(seed, 2 * MUTATIONS, seen)
        for what in ("claim", "name", "read dropped", "read invented", "unit", "device lost"):
            self.assertEqual(seen[what][1], 0, what)
        for what in ("time", "class", "witness prices", "witness joins", "witness op", "witness ops", "witness head",
                     "witness kept", "witness read", "witness rent", "witness units"):
            self.assertGreater(seen[what][0], 0, what)

    def test_exit_status_and_line_of_each_outcome(self):
        path = SOURCE / "tests/fixtures/graphs/nmt-tiny.json.gz"
        text, _ = self.folder.certify(path, machine(random.Random(3)), "step-time")
        document, file = json.loads(text), self.folder.path / "one.json"

        def ends(text, status, words, *more):
            file.write_text(text)
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                self.assertEqual(check_certificate.main([str(file), *map(str, more)]), status)
            self.assertEqual(out.getvalue().count("\n"), 1)
            self.assertIn(words, out.getvalue())

        ends(text, 0, "proved: no step-time of 'nmt-tiny'", path)
        ends(json.dumps({**document, "claim": document["claim"] * 1.000001}), 1, "less than the claim")
        ends(text, 1, "op names differ", SOURCE / "tests/fixtures/graphs/bert-tiny.json.gz")
        ends(text, 2, "No such file", "nowhere.json")
        ends(text, 2, "is not a graph", file)
        for wrong in ("", "{", "[]", "null", "{}", "[" * 100000, '{"format": "emplace-certificate", "version": 2}',
                      text.replace('"claim":', '"claim":NaN,"old":'), text.replace('"claim":', '"claim":1e999999999,"old":'),
                      text.replace('"claim":', '"claim":-1,"old":'), text.replace('"claim":', '"claim":"1","old":')):
            ends(wrong, 2, "malformed: ")
        done = subprocess.run([sys.executable, "-I", SOURCE / "scripts/check_certificate.py"], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout), (2, "usage: check_certificate.py FILE [GRAPH]\n"))

    def test_malformed_certificates_are_reported_in_one_line(self):
        path, file = SOURCE / "tests/fixtures/graphs/cifar10_cnn-bs4.json.gz", self.folder.path / "one.json"
        texts = [self.folder.certify(path, machine(random.Random(3)), objective)[0] for objective in ("step-time", "latency")]
        for seed in range(250):
            rng = random.Random(seed)
            document = json.loads(texts[seed % 2])
            place, key = document, rng.choice(sorted(document))
            while isinstance(place[key], (dict, list)) and place[key] and rng.random() < 0.8:
                place = place[key]
                key = rng.choice(sorted(place)) if isinstance(place, dict) else rng.randrange(len(place))
            place[key] = rng.choice([None, "", [], {}, -1, 0, True, 10**30, 1e300, 1e-300, "x", [[]], [0], {"a": 1}, 2**61])
            if rng.random() < 0.2:
                del place[key]
            file.write_text(json.dumps(document))
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                status = check_certificate.main([str(file), str(path)])
            self.assertIn((status, out.getvalue().split(":")[0]), [(0, "proved"), (1, "not proved"), (2, "malformed")], seed)
            self.assertEqual(out.getvalue().count("\n"), 1, seed)

    def test_rules_are_compared_with_the_graph(self):
        path, rules = SOURCE / "tests/fixtures/graphs/nmt-tiny.json.gz", self.folder.path / "rules.toml"
        rules.write_text('[[rule]]\nmatch = { name = ".*" }\npin = "gpu:0"\n')
        graph = json.loads(gzip.decompress(path.read_bytes()))
        text, _ = self.folder.certify(path, machine(random.Random(3)), "step-time", "--rules", str(rules))
        check_certificate.check(check_certificate.parse(text))
        with self.assertRaisesRegex(certificate_graph.Different, "allowed devices"):
            proves(check_certificate.parse(text), graph)

    def test_the_checker_imports_only_the_standard_library(self):
        text = (SOURCE / "scripts/check_certificate.py").read_text()
        self.assertLess(text.count("\n"), 480)
        imported = {line.split()[1] for line in text.splitlines() if line.startswith(("import ", "from "))}
        self.assertLessEqual(imported, set(sys.stdlib_module_names))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
