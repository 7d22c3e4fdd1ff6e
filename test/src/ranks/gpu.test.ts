// Which GPU is a rank's.
import * as E from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { errorText } from '../../../src/errors/errors'
import { gpuOf, takeOwnGpu } from '../../../src/ranks/gpu'

const THIRD = { at: 2, here: 4 }

test('the one of its place on its machine, of those that it may see', () => {
  assert.equal(gpuOf(THIRD, {}), E.right('2'))
  assert.equal(gpuOf(THIRD, { CUDA_VISIBLE_DEVICES: '4, 5,6,7' }), E.right('6'))
  assert.equal(gpuOf(THIRD, { CUDA_VISIBLE_DEVICES: 'GPU-8932f937' }), E.right('GPU-8932f937'))
})

test('fewer GPUs than ranks are refused', () => {
  const e = gpuOf({ at: 0, here: 4 }, { CUDA_VISIBLE_DEVICES: '0,1' })
  assert.ok(E.isLeft(e))
  assert.match(errorText(e.left), /CUDA_VISIBLE_DEVICES=0,1 lists 2 GPUs for 4 ranks on this machine; each rank needs its own/)
})

test('the note about GPUs appears once, only with several processes', () => {
  const started = { OMPI_COMM_WORLD_SIZE: '2', OMPI_COMM_WORLD_RANK: '1', OMPI_COMM_WORLD_LOCAL_SIZE: '2' }
  const seen = (env: NodeJS.ProcessEnv): string | undefined => {
    const own = { ...env }
    takeOwnGpu(own)
    takeOwnGpu(own)
    return own['CUDA_VISIBLE_DEVICES']
  }
  assert.is(seen({}), undefined)
  assert.is(seen({ CUDA_VISIBLE_DEVICES: '3,4' }), '3,4')
  assert.is(seen(started), '1')
  assert.is(seen({ ...started, CUDA_VISIBLE_DEVICES: '3,4' }), '4')
  assert.is(seen({ ...started, OMPI_COMM_WORLD_SIZE: '1' }), undefined)
})

test.run()
