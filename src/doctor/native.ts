// The needs of the native side: compiler, CMake, make, oneDNN, and the addon itself; this machine's measurements. In: a probe. Out: findings; those
// that are missing name the package as this system calls it.
import * as path from 'node:path'
import * as E from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import * as t from 'io-ts'
import { packageFolder } from '../files/version'
import { cpuBuild, profileWords } from '../machine/profile'
import { type Finding, missing, note, ok } from './finding'
import { answerOf, onPath, type Probe, sharedLibrary, wordsOf } from './probe'

interface Distribution {
  readonly names: Readonly<Record<string, readonly string[]>>
  readonly line: (names: readonly string[]) => string
}
/** Set-up runs before there are types: the names of packages, by the text of /etc/os-release. */
const { distributionOf } = require(path.join(packageFolder(), 'scripts', 'setup', 'distributions.js')) as {
  readonly distributionOf: (osRelease: string) => Distribution
}

const install = (probe: Probe, ...parts: readonly string[]): string => {
  const { names, line } = distributionOf(probe.read('/etc/os-release') ?? '')
  return line(parts.flatMap((part) => names[part] ?? []))
}

const firstLine = (text: string): string => text.split('\n')[0]!.trim()

const tool = (probe: Probe, name: string, commands: readonly string[]): Finding => {
  const found = commands.map((command) => onPath(probe, command)).find((file) => file !== undefined)
  if (found === undefined) return missing('native', name, 'not found', install(probe, name))
  return ok('native', name, `${firstLine(wordsOf(probe.run(found, ['--version']))) || 'unknown version'} (${found})`)
}

const HEADERS = [
  '/usr/include/oneapi/dnnl/dnnl_version.h',
  '/usr/include/x86_64-linux-gnu/oneapi/dnnl/dnnl_version.h',
  '/usr/include/aarch64-linux-gnu/oneapi/dnnl/dnnl_version.h',
  '/usr/local/include/oneapi/dnnl/dnnl_version.h',
]

const oneDnn = (probe: Probe): Finding => {
  const library = sharedLibrary(probe, 'libdnnl.so')
  const header = HEADERS.map(probe.read).find((text) => text?.includes('DNNL_VERSION_MAJOR'))
  const part = (name: string): string => new RegExp(`#define\\s+DNNL_VERSION_${name}\\s+(\\d+)`).exec(header ?? '')?.[1] ?? '?'
  if (!library && !header) return missing('native', 'oneDNN', 'not found', install(probe, 'oneDNN', 'openCl'))
  if (!header) return missing('native', 'oneDNN', `${library}, without its headers`, install(probe, 'oneDNN', 'openCl'))
  const version = `${part('MAJOR')}.${part('MINOR')}.${part('PATCH')}`
  const [major, minor] = [Number(part('MAJOR')), Number(part('MINOR'))]
  if (major < 2 || (major === 2 && minor < 6))
    return missing('native', 'oneDNN', `${version} is too old; 2.6 or newer is needed`, 'the platform package includes oneDNN')
  return ok('native', 'oneDNN', `${version}${library ? ` (${library})` : ''}`)
}

/** The reported part of its answer. */
const infoCodec = t.intersection([t.type({ build: t.string, threads: t.number }), t.partial({ oneDnn: t.string })])

const addon = (probe: Probe, question: readonly string[]): readonly Finding[] => {
  const file = probe.addon()
  if (file === undefined)
    return [missing('native', 'addon', 'not built', 'the first command that needs it builds it (about 3 minutes)')]
  return pipe(
    answerOf(probe, infoCodec, question),
    E.match(
      (reason) => [
        missing(
          'native',
          'addon',
          `${file} does not load: ${reason}`,
          `rm -r ${path.dirname(path.dirname(file))}; the next command that needs it builds it`,
        ),
      ],
      (info) => {
        const build = cpuBuild(info)
        return [ok('native', 'addon', `${file} loads: ${build}`), note('native', 'profile', profileWords(build, info.threads))]
      },
    ),
  )
}

/** The platform package of an installed package, in place of a build; one that does not fit is reported, because it looks like a usable one. */
const platformAddon = (probe: Probe): readonly Finding[] => {
  const found = probe.prebuilt()
  if (found === undefined) return []
  if (found.state === 'fits') return [ok('native', 'prebuilt', found.words)]
  const ignored = found.state === 'missing' || found.state === 'off' ? found.words : `${found.words}: ignored`
  return [note('native', 'prebuilt', `${ignored}; the addon is compiled on this machine instead`)]
}

/** The tools are needed to build the addon, not to use it. */
const onceBuilt = (finding: Finding): Finding => (finding.state === 'missing' ? { ...finding, state: 'optional' } : finding)

export const nativeFindings = (probe: Probe, question: readonly string[]): Finding[] => {
  const loaded = addon(probe, question)
  const tools = [
    tool(probe, 'compiler', [probe.env.CXX ?? 'c++', 'g++']),
    tool(probe, 'cmake', ['cmake']),
    tool(probe, 'make', ['make', 'ninja']),
    oneDnn(probe),
  ]
  return [...(loaded[0]?.state === 'ok' ? tools.map(onceBuilt) : tools), ...platformAddon(probe), ...loaded]
}
