"""Saves a PyTorch network as a program that `spillway import` reads."""
import contextlib
import os
import tempfile

import torch

__all__ = ['ExportError', 'save']


class ExportError(ValueError):
    """A network that `spillway import` does not read, with the reason and the likely fix."""


def save(model, example_input, path):
    """Exports a model as it trains, checks the program, and saves it.

    model: a `torch.nn.Module` with one input and one output.
    example_input: images `[batch, channels, height, width]` of float32 or uint8; two images or more if the network has norms of single values.
    path: the file to write; its name ends with `.pt2`.
    Returns the `torch.export.ExportedProgram`. Raises `ExportError`.
    """
    path = os.fspath(path)
    if not path.endswith('.pt2'):
        raise ExportError(f"the path is '{path}'; allowed: a name that ends with .pt2")
    _check_input(example_input)
    _check_weights(model)
    with _training(model):
        program = _exported(model, example_input)
    _check_program(program)
    _write(program, path)
    return program


def _check_input(x):
    if not isinstance(x, torch.Tensor):
        raise ExportError(f'the example input is a {type(x).__name__}; allowed: one tensor')
    if x.dim() != 4:
        raise ExportError(f'the example input is {list(x.shape)}; allowed: images [batch, channels, height, width]')
    if x.dtype not in (torch.float32, torch.uint8):
        raise ExportError(f'the example input has type {x.dtype}; allowed: torch.float32, torch.uint8')


def _check_weights(model):
    for name, p in [*model.named_parameters(), *model.named_buffers()]:
        if type(p.data) is not torch.Tensor:
            raise ExportError(f"'{name}' is a {type(p.data).__name__}; allowed: plain tensors")
        if p.device.type == 'meta':
            raise ExportError(f"'{name}' has no numbers; initialize the model on a device")
        if p.is_floating_point() and p.dtype != torch.float32:
            raise ExportError(f"'{name}' has type {p.dtype}; allowed: torch.float32; call model.float() first")
        if not p.is_contiguous():
            raise ExportError(
                f"'{name}' is not contiguous; call model.to(memory_format=torch.contiguous_format) or assign p.data.contiguous() first"
            )


@contextlib.contextmanager
def _training(model):
    """Puts a model in eval mode into training mode, and back. A model in training mode keeps the modes of its parts."""
    modes = {module: module.training for module in model.modules()}
    if not model.training:
        model.train()
    try:
        yield
    finally:
        for module, mode in modes.items():
            module.training = mode


def _exported(model, x):
    try:
        return torch.export.export(model, (x,))
    except Exception as e:
        first = str(e).strip().split('\n')[0]
        more = '; export with two images' if 'more than 1 value per channel' in first else ''
        raise ExportError(f'torch.export cannot export the model: {type(e).__name__}: {first}{more}') from e


def _check_program(program):
    outputs = program.graph_signature.user_outputs
    inputs = program.graph_signature.user_inputs
    if len(inputs) != 1:
        raise ExportError(f'the model has {len(inputs)} inputs; allowed: one')
    if len(outputs) != 1 or not isinstance(outputs[0], str):
        raise ExportError(f'the model has {len(outputs)} outputs; allowed: one tensor; wrap the model so that it returns one')
    if program.range_constraints:
        raise ExportError(f'the program has sizes that are not fixed ({program.range_constraints}); allowed: fixed sizes')
    for node in program.graph.nodes:
        value = node.meta.get('val')
        if isinstance(value, torch.Tensor) and any(not isinstance(n, int) for n in value.shape):
            raise ExportError(f"the size of '{node.name}' is {list(value.shape)}; allowed: fixed sizes")
    for name, constant in program.constants.items():
        if not isinstance(constant, torch.Tensor):
            raise ExportError(f"the constant '{name}' is a {type(constant).__name__}; allowed: tensors")


def _write(program, path):
    """Writes the file whole, or leaves the old one."""
    folder = os.path.dirname(path) or '.'
    with tempfile.TemporaryDirectory(dir=folder, prefix='.spillway-export-') as temporary:
        part = os.path.join(temporary, os.path.basename(path))
        torch.export.save(program, part)
        os.replace(part, path)
