#!/usr/bin/env bash
# Makes one file that a GPU box without network and without Node can run: node, the compiled command line, an addon without
# the cpu device (so it needs no oneDNN), the cuda plugin as built here, the test programs, and the sources and headers to
# build the plugin anew there. Usage: scripts/gpu-bundle.sh [OUT.tar.xz]; then, on the box, scripts/gpu-check.sh OUT.tar.xz FOLDER.
# SPILLWAY_GPU_IMITATED=1: for a rehearsal here, of what is built here already, the plugin that imitates a GPU among it; nothing is compiled.
set -euo pipefail
cd "$(dirname "$0")/.."
out=$(realpath -m "${1:-build/gpu-bundle.tar.xz}")
stage=build/gpu-bundle/spillway
jobs=${JOBS:-2}
command -v xz > /dev/null || { echo "xz is not installed: apt-get install -y xz-utils" >&2; exit 2; }

if [ -z "${SPILLWAY_GPU_IMITATED:-}" ]; then
  npm run --silent build
  node scripts/build-cuda.js --fetch ${SPILLWAY_GPU_ARCH:+--arch "$SPILLWAY_GPU_ARCH"}
  cmake -S native -B build/gpu -G "Unix Makefiles" -DCMAKE_BUILD_TYPE=Release -DSPILLWAY_ADDON=ON -DSPILLWAY_CPU=OFF > build/gpu-configure.log
  cmake --build build/gpu --parallel "$jobs" --target spillway kernels_cuda plugin_test
fi

rm -rf build/gpu-bundle
mkdir -p $stage/bin $stage/addon $stage/tests $stage/node_modules $stage/bench
if [ -z "${SPILLWAY_GPU_IMITATED:-}" ]; then
  cp "$(command -v node)" $stage/bin/node
  strip --strip-unneeded $stage/bin/node
  find build/gpu \( -name spillway.node -o -name spillway_imitation.so \) -exec cp {} $stage/addon/ \;
  cp build/cuda/spillway_cuda.so $stage/addon/
  cp build/gpu/tests/kernels_cuda build/gpu/tests/plugin_test $stage/tests/
  strip --strip-unneeded $stage/addon/* $stage/tests/*
else
  find build/addon/Release \( -name spillway.node -o -name spillway_imitation.so \) -exec cp {} $stage/addon/ \;
  cp build/addon/tests/kernels_cuda $stage/tests/
fi
cp -r dist native package.json protos scripts $stage/
cp -r bench/gpu $stage/bench/
rm -rf $stage/dist/tsconfig.build.tsbuildinfo
# What runs there needs but the compiler, types and the headers of Node.
npm ls --omit=dev --all --parseable | sed -n 's#^.*/\(node_modules/.*\)#\1#p' | grep -vE '/(typescript|@types/.*|undici-types|node-a.*)$' | while read -r package; do
  cp -r "$package" $stage/node_modules/
done
# Where the plugin has to be built there: the headers of cuDNN and cuBLAS, as fetching them would lay them out.
if [ -z "${SPILLWAY_GPU_IMITATED:-}" ]; then
  for library in cudnn cublas; do
    found=$(node -p "require('./scripts/cuda/toolkit').includes().$library")
    mkdir -p $stage/sdk/nvidia/$library/include
    cp "$found"/$library*.h $stage/sdk/nvidia/$library/include/
  done
fi
rm -rf $stage/node_modules/fp-ts/es6 $stage/node_modules/io-ts/es6
find $stage/node_modules $stage/dist -name '*.d.ts' -delete
git rev-parse HEAD > $stage/commit
tar -C build/gpu-bundle -cf - spillway | xz -T0 ${SPILLWAY_GPU_IMITATED:+-0} > "$out"

bytes=$(stat -c %s "$out")
files=$(git ls-files -z | xargs -0 stat -c %s | awk '{ n += $1 } END { print n }')
echo "$out: $((bytes / 1048576)) MiB; with the files of the checkout $(((bytes + files) / 1048576)) MiB"
# Some boxes are given the checkout and what is named beside it, 64 MiB in all.
if [ $((bytes + files)) -ge $((64 * 1048576)) ]; then echo "the bundle and the checkout must stay under 64 MiB together" >&2; exit 1; fi
