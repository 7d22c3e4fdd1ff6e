"""PyTorch's training step (forward, loss, backward, SGD with momentum) in its best ways. In: model, batch, image, precision; with
--serve such words line by line. Out: after each mode a line of JSON of all so far, the last one counts, behind it an empty line: seconds
per step (median) and peak bytes of steps as they go on. Modes: eager with channels-last, graph (CUDA graphs), compile, budget:SHARE (compile
with this activation_memory_budget), save_on_cpu, checkpoint:SEGMENTS, and checkpoint:SEGMENTS+save_on_cpu. A mode that fails says why; the
others stand. Without a GPU it runs on the processor, for a rehearsal."""
import argparse
import contextlib
import json
import sys
import time

import torch


def vision():
    import torchvision

    return torchvision.models


def darknet19_features(norm):
    # Redmon and Farhadi's Darknet-19 trunk: 3x3 convolutions with 1x1 bottlenecks between them, five poolings.
    plan = [32, 'M', 64, 'M', 128, (64,), 128, 'M', 256, (128,), 256, 'M', 512, (256,), 512, (256,), 512, 'M', 1024, (512,), 1024, (512,), 1024]
    layers, channels = [], 3
    for item in plan:
        if item == 'M':
            layers.append(torch.nn.MaxPool2d(2))
            continue
        out, kernel = (item[0], 1) if isinstance(item, tuple) else (item, 3)
        layers.append(torch.nn.Conv2d(channels, out, kernel, padding=kernel // 2, bias=not norm))
        if norm:
            layers.append(torch.nn.BatchNorm2d(out))
        layers.append(torch.nn.LeakyReLU(0.1, inplace=True))
        channels = out
    return torch.nn.Sequential(*layers)


def small():
    # scripts/gpu/small.js
    def cheap():
        return torch.nn.Sequential(torch.nn.Conv2d(32, 32, 3, padding=1, groups=32), torch.nn.BatchNorm2d(32), torch.nn.ReLU())

    class Residual(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.body = torch.nn.Sequential(cheap(), cheap())

        def forward(self, x):
            return x + self.body(x)

    return torch.nn.Sequential(torch.nn.Conv2d(3, 32, 3, padding=1), torch.nn.ReLU(), Residual(), cheap(), cheap(),
                               torch.nn.Conv2d(32, 32, 3, padding=2, dilation=2, groups=32), torch.nn.ReLU(), torch.nn.Conv2d(32, 4, 1))


def normed(i, o, kernel, dilation=1):
    conv = torch.nn.Conv2d(i, o, kernel, padding=dilation * (kernel // 2), dilation=dilation, bias=False)
    return conv, torch.nn.BatchNorm2d(o), torch.nn.ReLU(inplace=True)


def stretch(x, like):
    return torch.nn.functional.interpolate(x, size=like.shape[2:], mode='bilinear', align_corners=False)


def deeplabv3plus():
    # models/deeplab.ts: VainF's DeepLabV3Plus-Pytorch, output stride 16.
    class ImagePooling(torch.nn.Sequential):
        def forward(self, x):
            return stretch(super().forward(x), x)

    class DeepLab(torch.nn.Module):
        def __init__(self):
            super().__init__()
            nn = torch.nn
            self.backbone = vision().resnet50(replace_stride_with_dilation=[False, False, True])
            del self.backbone.fc
            dilated = [nn.Sequential(*normed(2048, 256, 3, d)) for d in (6, 12, 18)]
            pooling = ImagePooling(nn.AdaptiveAvgPool2d(1), *normed(2048, 256, 1))
            self.low, self.reaches = nn.Sequential(*normed(256, 48, 1)), nn.ModuleList([nn.Sequential(*normed(2048, 256, 1)), *dilated, pooling])
            self.project = nn.Sequential(*normed(5 * 256, 256, 1), nn.Dropout(0.1))
            self.head = nn.Sequential(*normed(304, 256, 3), nn.Conv2d(256, 21, 1))

        def forward(self, x):
            b = self.backbone
            low = b.layer1(b.maxpool(b.relu(b.bn1(b.conv1(x)))))
            high = b.layer4(b.layer3(b.layer2(low)))
            low, high = self.low(low), self.project(torch.cat([reach(high) for reach in self.reaches], 1))
            return stretch(self.head(torch.cat([low, stretch(high, low)], 1)), x)

    return DeepLab()


DEVICE = 'cuda' if torch.cuda.is_available() else 'cpu'
MODELS = {
    'small': small,
    'resnet50': lambda: vision().resnet50(),
    'vgg16': lambda: vision().vgg16(),
    'densenet121': lambda: vision().densenet121(),
    'deeplabv3plus-resnet50': deeplabv3plus,
    'vgg16-features': lambda: vision().vgg16().features,
    'darknet19-features': lambda: darknet19_features(True),
    'darknet19-features-plain': lambda: darknet19_features(False),
}


def build(args):
    torch.manual_seed(0)
    model = MODELS[args.model]().to(DEVICE).to(memory_format=torch.channels_last).train()
    image = torch.randn(args.batch, 3, args.image, args.image, device=DEVICE).to(memory_format=torch.channels_last)
    with torch.no_grad():
        seen = min(args.image, 256)
        shape = model(image[:2, :, :seen, :seen]).shape
    if args.model.startswith('deeplab'):
        target, loss = torch.randint(0, shape[1], (args.batch, args.image, args.image), device=DEVICE), torch.nn.functional.cross_entropy
    elif len(shape) == 2:
        target, loss = torch.randint(0, shape[1], (args.batch,), device=DEVICE), torch.nn.functional.cross_entropy
    else:
        scale = args.image * shape[2] // seen
        target = torch.randn(args.batch, shape[1], scale, scale, device=DEVICE).to(memory_format=torch.channels_last)
        loss = torch.nn.functional.mse_loss
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    return model, image, target, loss, optimizer


def layers_of(model):
    # For checkpoint_sequential: the network as a list. Each block of a ResNet is one element.
    if isinstance(model, torch.nn.Sequential):
        return list(model)
    children = dict(model.named_children())
    if 'layer1' in children:
        stages = [block for name in ('layer1', 'layer2', 'layer3', 'layer4') for block in children[name]]
        return [model.conv1, model.bn1, model.relu, model.maxpool, *stages, model.avgpool, torch.nn.Flatten(1), model.fc]
    if 'features' in children and 'classifier' in children and isinstance(model.classifier, torch.nn.Sequential):
        return [*model.features, model.avgpool, torch.nn.Flatten(1), *model.classifier]
    raise ValueError('this network is no list of layers')


def checkpointed(model, segments):
    from torch.utils.checkpoint import checkpoint_sequential

    layers = layers_of(model)
    return lambda x: checkpoint_sequential(layers, segments, x, use_reentrant=False)


def stepper(model, image, target, loss, optimizer, narrow, on_cpu=False):
    # Parameters are kept in fp32: that is what autocast does, and what is compared with.
    def saved():
        return torch.autograd.graph.save_on_cpu(pin_memory=DEVICE == 'cuda') if on_cpu else contextlib.nullcontext()

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(DEVICE, dtype=torch.bfloat16, enabled=narrow, cache_enabled=False), saved():
            value = loss(model(image), target)
        value.backward()
        optimizer.step()
    return step


def graphed(step):
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


def finish():
    if DEVICE == 'cuda':
        torch.cuda.synchronize()


def measure(step, steps):
    for _ in range(3):
        step()
    finish()
    if DEVICE == 'cuda':  # what the search for algorithms took is over
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    seconds = []
    for _ in range(steps):
        start = time.perf_counter()
        step()
        finish()
        seconds.append(time.perf_counter() - start)
    return sorted(seconds)[len(seconds) // 2]


def run(mode, args):
    if DEVICE == 'cuda':
        torch.cuda.empty_cache()
    model, *rest = build(args)
    forward, on_cpu = model, False
    for name, _, value in (part.partition(':') for part in mode.split('+')):
        if name == 'save_on_cpu':
            on_cpu = True
        elif name == 'checkpoint':
            forward = checkpointed(model, int(value))
        elif name in ('compile', 'budget'):
            import torch._functorch.config as functorch

            torch._dynamo.reset()
            functorch.activation_memory_budget = float(value or 1)
            forward = torch.compile(model)
        elif name not in ('eager', 'graph'):
            raise ValueError(f'there is no mode {name}')
    step = stepper(forward, *rest, args.precision == 'bf16', on_cpu)
    seconds = measure(graphed(step) if mode == 'graph' else step, args.steps)
    return {'secondsPerStep': seconds, **({'peakBytes': torch.cuda.max_memory_allocated()} if DEVICE == 'cuda' else {})}


def answer(words):
    p = argparse.ArgumentParser()
    p.add_argument('--model', choices=MODELS, required=True)
    p.add_argument('--batch', type=int, default=1)
    p.add_argument('--image', type=int, required=True)
    p.add_argument('--precision', choices=['fp32', 'tf32', 'bf16'], default='fp32')
    p.add_argument('--steps', type=int, default=20)
    p.add_argument('--modes', default='eager,graph,compile')
    args = p.parse_args(words)
    allowed = args.precision == 'tf32'
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = allowed
    torch.backends.cudnn.benchmark = True
    modes = {}
    for mode in args.modes.split(','):
        try:
            modes[mode] = run(mode, args)
        except Exception as e:  # one mode's failure leaves the others
            modes[mode] = {'error': str(e)[:300]}
        print(json.dumps({'torch': torch.__version__, 'cudnn': torch.backends.cudnn.version(), 'device': DEVICE, 'modes': modes}), flush=True)
    if DEVICE == 'cuda':
        torch.cuda.empty_cache()
    print(flush=True)


if sys.argv[1:] == ['--serve']:
    for line in sys.stdin:
        answer(line.split())
else:
    answer(sys.argv[1:])
