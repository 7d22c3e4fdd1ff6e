"""Compares predictions of photos of any size with PyTorch's on the padded photo. In: a folder of photos, weights, values and masks. Out: one JSON
object. Padding is below and on the right, up to multiples of 4, in the mean colour, which is 0 here."""
import glob
import json
import os
import struct
import sys

import numpy as np
import torch
from PIL import Image

F = torch.nn.functional
folder = sys.argv[1]


def tensors(path):
    with open(path, 'rb') as file:
        (length,) = struct.unpack('<Q', file.read(8))
        head, data = json.loads(file.read(length)), file.read()
    head.pop('__metadata__', None)
    floats = {name: t for name, t in head.items() if t['dtype'] == 'F32'}
    part = lambda t: np.frombuffer(data[slice(*t['data_offsets'])], 'f4').copy().reshape(t['shape'])
    return {name: torch.from_numpy(part(t)) for name, t in floats.items()}


w = tensors(f'{folder}/weights.safetensors')


def double_conv(name, x):
    for conv, norm in (('0', '1'), ('3', '4')):
        x = F.conv2d(x, w[f'{name}.{conv}.weight'], padding=1)
        of = lambda what: w[f'{name}.{norm}.{what}']
        x = F.relu(F.batch_norm(x, of('running_mean'), of('running_var'), of('weight'), of('bias'), False, 0, 1e-5))
    return x


def joined(name, x, below):
    up = F.conv_transpose2d(below, w[f'{name}.up.weight'], w[f'{name}.up.bias'], stride=2)
    return double_conv(f'{name}.conv', torch.cat([x, up], 1))


def net(x):
    first = double_conv('inc', x)
    second = double_conv('down1', F.max_pool2d(first, 2))
    third = double_conv('down2', F.max_pool2d(second, 2))
    return F.conv2d(joined('up1', first, joined('up2', second, third)), w['out.weight'], w['out.bias'])


differences, equal, overlaps = [], 0, []
for path in sorted(glob.glob(f'{folder}/data/images/*.png')):
    name = os.path.basename(path)[:-4]
    photo = np.asarray(Image.open(path).convert('RGB'), dtype='f4') / 255
    height, width = photo.shape[:2]
    x = F.pad(torch.from_numpy(photo.transpose(2, 0, 1)[None].copy()), (0, -width % 4, 0, -height % 4))
    with torch.no_grad():
        expected = net(x)[0, :, :height, :width].numpy()
    values = np.load(f'{folder}/values/{name}.npy').reshape(2, height, width)
    mask = np.asarray(Image.open(f'{folder}/predicted/{name}.png')) > 0
    truth = np.asarray(Image.open(f'{folder}/data/masks/{name}.png')) > 0
    differences.append(float(np.abs(values - expected).max()))
    equal += int(mask.shape == (height, width) and (mask == (expected[1] > expected[0])).all())
    overlaps.append((mask & truth).sum() / (mask | truth).sum())
print(json.dumps({'photos': len(differences), 'largest': max(differences), 'equalMasks': equal, 'meanIou': float(np.mean(overlaps))}))
