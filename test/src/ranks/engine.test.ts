// Which processes belong together, as mpirun, srun and the command line have it.
import * as E from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { errorText } from '../../../src/errors/errors'
import { engineFor, startedBy } from '../../../src/ranks/engine'

const OPEN_MPI = {
  OMPI_COMM_WORLD_SIZE: '4',
  OMPI_COMM_WORLD_RANK: '2',
  OMPI_COMM_WORLD_LOCAL_SIZE: '2',
  OMPI_COMM_WORLD_LOCAL_RANK: '1',
}
const MPICH = { PMI_SIZE: '3', PMI_RANK: '0' }
const SLURM = { SLURM_STEP_NUM_TASKS: '8', SLURM_PROCID: '7', SLURM_TASKS_PER_NODE: '4(x2)' }

test('each starter gives the count of ranks, the rank and the count on this machine', () => {
  assert.equal(startedBy(OPEN_MPI), { rank: 2, ranks: 4, here: 2, at: 1, by: 'mpirun' })
  assert.equal(startedBy(MPICH), { rank: 0, ranks: 3, here: 1, at: 0, by: 'mpirun' })
  assert.equal(startedBy(SLURM), { rank: 7, ranks: 8, here: 4, at: 3, by: 'srun' })
  assert.is(startedBy({ SLURM_PROCID: '0', OMPI_COMM_WORLD_SIZE: 'x', OMPI_COMM_WORLD_RANK: '' }), undefined)
})

test('one process is alone, whoever started it', () => {
  for (const env of [{}, { ...OPEN_MPI, OMPI_COMM_WORLD_SIZE: '1' }]) assert.equal(engineFor({}, env), E.right(undefined))
  assert.equal(engineFor({ engine: 'mpi' }, { ...MPICH, PMI_SIZE: '1' }), E.right(undefined))
  assert.equal(engineFor({ engine: 'threads', ranks: 1 }, {}), E.right(undefined))
})

test('MPI is detected; threads need an option', () => {
  assert.equal(engineFor({}, OPEN_MPI), E.right({ kind: 'mpi', rank: 2, ranks: 4, here: 2, at: 1, by: 'mpirun' }))
  assert.equal(engineFor({ engine: 'threads', ranks: 2 }, {}), E.right({ kind: 'threads', ranks: 2 }))
})

test('options that contradict the starter are refused, with the legal ones', () => {
  const refused = (asked: Parameters<typeof engineFor>[0], env: Parameters<typeof engineFor>[1], words: RegExp): void => {
    const e = engineFor(asked, env)
    assert.ok(E.isLeft(e))
    assert.match(errorText(e.left), words)
  }
  refused({ engine: 'mpi' }, {}, /needs processes started by MPI: mpirun -n 4/)
  refused({ engine: 'threads' }, {}, /--ranks 2/)
  refused({ ranks: 2 }, {}, /--ranks needs --engine threads/)
  refused({ ranks: 2 }, OPEN_MPI, /--ranks needs --engine threads/)
  refused({ engine: 'threads', ranks: 2 }, SLURM, /srun started 8/)
})

test.run()
