#!/usr/bin/env bash
# One command for a GPU box without network: unpacks the bundle, takes the plugin that came with it or, where that does not
# load, builds it with the nvcc and headers found here, then checks and measures. In: scripts/gpu-check.sh BUNDLE FOLDER
# [SECTION …]; sections: those of scripts/gpu/check.js (`node scripts/gpu/check.js --list` says what each wants), by default all in order of
# worth, each with its share of SPILLWAY_GPU_SECONDS, 520.
# SPILLWAY_GPU_PYTHON: the python3 that has PyTorch, if it is not found by itself. SPILLWAY_GPU_IMITATED=1: a rehearsal on the
# plugin that imitates a GPU, with small networks. SPILLWAY_GPU_PROFILES: the folder `profiles` of an earlier call, whose measurements serve
# again. Out: results.tar.xz, which holds all the rest, gpu.json, logs and plots in FOLDER (with
# SPILLWAY_GPU_ONE_FILE=1 only results.tar.xz, gpu.json and runs.log); exit code 0 if every check that ran holds.
set -uo pipefail
bundle=$(realpath "$1"); mkdir -p "$2"; given=$(realpath "$2"); out=$given; shift 2
if [ -n "${SPILLWAY_GPU_PROFILES:-}" ]; then SPILLWAY_GPU_PROFILES=$(realpath "$SPILLWAY_GPU_PROFILES"); fi
started=$(date +%s)
where=${SPILLWAY_GPU_WHERE:-$(mktemp -d /tmp/spillway-gpu-XXXXXX)}
# What is written as it comes must be there, too, if somebody ends this script.
if [ -n "${SPILLWAY_GPU_ONE_FILE:-}" ]; then
  out=$where/results
  mkdir -p "$out"
  for file in gpu.json runs.log; do : > "$given/$file"; ln -sf "$given/$file" "$out/$file"; done
fi
profiles=$where/cache/spillway
# What was measured of this machine serves the next call; and a box may give back few files, so all of them are one.
pack() {
  mkdir -p "$out/profiles" && cp "$profiles"/*.json "$out/profiles/" 2> /dev/null
  tar -C "$out" -chf - --exclude results.tar.xz . | xz -T0 > "$where/results.tar.xz" && mv "$where/results.tar.xz" "$given/"
}
trap pack EXIT
trap 'exit 1' TERM INT
python3 -m tarfile -e "$bundle" "$where" || tar -xJf "$bundle" -C "$where" || exit 1
cd "$where/spillway" || exit 1
export SPILLWAY_ADDON="$PWD/addon/spillway.node" SPILLWAY_CUDA="$PWD/addon/spillway_cuda.so" XDG_CACHE_HOME="$where/cache"
mkdir -p "$XDG_CACHE_HOME/spillway" && ln -sfn "$PWD/sdk" "$XDG_CACHE_HOME/spillway/cuda-sdk"

# The python3 that has PyTorch has cuDNN and cuBLAS beside it: it goes first.
has_torch() { "$1" -c "import importlib.util as u; raise SystemExit(u.find_spec('torch') is None)" 2> /dev/null; }
for python in "${SPILLWAY_GPU_PYTHON:-python3}" "${VIRTUAL_ENV:-/none}"/bin/python3 /opt/*/bin/python3 /opt/*/{.venv,venv}/bin/python3 "${HOME:-/root}"/{.venv,venv,*/.venv,*/venv}/bin/python3; do
  if has_torch "$python"; then
    mkdir -p "$where/python" && printf '#!/bin/sh\nexec "%s" "$@"\n' "$(command -v "$python")" > "$where/python/python3" && chmod +x "$where/python/python3"
    export PATH="$where/python:$PATH"
    break
  fi
done
export PATH="$PWD/bin:$PATH"
if ! node --version > "$out/node.log" 2>&1; then
  echo "the node of the bundle does not run here: $(tail -1 "$out/node.log")"
  printf '{"error":"the node of the bundle does not run here"}\n' > "$out/gpu.json"
  exit 1
fi
if [ -n "${SPILLWAY_GPU_IMITATED:-}" ]; then export SPILLWAY_CUDA="$PWD/addon/spillway_imitation.so"; fi
export SPILLWAY_CUDA_LIBRARIES="${SPILLWAY_CUDA_LIBRARIES:+$SPILLWAY_CUDA_LIBRARIES:}$(node -p "require('./scripts/cuda/toolkit').libraryFolders().join(':')")"

loads() { timeout 60 node -e "console.log(JSON.stringify(require('./dist/src/device/native').loadNative().deviceFacts('cuda'), null, 1))" > "$out/device.json" 2> "$out/device.log"; }
if ! loads && grep -q 'cannot load\|built for another version' "$out/device.log"; then
  grep 'Error' "$out/device.log"
  echo "the plugin that was carried does not load here: building it"
  timeout 240 node scripts/build-cuda.js --arch native > "$out/build.log" 2>&1 && cp build/cuda/spillway_cuda.so addon/ && loads || tail -20 "$out/build.log"
fi
if [ ! -s "$out/device.json" ]; then
  cat "$out/device.log"
  node -e "require('fs').writeFileSync(process.argv[1], JSON.stringify({ error: process.argv[2] }))" "$out/gpu.json" "$(grep -m1 Error "$out/device.log")"
  timeout 60 node dist/src/cli.js doctor > "$out/doctor.txt" 2>&1
  exit 1
fi
cat "$out/device.json"
timeout 60 node dist/src/cli.js doctor > "$out/doctor.txt" 2>&1
if [ -d "${SPILLWAY_GPU_PROFILES:-}" ]; then cp "$SPILLWAY_GPU_PROFILES"/*.json "$profiles/"; fi
SPILLWAY_GPU_STARTED=$started node scripts/gpu/check.js "$out" "$@"
