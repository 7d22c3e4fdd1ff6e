#!/usr/bin/env bash
# One command for a GPU box without network: unpacks the bundle, takes the plugin that came with it or, where that does not
# load, builds it with the nvcc and headers found here, then checks and measures. In: scripts/gpu-check.sh BUNDLE FOLDER
# [SECTION …]; sections: conformance sanitizer identity faults incore outofcore large (default: all that fit in
# SPILLWAY_GPU_SECONDS, 520). SPILLWAY_GPU_IMITATED=1: a rehearsal on the plugin that imitates a GPU, with small networks. Out: gpu.json, logs and plots in FOLDER; exit code 0 if every check that ran holds.
set -uo pipefail
bundle=$(realpath "$1"); mkdir -p "$2"; out=$(realpath "$2"); shift 2
started=$(date +%s)
where=${SPILLWAY_GPU_WHERE:-$(mktemp -d /tmp/spillway-gpu-XXXXXX)}
python3 -m tarfile -e "$bundle" "$where" || tar -xJf "$bundle" -C "$where" || exit 1
cd "$where/spillway" || exit 1
export PATH="$PWD/bin:$PATH" SPILLWAY_ADDON="$PWD/addon/spillway.node" SPILLWAY_CUDA="$PWD/addon/spillway_cuda.so" XDG_CACHE_HOME="$where/cache"
mkdir -p "$XDG_CACHE_HOME/spillway" && ln -sfn "$PWD/sdk" "$XDG_CACHE_HOME/spillway/cuda-sdk"
if [ -n "${SPILLWAY_GPU_IMITATED:-}" ]; then export SPILLWAY_CUDA="$PWD/addon/spillway_imitation.so"; fi
export SPILLWAY_CUDA_LIBRARIES=$(node -p "require('./scripts/cuda/toolkit').libraryFolders().join(':')")

loads() { node -e "console.log(JSON.stringify(require('./dist/src/native').loadNative().deviceFacts('cuda'), null, 1))"; }
if ! loads > "$out/device.json" 2> "$out/device.log"; then
  cat "$out/device.log"
  echo "the plugin that was carried does not serve here: building it"
  if timeout 240 node scripts/build-cuda.js --arch native > "$out/build.log" 2>&1; then
    cp build/cuda/spillway_cuda.so addon/
    loads > "$out/device.json" 2> "$out/device.log" || { cat "$out/device.log"; exit 1; }
  else
    tail -20 "$out/build.log"
    exit 1
  fi
fi
cat "$out/device.json"
node dist/src/cli.js doctor > "$out/doctor.txt" 2>&1
SPILLWAY_GPU_STARTED=$started exec node scripts/gpu/check.js "$out" "$@"
