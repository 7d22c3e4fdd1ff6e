"""Draws 40 photos of 40 sizes, each with a disc, and their masks. In: a folder. Out: data/images/ and data/masks/ in it."""
import os
import sys

import numpy as np
from PIL import Image

random = np.random.default_rng(1)
folder = sys.argv[1]
for part in ('images', 'masks'):
    os.makedirs(f'{folder}/data/{part}')
sizes = set()
while len(sizes) < 40:
    sizes.add((int(random.integers(33, 150)), int(random.integers(33, 150))))
for i, (height, width) in enumerate(sorted(sizes)):
    y, x = np.mgrid[:height, :width]
    cy, cx = random.uniform(0.3, 0.7) * height, random.uniform(0.3, 0.7) * width
    disc = (y - cy) ** 2 + (x - cx) ** 2 < (min(height, width) * random.uniform(0.15, 0.3)) ** 2
    photo = random.normal(90, 25, (height, width, 3)) + disc[..., None] * np.array([90, 20, -40])
    Image.fromarray(np.clip(photo, 0, 255).astype('u1')).save(f'{folder}/data/images/{i:02}.png')
    Image.fromarray(disc.astype('u1')).save(f'{folder}/data/masks/{i:02}.png')
