#!/bin/sh
# Makes the Python environment that `npm run bench -- cpu` compares with: PyTorch 2.13, CPU build, in build/venv.
# Set SPILLWAY_PYTHON to use another one. PyTorch is a peer of the benchmark, never a dependency of the product.
set -eu
cd "$(dirname "$0")/../.."
python3 -m venv build/venv
build/venv/bin/pip install 'torch==2.13.*'
