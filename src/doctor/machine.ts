// Processor, kernel, memory and disk, as far as plans and the interpreter depend on them. In: a probe. Out: findings.
import * as os from 'node:os'
import { showBytes } from '../../staging/core/bytes'
import { kibLine } from '../machine/memory'
import { processorNamed } from '../machine/processor'
import { type Finding, missing, note, ok } from './finding'
import type { Probe } from './probe'

const VECTOR_FLAGS = ['avx2', 'avx512f', 'avx512_bf16', 'amx_bf16', 'asimd', 'sve'] as const

const processor = (probe: Probe): Finding => {
  const info = probe.read('/proc/cpuinfo') ?? ''
  const flags = new Set(/^(?:flags|Features)\s*:\s*(.+)$/m.exec(info)?.[1]?.split(' ') ?? [])
  const vectors = VECTOR_FLAGS.filter((flag) => flags.has(flag)).join(' ')
  return ok('machine', 'processor', `${processorNamed(info)}, ${probe.cores} cores${vectors ? `, ${vectors}` : ''}`)
}

const system = (probe: Probe): Finding => {
  const name = /^PRETTY_NAME="?([^"\n]+)"?$/m.exec(probe.read('/etc/os-release') ?? '')?.[1] ?? os.platform()
  return ok('machine', 'system', `${name}, kernel ${(probe.read('/proc/sys/kernel/osrelease') ?? os.release()).trim()}`)
}

/** The needs of precision bf16 on the cpu device. */
const bf16 = (probe: Probe): Finding => {
  const has = /^flags\s*:.*\bavx512_bf16\b/m.test(probe.read('/proc/cpuinfo') ?? '')
  return note(
    'machine',
    'bf16',
    has
      ? 'supported: --precision bf16 halves activation memory'
      : 'the processor lacks avx512_bf16: --precision bf16 does not run on cpu',
  )
}

const node = (probe: Probe): Finding =>
  Number.parseInt(probe.nodeVersion, 10) >= 20
    ? ok('machine', 'node', probe.nodeVersion)
    : missing('machine', 'node', `${probe.nodeVersion} is too old`, 'install Node 20 or newer')

export const machineFindings = (probe: Probe): Finding[] => [processor(probe), bf16(probe), system(probe), node(probe)]

// ---------------------------------------------------------------- memory

/** A plan's mappings: about one for each run of pages that moves. Long plans of large networks pass the default. */
const SMALL_MAP_COUNT = 65_530

const mapCount = (probe: Probe): Finding => {
  const count = Number(probe.read('/proc/sys/vm/max_map_count') ?? 0)
  const value = `vm.max_map_count ${count}`
  return count > SMALL_MAP_COUNT
    ? ok('memory', 'mappings', value)
    : note(
        'memory',
        'mappings',
        `${value}: enough for most plans`,
        'if a plan reports that it needs more: sysctl -w vm.max_map_count=1048576',
      )
}

const hugePages = (probe: Probe): Finding => {
  const chosen = /\[(\w+)\]/.exec(probe.read('/sys/kernel/mm/transparent_hugepage/shmem_enabled') ?? '')?.[1]
  if (chosen && chosen !== 'never' && chosen !== 'deny') return ok('memory', 'huge pages', `shared memory: ${chosen}`)
  return note(
    'memory',
    'huge pages',
    `shared memory: ${chosen ?? 'not supported'}`,
    'for faster memory access with 2 MiB pages: echo advise > /sys/kernel/mm/transparent_hugepage/shmem_enabled (as root)',
  )
}

export const memoryFindings = (probe: Probe, availableBytes: number): Finding[] => {
  const total = kibLine(probe.read('/proc/meminfo'), 'MemTotal') ?? 0
  return [ok('memory', 'memory', `${showBytes(total)}, ${showBytes(availableBytes)} free`), mapCount(probe), hugePages(probe)]
}

// ---------------------------------------------------------------- disk

const spill = (probe: Probe, folder: string): Finding => {
  const free = probe.freeDiskBytes(folder)
  const direct = probe.directIo(folder)
  const value = `${free === undefined ? 'unknown' : showBytes(free)} free in ${folder}, direct I/O: ${direct ? 'yes' : 'no'}`
  return direct
    ? ok('disk', 'spill folder', value)
    : note('disk', 'spill folder', value, 'for --spill, use a folder on a disk (not tmpfs)')
}

const uring = (probe: Probe): Finding => {
  const setting = probe.read('/proc/sys/kernel/io_uring_disabled')?.trim()
  const words = setting === '0' ? 'allowed' : setting === undefined ? 'not in this kernel' : 'switched off'
  return note('disk', 'io_uring', `${words}; not needed: threads read and write the spill file`)
}

export const diskFindings = (probe: Probe): Finding[] => [spill(probe, probe.folder), uring(probe)]
