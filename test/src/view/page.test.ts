// full
// own process
// The page of a viewer in a browser, from file://, in full mode. It draws slide and layers; keys and controls work. Axe finds nothing, and nothing is
// wider than the screen.
import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { isLeft } from 'fp-ts/Either'
import sharp from 'sharp'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { viewTask } from '../../../src/view/view'
import { drawnSlide, type TestSlide } from './slide'

const BROWSER = ['chromium', 'chromium-browser', 'google-chrome'].find((b) => spawnSync(b, ['--version']).status === 0)
const inBrowser = BROWSER ? test : test.skip

const root = mkdtempSync(join(tmpdir(), 'spillway-view-page-'))
test.after(() => rmSync(root, { recursive: true }))

const SCREENS = ['1280,900', '500,844']
/** Chromium's numbers of colour schemes. */
const SCHEMES = { dark: 0, light: 1 }

let files: TestSlide
test.before(async () => {
  files = await drawnSlide(join(root, 'files'))
  const done = await viewTask({ slide: files.slide, predictions: [files.mask, files.shares], out: join(root, 'viewer') })()
  if (isLeft(done)) throw new Error(JSON.stringify(done.left))
})

/** Opens the page with a script of the test, which begins when all layers are open. */
const opened = (acts: string, screen: string, scheme: number, flags: readonly string[]): string => {
  const html = readFileSync(join(root, 'viewer', 'index.html'), 'utf8')
  const script = `<script>const begin=setInterval(()=>{if(!document.body.dataset.ready)return;clearInterval(begin);${acts}},50)</script>`
  // The text of a library may hold \`$&\`, so the replacement is a function.
  writeFileSync(
    join(root, 'viewer', 'watched.html'),
    html.replace('</body>', () => `${script}</body>`),
  )
  const { stdout } = spawnSync(
    BROWSER!,
    [
      ...['--headless=new', '--no-sandbox', '--disable-gpu', '--virtual-time-budget=20000', '--hide-scrollbars'],
      ...[`--window-size=${screen}`, `--blink-settings=preferredColorScheme=${scheme}`, ...flags],
      `file://${join(root, 'viewer', 'watched.html')}`,
    ],
    { encoding: 'utf8', maxBuffer: 1 << 26, cwd: root },
  )
  return stdout
}

const answer = (acts: string, screen: string, scheme: number): unknown => {
  const end = `const end=x=>{const e=document.createElement('pre');e.id='found';e.textContent=JSON.stringify(x);document.body.append(e)};`
  const dom = opened(`${end}${acts}`, screen, scheme, ['--dump-dom'])
  return JSON.parse(
    /<pre id="found">(.*?)<\/pre>/s.exec(dom)![1]!.replaceAll('&lt;', '<').replaceAll('&gt;', '>').replaceAll('&amp;', '&'),
  )
}

const AXE = readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8').replaceAll('</script', '<\\/script')
inBrowser('axe finds nothing, and nothing is wider than the screen', () => {
  const acts = `${AXE};axe.run(document).then(({violations})=>end([...violations.map(v=>v.id+': '+v.nodes[0].html),
    ...(document.documentElement.scrollWidth>document.documentElement.clientWidth?['wider than the screen']:[]),
    ...(document.querySelector('#bad').hidden?[]:['tiles are missing'])]))`
  for (const screen of SCREENS)
    for (const [name, scheme] of Object.entries(SCHEMES)) assert.equal(answer(acts, screen, scheme), [], `${screen}, ${name}`)
})

inBrowser('keys and controls switch layers, opacity and zoom', () => {
  const acts = `
const seen=[],opacities=()=>items.map(i=>i.getOpacity()),text=()=>q('.bar span').textContent
const key=(key,code)=>viewer.canvas.dispatchEvent(new KeyboardEvent('keydown',{key,keyCode:code,bubbles:true,cancelable:true}))
seen.push(opacities(),text())
key('2',50);seen.push(opacities());key('1',49);seen.push(opacities())
key(']',221);seen.push(opacities());key('h',72);seen.push(opacities(),q('#all-hidden').hidden);key('h',72);seen.push(opacities())
opacity.value=20;opacity.oninput();seen.push(opacities(),q('#shown').value)
// Ends animations, so that the test does not depend on time.
const settled=()=>{viewer.viewport.zoomTo(viewer.viewport.getZoom(),null,true);scale();return text()}
q('#in').onclick();q('#in').onclick();seen.push(settled());q('#all').onclick();seen.push(settled());end(seen)`
  assert.equal(answer(acts, '1280,900', 1), [
    ...[[0.5, 0, 0], '20 µm'],
    ...[
      [0.5, 0.5, 0],
      [0, 0.5, 0],
      [0, 0.6, 0],
    ],
    ...[[0, 0, 0], false, [0, 0.6, 0]],
    ...[[0, 0.2, 0], '20 %'],
    ...['5 µm', '20 µm'],
  ])
})

inBrowser('the picture shows the slide, tinted by its classes', async () => {
  opened('', '1280,900', 1, [`--screenshot=${join(root, 'shown.png')}`])
  const { data, info } = await sharp(join(root, 'shown.png')).removeAlpha().raw().toBuffer({ resolveWithObject: true })
  // The slide covers 980 pixels beside the list of layers; its middle is the middle of the window.
  const at = (y: number, x: number): readonly number[] => [...data.subarray(3 * (y * info.width + x)).subarray(0, 3)]
  const isNear = (found: readonly number[], expected: readonly number[]): boolean =>
    found.every((v, i) => Math.abs(v - expected[i]!) <= 6)
  const middle = Math.round(info.height / 2)
  // Half of the colour of stroma and of tumour, and half of the class.
  assert.ok(isNear(at(middle, 350), [179, 85, 100]), String(at(middle, 350)))
  assert.ok(isNear(at(middle, 640), [75, 104, 80]), String(at(middle, 640)))
  assert.ok(isNear(at(middle, 120), [242, 242, 242]), String(at(middle, 120)))
})

test.run()
