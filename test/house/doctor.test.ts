// The doctor describes machines that the test makes up, and this one.
import { left, right } from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { doctor, reportText } from '../../src/doctor/doctor'
import type { Finding } from '../../src/doctor/finding'
import { type Probe, thisMachine } from '../../src/doctor/probe'

const GiB = 1024 ** 3

/** A machine on which every command and file is there and in order, without a GPU. */
const healthy: Probe = {
  read: (file) => {
    if (file === '/proc/sys/vm/max_map_count') return '1048576\n'
    if (file.includes('shmem_enabled')) return 'always within_size [advise] never deny force\n'
    if (file === '/proc/meminfo') return `MemTotal:       ${16 * 1024 * 1024} kB\n`
    if (file.endsWith('dnnl_version.h'))
      return '#define DNNL_VERSION_MAJOR 2\n#define DNNL_VERSION_MINOR 6\n#define DNNL_VERSION_PATCH 3\n'
    return undefined
  },
  list: () => [],
  exists: (file) => !file.endsWith('nvcc'),
  addon: () => '/cache/Release/spillway.node',
  prebuilt: () => undefined,
  run: (command) => {
    if (command === process.execPath)
      return right(JSON.stringify({ devices: ['cpu'], cores: 4, threads: 3, build: 'c0ffee', oneDnn: '2.6.3' }))
    if (command.includes('ldconfig')) return right('\tlibdnnl.so.2 (libc6,x86-64) => /lib/libdnnl.so.2\n')
    return command.includes('nvidia') || command.includes('nvcc') ? left('there is none') : right('version 1.2\n')
  },
  env: { PATH: '/usr/bin' },
  cores: 4,
  nodeVersion: '20.1.0',
  folder: '/data',
  freeDiskBytes: () => 100 * GiB,
  directIo: () => true,
}

const finding = (probe: Probe, name: string): Finding => {
  const found = doctor(probe, 8 * GiB).findings.find((f) => f.name === name)
  if (!found) throw new Error(`no finding '${name}'`)
  return found
}

test('a healthy machine is ready, without a GPU', () => {
  const report = doctor(healthy, 8 * GiB)
  assert.ok(report.ready, reportText(report))
  assert.is(report.availableBytes, 8 * GiB)
  assert.is(finding(healthy, 'oneDNN').value, '2.6.3 (/lib/libdnnl.so.2)')
  assert.is(finding(healthy, 'driver').state, 'optional')
  assert.match(reportText(report), 'Ready to train on the cpu device.')
})

test('the processor is named, by numbers where it has no name', () => {
  const named = (cpuinfo: string): string =>
    finding({ ...healthy, read: (file) => (file === '/proc/cpuinfo' ? cpuinfo : healthy.read(file)) }, 'processor').value
  assert.is(named('model name\t: A Processor\nflags\t\t: sse avx2 avx512f\n'), 'A Processor, 4 cores, avx2 avx512f')
  const arm64 = 'processor\t: 0\nFeatures\t: fp asimd sve\nCPU implementer\t: 0x41\nCPU part\t: 0xd0c\n'
  assert.is(named(arm64), 'arm64 processor 0xd0c of maker 0x41, 4 cores, asimd sve')
  assert.is(named(''), 'unknown processor, 4 cores')
})

test('without oneDNN and addon, doctor reports not ready and the packages to install', () => {
  const bare: Probe = {
    ...healthy,
    read: () => undefined,
    run: () => left('there is none'),
    exists: () => false,
    addon: () => undefined,
  }
  const report = doctor(bare, GiB)
  assert.not(report.ready)
  assert.is(
    finding(bare, 'oneDNN').fix,
    'apt-get update && apt-get install -y --no-install-recommends libdnnl-dev ocl-icd-opencl-dev',
  )
  assert.is(finding(bare, 'compiler').fix, 'apt-get update && apt-get install -y --no-install-recommends g++')
  assert.match(reportText(report), /Not ready: compiler, cmake, make, oneDNN, addon missing/)
})

test('an outdated oneDNN is reported beside a built addon', () => {
  const old: Probe = { ...healthy, read: (file) => healthy.read(file)?.replace('MINOR 6', 'MINOR 2') }
  assert.equal(
    [finding(old, 'oneDNN').state, finding(old, 'oneDNN').value],
    ['optional', '2.2.3 is too old; 2.6 or newer is needed'],
  )
})

test('packages have the names of this system; a derived system has those of its origin', () => {
  const fixOn = (osRelease: string): string | undefined =>
    finding(
      {
        ...healthy,
        read: (file) => (file === '/etc/os-release' ? osRelease : undefined),
        run: () => left(''),
        exists: () => false,
      },
      'oneDNN',
    ).fix
  const debian = 'apt-get update && apt-get install -y --no-install-recommends libdnnl-dev ocl-icd-opencl-dev'
  assert.is(fixOn('ID=ubuntu\nID_LIKE=debian\n'), debian)
  assert.is(fixOn('ID=linuxmint\nID_LIKE="ubuntu debian"\n'), debian)
  assert.is(fixOn('NAME="Fedora Linux"\nID=fedora\n'), 'dnf install -y onednn-devel "pkgconfig(OpenCL)" opencl-headers')
  assert.is(fixOn('ID="rocky"\nID_LIKE="rhel centos fedora"\n'), 'dnf install -y onednn-devel "pkgconfig(OpenCL)" opencl-headers')
  assert.is(fixOn('ID=arch\n'), 'pacman -S --needed --noconfirm onednn ocl-icd opencl-headers')
})

test('an addon that does not load is reported with the reason', () => {
  const broken: Probe = {
    ...healthy,
    run: (c, a) => (c === process.execPath ? left('Error: libdnnl.so.2: cannot open shared object file') : healthy.run(c, a)),
  }
  assert.not(doctor(broken, GiB).ready)
  assert.match(finding(broken, 'addon').value, 'libdnnl.so.2: cannot open')
})

test('the addon and its measurements are reported with the build', () => {
  assert.match(finding(healthy, 'addon').value, /oneDNN 2\.6\.3, spillway .*, build c0ffee$/)
  assert.match(finding(healthy, 'profile').value, /3 threads, .*, build c0ffee: nothing measured yet$/)
})

test('once the addon loads, the build tools are optional', () => {
  const built: Probe = { ...healthy, exists: (file) => file.endsWith('.node') }
  assert.is(finding(built, 'cmake').state, 'optional')
  assert.ok(doctor(built, GiB).ready)
})

test('a platform package is reported as used, ignored with the reason, or missing', () => {
  const having = (state: 'fits' | 'other' | 'missing', words: string): Finding =>
    finding({ ...healthy, prebuilt: () => ({ state, name: '@spillway/linux-x64', words }) }, 'prebuilt')
  assert.equal([having('fits', 'a 1, v3').state, having('fits', 'a 1, v3').value], ['ok', 'a 1, v3'])
  const other = having('other', 'a 1 was built from other native sources than spillway 2')
  assert.is(other.state, 'note')
  assert.is(
    other.value,
    'a 1 was built from other native sources than spillway 2: ignored; the addon is compiled on this machine instead',
  )
  assert.is(having('missing', 'a is not installed').value, 'a is not installed; the addon is compiled on this machine instead')
  assert.not(doctor(healthy, GiB).findings.some((f) => f.name === 'prebuilt'))
})

test('an old Node is named', () => {
  assert.is(finding({ ...healthy, nodeVersion: '18.19.0' }, 'node').state, 'missing')
})

test('a GPU is described', () => {
  const gpu: Probe = {
    ...healthy,
    run: (c, a) => (c === 'nvidia-smi' ? right('NVIDIA X, 81559, 580.1, 5, 16\n') : healthy.run(c, a)),
  }
  assert.is(finding(gpu, 'GPU 0').value, 'NVIDIA X, 81559 MiB, driver 580.1, PCIe 5 x16')
})

test('the generation of a GPU is named, and one that is too old, or a driver, is refused', () => {
  const having = (line: string): Probe => ({
    ...healthy,
    run: (c, a) => (c === 'nvidia-smi' ? right(`${line}\n`) : healthy.run(c, a)),
  })
  const ada = having('NVIDIA X, 24564, 580.1, 4, 16, 8.9')
  assert.is(finding(ada, 'GPU 0').value, 'NVIDIA X (Ada, sm_89), 24564 MiB, driver 580.1, PCIe 4 x16')
  assert.is(finding(ada, 'driver').value, '580.1')
  const pascal = having('NVIDIA Y, 11264, 570.9, 3, 16, 6.1')
  assert.is(finding(pascal, 'GPU 0').state, 'optional')
  assert.match(finding(pascal, 'GPU 0').value, 'NVIDIA Y (Pascal, sm_61) is too old: Turing (sm_75) or newer is needed')
  assert.is(finding(pascal, 'driver').value, 'the driver 570.9 is too old: CUDA 13 needs 580 or newer')
})

test('libraries that are found but not searched yet are cured by the one command', () => {
  const nvidia = '/v/lib/python3.12/site-packages/nvidia'
  const folders: Readonly<Record<string, readonly string[]>> = {
    '/v/lib': ['python3.12'],
    [nvidia]: ['cudnn', 'cu13'],
    [`${nvidia}/cudnn/lib`]: ['libcudnn.so.9'],
    [`${nvidia}/cu13/lib`]: ['libcublasLt.so.13'],
  }
  const venv: Probe = { ...healthy, env: { ...healthy.env, VIRTUAL_ENV: '/v' }, list: (folder) => folders[folder] ?? [] }
  assert.is(finding(venv, 'cuDNN').state, 'optional')
  assert.match(finding(venv, 'cuDNN').value, 'libcudnn.so.9 is in the Python environment /v, which is not searched yet')
  assert.is(finding(venv, 'cuBLAS').fix, 'npx spillway setup cuda')
  assert.is(finding(healthy, 'cuDNN').value, 'libcudnn.so.9 is not found')
})

const withPlugin: Probe = { ...healthy, exists: (file) => file.endsWith('spillway_cuda.so') || healthy.exists(file) }

test('without its plugin the cuda device names the one command', () => {
  const none: Probe = { ...healthy, exists: (file) => !file.endsWith('.so') && healthy.exists(file) }
  assert.match(finding(none, 'device').value, 'the plugin spillway_cuda.so is missing')
  assert.is(finding(none, 'device').fix, 'npx spillway setup cuda')
})

test('a plugin that cannot be used is reported with the reason', () => {
  const broken: Probe = {
    ...withPlugin,
    run: (c, a) => (c === process.execPath ? left('Error: this machine has no NVIDIA GPU') : healthy.run(c, a)),
  }
  assert.match(finding(broken, 'device').value, 'cannot be used: Error: this machine has no NVIDIA GPU')
  assert.is(finding(broken, 'device').state, 'optional')
})

test('a usable GPU is reported with memory, libraries and link', () => {
  const facts = {
    device: 'NVIDIA X, sm_90',
    driver: 'CUDA 13.0',
    libraries: 'cuDNN 91500',
    totalBytes: 140 * GiB,
    freeBytes: 139 * GiB,
    link: { outBytesPerSecond: 5e10, inBytesPerSecond: 4.5e10, fullDuplex: true },
    engines: { asked: 9, own: [] as string[] },
  }
  const gpu: Probe = { ...withPlugin, run: (c, a) => (c === process.execPath ? right(JSON.stringify(facts)) : healthy.run(c, a)) }
  assert.is(
    finding(gpu, 'device').value,
    'NVIDIA X, sm_90; driver for CUDA 13.0; cuDNN 91500; 139.0 GiB of 140.0 GiB free; link out 50.0 GB/s, in 45.0 GB/s, both ways at once',
  )
  assert.is(finding(gpu, 'engines').value, 'cuDNN has one for each of 9 plain convolutions')
  facts.engines.own.push('conv2d in tf32')
  assert.is(finding(gpu, 'engines').state, 'note')
  assert.match(finding(gpu, 'engines').value, 'none for 1 of 9 plain convolutions (conv2d in tf32): own kernels run them')
})

test('a process with an unexpected answer is reported', () => {
  const odd: Probe = { ...withPlugin, run: (c, a) => (c === process.execPath ? right('{"device":1}') : healthy.run(c, a)) }
  assert.match(finding(odd, 'addon').value, 'does not load: unexpected output')
  assert.match(finding(odd, 'device').value, 'cannot be used: unexpected output')
})

test('libraries inside a wheel are found by their folder', () => {
  const wheel: Probe = {
    ...healthy,
    env: { ...healthy.env, SPILLWAY_CUDA_LIBRARIES: '/w/cudnn/lib' },
    list: (f) => (f === '/w/cudnn/lib' ? ['libcudnn.so.9'] : healthy.list(f)),
  }
  assert.is(finding(wheel, 'cuDNN').value, '/w/cudnn/lib/libcudnn.so.9')
})

test('NCCL is reported with its version, if it can be queried', () => {
  const there = (plugin: boolean): Probe => ({
    ...(plugin ? withPlugin : { ...healthy, exists: (file) => !file.endsWith('spillway_cuda.so') && healthy.exists(file) }),
    env: { ...healthy.env, SPILLWAY_CUDA_LIBRARIES: '/w/nccl/lib' },
    list: (f) => (f === '/w/nccl/lib' ? ['libnccl.so.2'] : healthy.list(f)),
    run: (c, a) => (c === process.execPath ? right('{"carrier":"NCCL 2.27.3"}') : healthy.run(c, a)),
  })
  assert.is(finding(there(true), 'NCCL').value, '2.27.3 (/w/nccl/lib/libnccl.so.2)')
  assert.is(finding(there(false), 'NCCL').value, '/w/nccl/lib/libnccl.so.2')
})

test('small limits are notes with a way out', () => {
  const small: Probe = { ...healthy, read: (f) => (f.endsWith('max_map_count') ? '65530\n' : undefined), directIo: () => false }
  for (const name of ['mappings', 'huge pages', 'spill folder']) {
    assert.is(finding(small, name).state, 'note', name)
    assert.ok(finding(small, name).fix, name)
  }
})

test('this machine: every area is there and the report survives JSON', () => {
  const report = doctor(thisMachine())
  const addon = report.findings.find((f) => f.name === 'addon')
  assert.is(addon?.state, 'ok', addon?.value)
  assert.equal([...new Set(report.findings.map((f) => f.area))], ['machine', 'memory', 'disk', 'native', 'cuda', 'ranks'])
  assert.equal(JSON.parse(JSON.stringify(report)), report)
  assert.ok(report.cores >= 1 && report.availableBytes > 0)
})

test.run()
