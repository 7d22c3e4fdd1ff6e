// The parts for several processes: an MPI, which starts them, and its compiler, which builds the engine on first use. All of it is optional: one
// process needs none, and threads are always there. In: a probe. Out: a finding, with the way to a missing part.
import { GETTING_MPI } from '../ranks/mpi'
import { type Finding, ok, optional } from './finding'
import { onPath, type Probe, wordsOf } from './probe'

export const ranksFindings = (probe: Probe): Finding[] => {
  const mpirun = onPath(probe, 'mpirun')
  const compiler = onPath(probe, probe.env['SPILLWAY_MPICXX'] || 'mpicxx')
  if (!mpirun || !compiler)
    return [
      optional('ranks', 'MPI', `no ${[mpirun ? [] : ['mpirun'], compiler ? [] : ['mpicxx']].flat().join(', no ')}`, GETTING_MPI),
    ]
  const [first = ''] = wordsOf(probe.run(mpirun, ['--version'])).split('\n')
  const version = /\(Open MPI\) [\d.]+/.exec(first)?.[0].replace(/[()]/g, '') ?? first.trim()
  return [ok('ranks', 'MPI', `${version || 'unknown version'} (${mpirun})`)]
}
