"""Tests of `save` against PyTorch."""
import os
import sys
import tempfile
import unittest
import warnings
import zipfile

sys.path.insert(0, os.path.join(os.path.dirname(__file__), '..', 'src'))

import torch
from torch import nn

import spillway_export

warnings.simplefilter('ignore')


def net(*more):
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Dropout(0.3), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 2), *more)


class Two(nn.Module):
    def forward(self, x):
        return x, x + 1


class Named(nn.Module):
    def forward(self, x):
        return {'out': x * 2}


IMAGES = torch.zeros(2, 3, 8, 8)


class Save(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, 'model.pt2')

    def arguments(self, name):
        """The arguments of each node of an operator, in the saved file."""
        program = torch.export.load(self.path)
        return [node.args for node in program.graph.nodes if str(node.target).startswith(f'aten.{name}.')]

    def refused(self, model, x, words):
        with self.assertRaises(spillway_export.ExportError) as raised:
            spillway_export.save(model, x, self.path)
        self.assertIn(words, str(raised.exception))
        self.assertFalse(os.path.exists(self.path))

    def test_trains_in_any_mode(self):
        for mode in (True, False):
            model = net().train(mode)
            before = {k: v.clone() for k, v in model.state_dict().items()}
            spillway_export.save(model, IMAGES, self.path)
            self.assertEqual(model.training, mode)
            self.assertIs(self.arguments('batch_norm')[0][5], True)
            self.assertEqual(self.arguments('dropout')[0][1:], (0.3, True))
            for k, v in model.state_dict().items():
                self.assertTrue(torch.equal(v, before[k]), k)

    def test_keeps_fixed_norms(self):
        model = net(nn.Unflatten(1, (2, 1, 1)), nn.BatchNorm2d(2)).train()
        model[1].eval()
        spillway_export.save(model, IMAGES, self.path)
        self.assertEqual([a[5] for a in self.arguments('batch_norm')], [False, True])
        self.assertFalse(model[1].training)

    def test_saves_raw_weights(self):
        spillway_export.save(net(), IMAGES, self.path)
        with zipfile.ZipFile(self.path) as archive:
            names = [n.split('/', 1)[1] for n in archive.namelist()]
            self.assertTrue(all(i.compress_type == zipfile.ZIP_STORED for i in archive.infolist()))
        self.assertIn('models/model.json', names)
        self.assertIn('data/weights/weight_0', names)
        self.assertFalse([n for n in names if n.startswith('data/weights/') and n.endswith('.pt')])

    def test_refuses_inputs(self):
        self.refused(net(), [IMAGES], 'the example input is a list')
        self.refused(net(), IMAGES[0], 'is [3, 8, 8]; allowed: images')
        self.refused(net(), IMAGES.double(), 'torch.float64; allowed: torch.float32, torch.uint8')
        self.refused(net(), torch.zeros(2, 4, 8, 8), 'torch.export cannot export the model')

    def test_refuses_weights(self):
        self.refused(net().half(), IMAGES, "'0.weight' has type torch.float16; allowed: torch.float32")
        model = net()
        model[0].weight.data = model[0].weight.data.to(memory_format=torch.channels_last)
        self.refused(model, IMAGES, "'0.weight' is not contiguous")

    def test_refuses_outputs(self):
        self.refused(Two(), IMAGES, 'the model has 2 outputs; allowed: one')

    def test_takes_one_named_output(self):
        spillway_export.save(Named(), IMAGES, self.path)
        self.assertTrue(os.path.exists(self.path))

    def test_says_that_norms_need_two_images(self):
        model = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.BatchNorm2d(3))
        self.refused(model, IMAGES[:1], 'export with two images')

    def test_refuses_other_names(self):
        with self.assertRaisesRegex(spillway_export.ExportError, r'ends with \.pt2'):
            spillway_export.save(net(), IMAGES, self.path[:-1])

    def test_keeps_the_old_file_if_it_fails(self):
        with open(self.path, 'w') as f:
            f.write('old')
        with self.assertRaises(spillway_export.ExportError):
            spillway_export.save(Two(), IMAGES, self.path)
        with open(self.path) as f:
            self.assertEqual(f.read(), 'old')


if __name__ == '__main__':
    unittest.main()
