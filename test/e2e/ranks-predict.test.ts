// own process
// timeout 600
// Predictions that several processes share: the files of one process, byte for byte, of arrays and of pictures of several sizes; the refusals; and an
// end that reaches all. Without MPI the output says so.
import { spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { gateTest } from '../full'
import { npyHead } from '../../src/files/npy'
import { type End, ended, spillway } from './processes'
import { DEVICE } from './runs'

const has = (program: string, ...args: readonly string[]): boolean => spawnSync(program, args).status === 0
const MPIS = ['openmpi', 'mpich']
  .map((name) => ({ run: `mpirun.${name}`, cxx: `mpicxx.${name}` }))
  .filter(({ run, cxx }) => has(run, '--version') && has(cxx, '-show'))

const root = mkdtempSync(join(tmpdir(), 'spillway-predicted-'))
test.after(() => rmSync(root, { recursive: true }))
const ENV = {
  OMPI_ALLOW_RUN_AS_ROOT: '1',
  OMPI_ALLOW_RUN_AS_ROOT_CONFIRM: '1',
  OMPI_MCA_rmaps_base_oversubscribe: '1',
  OMPI_MCA_btl_base_warn_component_unused: '0',
}
const WEIGHTS = join(root, 'weights.safetensors')
const GIVEN = ['resnet20-cifar', '--batch=2', '--threads=1', '--algorithms=fixed', '--json', `--device=${DEVICE}`]
const PREDICT = ['predict', ...GIVEN, `--weights=${WEIGHTS}`]
const at = (...names: readonly string[]): string => join(root, ...names)

interface Told {
  readonly images: number
  readonly shape: readonly number[]
  readonly files: readonly string[]
}
const told = ({ code, out, err }: End): Told => {
  assert.is(code, 0, err)
  return JSON.parse(out.slice(out.indexOf('{'), out.lastIndexOf('}') + 1)) as Told
}
const alone = (...more: readonly string[]): Promise<End> => ended(spillway([...PREDICT, ...more]))
const among = (
  { run, cxx }: (typeof MPIS)[number],
  ranks: number,
  more: readonly string[],
  o: { readonly under?: readonly string[]; readonly act?: (err: string) => void } = {},
): Promise<End> =>
  ended(
    spillway([...PREDICT, ...more], {
      under: [run, '-n', `${ranks}`, ...(o.under ?? [])],
      env: { ...ENV, SPILLWAY_MPICXX: cxx },
    }),
    o.act,
  )

/** A number of images, each of its own numbers. */
const arrays = (name: string, images: number, size = 16): string => {
  mkdirSync(at(name))
  for (let i = 0; i < images; i++) {
    const numbers = Float32Array.from({ length: 3 * size * size }, (_, k) => Math.sin(k * (i + 1)))
    writeFileSync(at(name, `image-${i}.npy`), Buffer.concat([npyHead('f4', [3, size, size]), new Uint8Array(numbers.buffer)]))
  }
  return at(name)
}
const sameFiles = (one: string, other: string): void => {
  assert.equal(readdirSync(other), readdirSync(one))
  for (const file of readdirSync(one)) assert.equal(readFileSync(join(other, file)), readFileSync(join(one, file)), file)
}

if (MPIS.length > 0) {
  const [mpi] = MPIS as [(typeof MPIS)[number]]

  test('weights', async () => {
    const args = ['train', ...GIVEN, '--image=16', '--steps=1', '--strategy=in-core', `--save=${WEIGHTS}`]
    told(await ended(spillway(args)))
  })

  for (const one of MPIS)
    gateTest(`${one.run}: three processes write the files of one`, async () => {
      const data = arrays(`arrays-${one.run}`, 7)
      const [first, second] = [at(`one-${one.run}`), at(`three-${one.run}`)]
      const whole = told(await alone(`--data=${data}`, `--out=${first}`))
      const shared = told(await among(one, 3, [`--data=${data}`, `--out=${second}`]))
      sameFiles(first, second)
      assert.equal([shared.images, shared.shape], [7, whole.shape])
      assert.equal(
        shared.files.map((f) => f.replace(second, first)),
        whole.files,
      )
    })

  test('pictures of several sizes, fewer batches than processes of some', async () => {
    const sharp = require('sharp') as typeof import('sharp')
    mkdirSync(at('pictures'))
    for (const [i, side] of [16, 24, 16, 16, 24, 32].entries())
      await sharp(
        Uint8Array.from({ length: 3 * side * side }, (_, k) => (k * (i + 3)) % 251),
        { raw: { width: side, height: side, channels: 3 } },
      )
        .png()
        .toFile(at('pictures', `p${i}.png`))
    const how = [`--data=${at('pictures')}`, '--as=classes']
    told(await alone(...how, `--out=${at('classes')}`))
    assert.is(told(await among(mpi, 2, [...how, `--out=${at('classes-2')}`])).images, 6)
    sameFiles(at('classes'), at('classes-2'))
  })

  test('different images at one rank, and one file for all outputs, are refused', async () => {
    const [data, others] = [arrays('mine', 3), arrays('yours', 4)]
    const script = at('other.sh')
    writeFileSync(
      script,
      `[ "$OMPI_COMM_WORLD_RANK$PMI_RANK" = 1 ] || exec "$@"\nfor a; do case $a in --data=*) set -- "$@" --data=${others};; *) set -- "$@" "$a";; esac; shift; done\nexec "$@"\n`,
    )
    const end = await among(mpi, 2, [`--data=${data}`, `--out=${at('never')}`], { under: ['sh', script] })
    assert.is.not(end.code, 0)
    assert.match(end.err, /rank 1 cannot take part: its list of images is/)
    const inOne = await among(mpi, 2, [`--data=${data}`, `--out=${at('all.npy')}`])
    assert.is(inOne.code, 2)
    assert.match(inOne.err, /all\.npy is one file, but 2 processes write their own files: use a folder/)
  })

  gateTest('a signal to one rank ends all ranks with its code, and no file is half written', async () => {
    const data = arrays('many', 3000)
    let asked = 0
    const end = await among(mpi, 2, [`--data=${data}`, `--out=${at('some')}`], {
      act: (err) => {
        if (asked > 0 || !/\d+ of 3000/.test(err)) return
        const pids = spawnSync('pgrep', ['-f', `^${process.execPath} .*${data}`], { encoding: 'utf8' })
        asked = Number(pids.stdout.trim().split('\n').at(-1))
        process.kill(asked, 'SIGTERM')
      },
    })
    assert.ok(asked > 0)
    assert.is(end.code, 130, end.err)
    const written = readdirSync(at('some'))
    assert.ok(written.length > 0 && written.length < 3000)
    assert.equal(
      written.filter((f) => !f.endsWith('.npy')),
      [],
    )
  })
} else test('skipped: MPI is not installed', () => {})

test.run()
