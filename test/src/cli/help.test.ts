// The help of the commands: each flag has a group, each group has flags, and the examples use commands and flags that exist.
import { Command } from 'commander'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { type CommandName, COMMANDS } from '../../../src/cli/commands'
import { declare } from '../../../src/cli/flags'
import { EXAMPLES, GROUPS } from '../../../src/cli/help'

const names = Object.keys(COMMANDS) as readonly CommandName[]
const commands = new Map(names.map((name) => [name, declare(new Command(name), name, () => Promise.resolve())] as const))
const flagsOf = (name: CommandName): readonly string[] => commands.get(name)!.options.map((o) => o.long ?? '')

test('each flag has a group, and each name in a group is a flag', () => {
  const used = new Set(names.flatMap(flagsOf))
  const grouped = Object.values(GROUPS).flat()
  assert.equal(
    [...used].filter((flag) => flag !== '--json' && !grouped.includes(flag)),
    [],
  )
  assert.equal(
    grouped.filter((flag) => !used.has(flag)),
    [],
  )
  assert.is(new Set(grouped).size, grouped.length)
})

test('examples use commands and flags that exist', () => {
  for (const line of Object.values(EXAMPLES).flat()) {
    const [program, name, ...rest] = line.split(' ')
    assert.is(program, 'spillway')
    const known = flagsOf(name as CommandName)
    for (const word of rest) if (word.startsWith('--')) assert.ok(known.includes(word), line)
  }
})

test('the help names defaults and no undefined values', () => {
  for (const [name, c] of commands) assert.not.match(c.helpInformation(), /undefined/, name)
})

test.run()
