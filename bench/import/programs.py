"""People's networks as programs of torch.export, for bench/import.ts: those of networks.py, exported in both modes.

Run:  python programs.py FOLDER [NAME ...]
Writes each network twice, in the states 'train' and 'eval'. An existing file is not written again.
With --survey before FOLDER: also the families of the survey, in the state 'eval' alone.
Prints a line of JSON for each: its name, exporter ('export') and state, and its file or the error of the export.

Run:  python programs.py --losses FOLDER [NAME ...]
Writes a sample of networks in training mode, each in a folder. It has net.pt2, and a batch of images as data/input.npy and data/target.npy. The file
losses.json has PyTorch's losses of 20 steps of SGD on this batch, in single and in double precision: many untrained networks magnify rounding.
Dropouts have probability 0: PyTorch's random numbers are its own.

Run:  python programs.py --strict FOLDER [NAME ...]
Loads the weights trained.safetensors of these folders into the networks, with strict=True. Prints a line of JSON for each: its name, and the error.
Needs the packages of networks.py.
"""
import copy
import json
import os
import sys

import numpy as np

from networks import networks, survey, timm, torch, tv, warnings

SAMPLE = ('torchvision/resnet18', 'torchvision/mobilenet_v2', 'torchvision/convnext_tiny', 'torchvision/regnet_y_400mf', 'timm/seresnet50',
          'timm/mobilevit_s', 'timm/convnextv2_tiny', 'timm/pvt_v2_b0', 'timm/mobilenetv4_hybrid_medium', 'smp/Unet-resnet34',
          'smp/Unet-mit_b0', 'smp/Segformer-mit_b0', 'timm/resnest14d', 'timm/skresnet18', 'timm/tresnet_m', 'timm/focalnet_tiny_srf',
          'timm/nf_regnet_b0', 'timm/hgnetv2_b0', 'timm/poolformerv2_s12', 'timm/shvit_s1', 'smp/MAnet-resnet34')
STEPS, BATCH, SIZE, LR = 20, 4, 64, 1e-5


def swin():
    return tv.SwinTransformer(patch_size=[4, 4], embed_dim=24, depths=[2, 2], num_heads=[2, 4], window_size=[4, 4])


def swin_v2():
    return tv.SwinTransformer(patch_size=[4, 4], embed_dim=24, depths=[2, 2], num_heads=[2, 4], window_size=[4, 4],
                              block=tv.swin_transformer.SwinTransformerBlockV2, downsample_layer=tv.swin_transformer.PatchMergingV2)


# Networks for images of one size, made for this one; a smaller Swin; networks that are not in networks.py.
SIZED = {f'timm/{n}': lambda n=n: timm.create_model(n, img_size=SIZE)
         for n in ('mixer_s16_224', 'gmlp_ti16_224', 'resmlp_12_224', 'cait_xxs24_224', 'xcit_nano_12_p16_224')}
SIZED['timm/eva02_tiny_patch14_224'] = lambda: timm.create_model('eva02_tiny_patch14_224', img_size=SIZE, patch_size=16)
SIZED['timm/levit_128s'] = lambda: timm.create_model('levit_128s', img_size=SIZE)
SIZED['timm/nextvit_small'] = lambda: timm.create_model('nextvit_small')
SIZED |= {f'timm/{n}': lambda n=n: timm.create_model(n) for n in ('efficientvit_b0', 'edgenext_xx_small', 'swiftformer_xs')}
SIZED['torchvision/swin'] = swin
SIZED['torchvision/swin_v2'] = swin_v2
SMALL = {'img_size': SIZE, 'embed_dim': 96, 'depth': 2, 'num_heads': 3}
SIZED |= {f'timm/{n}': lambda n=n: timm.create_model(n, **SMALL)
          for n in ('beit_base_patch16_224', 'beitv2_base_patch16_224', 'vit_relpos_small_patch16_224', 'vit_base_patch16_siglip_224')}
SIZED['timm/swinv2_tiny_window8_256'] = lambda: timm.create_model('swinv2_tiny_window8_256', img_size=SIZE, window_size=4)
SIZED['timm/swinv2_cr_tiny_ns_224'] = lambda: timm.create_model('swinv2_cr_tiny_ns_224', img_size=SIZE)
SIZED |= {f'timm/{n}': lambda n=n: timm.create_model(n, img_size=SIZE) for n in ('maxvit_tiny_tf_224', 'maxvit_rmlp_pico_rw_256')}


def exported(net, x):
    program = torch.export.export(net, (x,))
    # Places of the source take most of the file.
    for node in program.graph.nodes:
        node.meta.pop('stack_trace', None)
    program._example_inputs = None
    return program


def shares(found, states, folder, *names):
    os.makedirs(folder, exist_ok=True)
    for name, make, size in found:
        if names and not any(n in name for n in names):
            continue
        for state in states:
            path = os.path.join(folder, f"{name.replace('/', '_')}-export-{state}.pt2")
            line = {'name': name, 'exporter': 'export', 'state': state}
            try:
                if not os.path.exists(path):
                    torch.manual_seed(0)
                    net = make().train(state == 'train')
                    torch.export.save(exported(net, torch.zeros(2, 3, size, size)), path)
                print(json.dumps({**line, 'file': path}), flush=True)
            except Exception as e:
                print(json.dumps({**line, 'error': str(e).split('\n')[0][:200]}), flush=True)


def without_drops(net):
    for module in net.modules():
        for name in ('p', 'drop_prob', 'dropout_p'):
            if isinstance(getattr(module, name, None), float):
                setattr(module, name, 0.0)
    return net


def trained(net, images, target):
    """The loss of each step."""
    optimizer, seen = torch.optim.SGD(net.parameters(), lr=LR, momentum=0.9), []
    for _ in range(STEPS):
        loss = torch.nn.functional.cross_entropy(net(images), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        seen.append(float(loss))
    return seen


def losses(folder, *names):
    sample = {name: make for name, make, _ in networks() if name in SAMPLE}
    for name, make in {**sample, **SIZED}.items():
        if names and not any(n in name for n in names):
            continue
        place = os.path.join(folder, name.replace('/', '_'))
        os.makedirs(os.path.join(place, 'data'), exist_ok=True)
        torch.manual_seed(0)
        net = without_drops(make()).train()
        images = torch.randn(BATCH, 3, SIZE, SIZE)
        torch.export.save(exported(net, images), os.path.join(place, 'net.pt2'))
        output = copy.deepcopy(net)(images)
        target = torch.randint(0, output.shape[1], (BATCH, *output.shape[2:]), dtype=torch.int32)
        np.save(os.path.join(place, 'data/input.npy'), images.numpy())
        np.save(os.path.join(place, 'data/target.npy'), target.numpy())
        seen = {kind: trained(copy.deepcopy(net).to(dtype), images.to(dtype), target.long())
                for kind, dtype in (('single', torch.float32), ('double', torch.float64))}
        with open(os.path.join(place, 'losses.json'), 'w') as f:
            json.dump(seen, f)
        print(json.dumps({'name': name, 'folder': place, 'lr': LR, 'steps': STEPS}), flush=True)


def strict(folder, *names):
    from safetensors.torch import load_file
    sample = {name: make for name, make, _ in networks() if name in SAMPLE}
    for name, make in {**sample, **SIZED}.items():
        path = os.path.join(folder, name.replace('/', '_'), 'trained.safetensors')
        if (names and not any(n in name for n in names)) or not os.path.exists(path):
            continue
        try:
            make().load_state_dict(load_file(path), strict=True)
            print(json.dumps({'name': name}), flush=True)
        except RuntimeError as e:
            print(json.dumps({'name': name, 'error': ' '.join(str(e).split())[:300]}), flush=True)


if __name__ == '__main__':
    warnings.simplefilter('ignore')
    torch.set_num_threads(1)
    if sys.argv[1] == '--losses':
        losses(*sys.argv[2:])
    elif sys.argv[1] == '--strict':
        strict(*sys.argv[2:])
    elif sys.argv[1] == '--survey':
        shares([*networks(), *survey()], ['eval'], *sys.argv[2:])
    else:
        shares(networks(), ['train', 'eval'], *sys.argv[1:])
