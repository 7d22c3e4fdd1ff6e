// `defineConfig` while typing: for each command, an editor offers its flags and no other keys; programs that must compile, and programs that must not.
import { Command } from 'commander'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { type CommandName, COMMANDS } from '../../src/cli/commands'
import { declare } from '../../src/cli/flags'
import { check, type Programs } from './checker'

const importing = "import { type Config, defineConfig } from '../../src/cli/define'\n"
const names = Object.keys(COMMANDS) as readonly CommandName[]

/** The keys of a command: its flags in camelCase, and MODEL. */
const keysOf = (name: CommandName): readonly string[] => {
  const c = declare(new Command(name), name, () => Promise.resolve())
  const flags = c.options.map((o) => o.attributeName()).filter((key) => key !== 'json' && key !== 'config')
  return [...new Set([...flags, ...c.registeredArguments.map((a) => a.name()).filter((argument) => argument === 'model')])].sort()
}
const configurable = names.filter((name) => keysOf(name).length > 0)

const right: readonly string[] = [
  "defineConfig({ train: { batch: 8, budget: '4GiB', metrics: ['accuracy', 'top3'], shuffle: false }, predict: { format: 'png' } })",
  "defineConfig({ train: { model: 'my-net.ts', image: '12x8', save: false, freeze: ['a.*'], loss: 'cross-entropy+0.5*dice' } })",
  "defineConfig({ train: { loss: 'mse', schedule: 'cosine:floor=0.01', mean: [0.5, 0.4], weightsSkip: 'fc.*', timeLimit: '3h' } })",
  "defineConfig({ plan: { explain: true, mode: 'predict', as: 'classes' }, compare: { budgets: ['2GiB'] }, 'compare-runs': {} })",
  "const shared = { batch: 8, budget: '4GiB' }\nconst config: Config = { plan: shared, train: { ...shared, epochs: 3 } }\ndefineConfig(config)",
]
/** Programs with a fault, and the part of the compiler's message that names it. */
const wrong: readonly (readonly [program: string, says: string])[] = [
  ['defineConfig({ train: { bacth: 8 } })', "'bacth' does not exist in type"],
  ['defineConfig({ trian: { batch: 8 } })', "'trian' does not exist in type 'Config'"],
  ["defineConfig({ train: { format: 'png' } })", "'format' does not exist in type"],
  ['defineConfig({ train: { onNote: () => {} } })', "'onNote' does not exist in type"],
  ["defineConfig({ check: { model: 'my-net.ts' } })", "'model' does not exist in type"],
  ["defineConfig({ predict: { format: 'gif' } })", `Type '"gif"' is not assignable to type`],
  ["defineConfig({ train: { metrics: ['acuracy'] } })", `Type '"acuracy"' is not assignable to type`],
  ["defineConfig({ train: { resume: 'yes' } })", "Type 'string' is not assignable to type 'boolean | undefined'"],
  ['defineConfig({ train: { batch: [8] } })', "Type 'number[]' is not assignable to type 'string | number | undefined'"],
  ["defineConfig({ train: { loss: 'mes' } })", `Type '"mes"' is not assignable to type`],
]

const programs: Programs = Object.fromEntries([
  ...right.map((program, i) => [`right${i}`, importing + program]),
  ...wrong.map(([program], i) => [`wrong${i}`, importing + program]),
  ...configurable.map((name) => [`keys-${name}`, `${importing}const config: Config = {}\nconfig['${name}']!.`]),
  ['commands', `${importing}const config: Config = {}\nconfig.`],
])
const checked = check(programs)

for (const name of configurable)
  test(`an editor offers the flags of ${name}`, () => {
    assert.equal([...checked.completions(`keys-${name}`, `config['${name}']!.`)].sort(), keysOf(name))
  })

test('an editor offers the commands that have options', () => {
  const dashed = configurable.filter((name) => /^\w+$/.test(name))
  assert.equal([...checked.completions('commands', 'config.')].filter((name) => /^\w+$/.test(name)).sort(), [...dashed].sort())
})

for (const [i, program] of right.entries())
  test(`must compile: ${program.split('\n')[0]}`, () => assert.equal(checked.errors(`right${i}`), []))

for (const [i, [program, says]] of wrong.entries())
  test(`must not compile: ${program}`, () => {
    const errors = checked.errors(`wrong${i}`)
    assert.is(errors.length, 1)
    assert.ok(errors[0]!.includes(says), errors[0])
  })

test.run()
