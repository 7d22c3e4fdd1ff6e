# PyTorch's side of the benchmark: the same training graph, as PyTorch's own operators, a step at a time.
# In: graph.json (the staged graph), mode, threads as arguments; lines 'step' and 'end' on stdin. Out: a JSON line each.
# Modes: plain (NCHW), channels-last, compiled (channels-last under torch.compile), autocast (channels-last, in bf16), checkpoint:N
# (channels-last, in N segments of torch.utils.checkpoint), ddp (channels-last, one of several processes over gloo, as the environment says).
# The allocator is the environment's.
import json, resource, sys, time

import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

graph = json.load(open(sys.argv[1]))
mode, threads = sys.argv[2], int(sys.argv[3])
torch.set_num_threads(threads)
torch.manual_seed(1)
values, LAST = graph["values"], torch.channels_last

FORWARD = [op for op in graph["ops"] if op["phase"] in ("forward", "loss")]
PARAMS = {v["id"]: v for v in values if v["role"] == "param"}
STATES = {v["name"]: v for v in values if v["role"] == "state"}
READERS = {}
for op in FORWARD:
    for v in op["ins"]:
        READERS[v] = READERS.get(v, 0) + 1


def both(a, name):
    return (a[name + "H"], a[name + "W"])


def conv2d(a, x, w, b=None):
    top, left, bottom, right = a["padTop"], a["padLeft"], a["padBottom"], a["padRight"]
    if (top, left) != (bottom, right):
        x, top, left = F.pad(x, (left, right, top, bottom)), 0, 0
    return F.conv2d(x, w, b, both(a, "stride"), (top, left), both(a, "dilation"), a["groups"])


def avg_pool(a, x):
    return F.avg_pool2d(x, both(a, "kernel"), both(a, "stride"), (a["padTop"], a["padLeft"]), bool(a["ceil"]), bool(a["countIncludePad"]))


def upsample(a, x):
    mode = {"mode": "nearest"} if a["mode"] == 0 else {"mode": "bilinear", "align_corners": a["mode"] == 2}
    return F.interpolate(x, (a["outH"], a["outW"]), **mode)


def relu(a, x):
    return F.relu(x, inplace=True) if a["slope"] == 0 else F.leaky_relu(x, a["slope"], inplace=True)


def of_pixels(f, x):
    """f on the channels of each pixel, innermost: without a copy of tensors that lie channels-last."""
    return f(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


def drop_images(a, x):
    return x * x.new_empty(x.shape[0], 1, 1, 1).bernoulli_(1 - a["p"]).div_(1 - a["p"])


RULES = {
    "conv2d": conv2d,
    "linear": lambda a, x, w, b=None: of_pixels(lambda x: F.linear(x, w, b), x),
    "relu": relu,
    "relu6": lambda a, x: F.relu6(x, inplace=True),
    "gelu": lambda a, x: F.gelu(x),
    "silu": lambda a, x: F.silu(x),
    "sigmoid": lambda a, x: torch.sigmoid(x),
    "multiply": lambda a, x, y: x * y,
    "layer_norm": lambda a, x, gamma, beta: of_pixels(lambda x: F.layer_norm(x, gamma.shape, gamma, beta, a["eps"]), x),
    "scale": lambda a, x, factor: x * factor,
    "drop_images": drop_images,
    "max_pool": lambda a, x: F.max_pool2d(x, both(a, "kernel"), both(a, "stride"), (a["padTop"], a["padLeft"]), 1, bool(a["ceil"])),
    "avg_pool": avg_pool,
    "global_avg_pool": lambda a, x: F.adaptive_avg_pool2d(x, 1),
    "add": lambda a, *xs: sum(xs[1:], xs[0]),
    "upsample": upsample,
    "concat": lambda a, *xs: torch.cat(xs, 1),
    "flatten": lambda a, x: x.flatten(1)[:, :, None, None],
    "dropout": lambda a, x: F.dropout(x, a["p"]),
    "softmax_xent": lambda a, x, t: F.cross_entropy(x, t[:, 0]),
    "mse": lambda a, x, t: F.mse_loss(x, t),
}


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weights = torch.nn.ParameterList([self.drawn(v) for v in PARAMS.values()])
        self.at = {id: i for i, id in enumerate(PARAMS)}

    @staticmethod
    def drawn(v):
        a, dist = v["init"]["a"], v["init"]["dist"]
        t = torch.empty(v["shape"])
        t = t.fill_(a) if dist == "constant" else t.normal_(0, a) if dist == "normal" else t.uniform_(-a, a)
        return torch.nn.Parameter(t)

    def forward(self, fed):
        return self.through(FORWARD, dict(fed))

    def through(self, ops, have):
        left = dict(READERS)
        for op in ops:
            have[op["outs"][0]] = self.run(op, [self.weights[self.at[v]] if v in self.at else have.get(v) for v in op["ins"]])
            for v in op["ins"]:
                left[v] -= 1
                if left[v] == 0:
                    have.pop(v, None)
        return have[ops[-1]["outs"][0]]

    def in_segments(self, fed, segments):
        x, inside = None, None
        for ops in segments:
            if inside is None:
                x = checkpoint(lambda ops=ops: self.through(ops, dict(fed)), use_reentrant=False)
            else:
                x = checkpoint(lambda x, ops=ops, inside=inside: self.through(ops, {**fed, inside: x}), x, use_reentrant=False)
            inside = ops[-1]["outs"][0]
        return x

    @staticmethod
    def run(op, ins):
        kind, a = op["kind"], op["attrs"]
        if kind == "bn_stats":
            return None  # PyTorch's batch norm does both parts at once
        if kind == "bn_apply":
            x, _, gamma, beta = ins
            mean, var = RUNNING.get(op["layer"], (None, None))
            return F.batch_norm(x, mean, var, gamma, beta, True, 0.1, a["eps"])
        if kind not in RULES:
            raise SystemExit(f"peer.py has no rule for '{kind}'")
        return RULES[kind](a, *ins)


def cut(ops, count):
    """About equal numbers of operators, cut where one value alone is needed later, as checkpoint_sequential does with layers."""
    made = {op["outs"][0]: i for i, op in enumerate(ops)}
    last = {}
    for i, op in enumerate(ops):
        for v in op["ins"]:
            if v in made:
                last[v] = i
    # Statistics are part of PyTorch's batch norm, no value of its own; a relu in place belongs to what it overwrites.
    cuts = [
        i + 1
        for i, op in enumerate(ops[:-1])
        if ops[i + 1]["kind"] not in ("relu", "bn_apply") and all(v == op["outs"][0] or last[v] <= i for v in last if made[v] <= i)
    ]
    wanted = [round(len(ops) * k / count) for k in range(1, count)]
    chosen = sorted({min(cuts, key=lambda c: abs(c - w)) for w in wanted} if cuts else set())
    ends = [0, *chosen, len(ops)]
    return [ops[a:b] for a, b in zip(ends, ends[1:])]


RUNNING = {}
for name, v in STATES.items():
    if name.endswith(".running_mean"):
        layer = name[: -len(".running_mean")]
        RUNNING[layer] = (torch.zeros(v["shape"]), torch.ones(v["shape"]))

net = Net()
fed = {}
for v in values:
    if v["role"] == "input":
        fed[v["id"]] = torch.randn(v["shape"])
    if v["role"] == "target":
        fed[v["id"]] = torch.randint(0, 10, v["shape"]) if v["dtype"] == "i32" else torch.randn(v["shape"])
if mode != "plain":
    net = net.to(memory_format=LAST)
    fed = {k: t.contiguous(memory_format=LAST) if t.is_floating_point() and t.dim() == 4 else t for k, t in fed.items()}
sgd = next(op["attrs"] for op in graph["ops"] if op["kind"] == "sgd")
optimizer = torch.optim.SGD(net.parameters(), sgd["lr"], sgd["momentum"])
model = torch.compile(net) if mode == "compiled" else net
if mode == "ddp":
    torch.distributed.init_process_group("gloo")
    model = torch.nn.parallel.DistributedDataParallel(net)
if mode.startswith("checkpoint:"):
    segments = cut(FORWARD, int(mode.split(":")[1]))
    model = lambda fed: net.in_segments(fed, segments)


def step():
    optimizer.zero_grad(set_to_none=True)
    with torch.autocast("cpu", torch.bfloat16, enabled=mode == "autocast"):
        loss = model(fed)
    loss.backward()
    optimizer.step()
    return loss.item()


def say(**kwargs):
    print(json.dumps(kwargs), flush=True)


peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
say(torch=torch.__version__, baseBytes=peak())
for line in sys.stdin:
    if line.strip() != "step":
        break
    began = time.perf_counter()
    loss = step()
    say(seconds=time.perf_counter() - began, loss=loss, memoryBytes=peak())
