// `npm run bench -- learning --suite anysize`: a U-Net is trained on photos of 40 sizes, and predicts them at their own sizes. In: a Python with
// PyTorch, NumPy and Pillow. Out: the largest difference from PyTorch on the padded photo, and the masks that equal its masks. Invariant: it ends
// with code 1 if a difference exceeds 1e-5, or a mask has another size or class than PyTorch's.
import { execFileSync } from 'node:child_process'
import { join } from 'node:path'
import { begin, inFolder, ROOT } from './sides'
import { argumentsOf, BENCHES } from './table'

const MOST = 1e-5
const net = join(__dirname, 'anysize', 'net.ts')

const main = (folder: string): void => {
  const { python } = argumentsOf(BENCHES.learning.anysize).given
  const at = (name: string): string => join(folder, name)
  const spillway = (...args: readonly string[]): string =>
    execFileSync(process.execPath, [join(ROOT, 'scripts/spillway.js'), ...args], { encoding: 'utf8', cwd: folder })
  const script = (name: string): string => execFileSync(python, [join(__dirname, 'anysize', name), folder], { encoding: 'utf8' })
  const weights = at('weights.safetensors')
  script('photos.py')
  const training = ['--data', at('data'), '--image', '64', '--fit', 'cover', '--epochs', '4', '--lr', '0.05', '--save', weights]
  spillway('train', net, '--loss', 'cross-entropy', ...training)
  const predicting = ['predict', net, '--weights', weights, '--data', at('data/images')]
  spillway(...predicting, '--out', at('values'))
  spillway(...predicting, '--out', at('predicted'), '--as', 'classes', '--format', 'png')
  const found = JSON.parse(script('compare.py')) as { photos: number; largest: number; equalMasks: number; meanIou: number }
  console.log(found)
  if (!(found.largest <= MOST) || found.equalMasks < found.photos) process.exitCode = 1
}

void begin(() => inFolder('anysize', main))
