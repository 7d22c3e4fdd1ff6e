#!/usr/bin/env bash
# Makes one file that a GPU box without network and without Node can run: node, the compiled command line, an addon without
# the cpu device (so it needs no oneDNN), the cuda plugin as built here, the test programs, and the sources and headers to
# build the plugin anew there. Usage: scripts/gpu-bundle.sh [OUT.tar.xz]; then, on the box, scripts/gpu-check.sh OUT.tar.xz FOLDER.
set -euo pipefail
cd "$(dirname "$0")/.."
out=$(realpath -m "${1:-build/gpu-bundle.tar.xz}")
stage=build/gpu-bundle/spillway
jobs=${JOBS:-2}

npm run --silent build
node scripts/build-cuda.js --fetch ${SPILLWAY_GPU_ARCH:+--arch "$SPILLWAY_GPU_ARCH"}
cmake -S native -B build/gpu -G "Unix Makefiles" -DCMAKE_BUILD_TYPE=Release -DSPILLWAY_ADDON=ON -DSPILLWAY_CPU=OFF > build/gpu-configure.log
cmake --build build/gpu --parallel "$jobs" --target spillway kernels_cuda plugin_test

rm -rf build/gpu-bundle
mkdir -p $stage/bin $stage/addon $stage/tests $stage/node_modules $stage/bench
cp "$(command -v node)" $stage/bin/node
strip --strip-unneeded $stage/bin/node
find build/gpu \( -name spillway.node -o -name spillway_imitation.so \) -exec cp {} $stage/addon/ \;
cp build/cuda/spillway_cuda.so $stage/addon/
cp build/gpu/tests/kernels_cuda build/gpu/tests/plugin_test $stage/tests/
strip --strip-unneeded $stage/addon/* $stage/tests/*
cp -r dist native package.json scripts $stage/
cp -r bench/gpu $stage/bench/
rm -rf $stage/dist/tsconfig.build.tsbuildinfo
for package in commander cli-progress string-width strip-ansi ansi-regex emoji-regex is-fullwidth-code-point fp-ts io-ts; do
  cp -r node_modules/$package $stage/node_modules/
done
# Where the plugin has to be built there: the headers of cuDNN and cuBLAS, as fetching them would lay them out.
for library in cudnn cublas; do
  found=$(node -p "require('./scripts/cuda/toolkit').includes().$library")
  mkdir -p $stage/sdk/nvidia/$library/include
  cp "$found"/$library*.h $stage/sdk/nvidia/$library/include/
done
rm -rf $stage/node_modules/fp-ts/es6 $stage/node_modules/io-ts/es6
find $stage/node_modules $stage/dist -name '*.d.ts' -delete
git rev-parse HEAD > $stage/commit
tar -C build/gpu-bundle -cf - spillway | xz -T0 -6 > "$out"

bytes=$(stat -c %s "$out")
echo "$out: $((bytes / 1048576)) MiB"
if [ "$bytes" -ge $((60 * 1048576)) ]; then echo "the bundle must stay under 60 MiB" >&2; exit 1; fi
