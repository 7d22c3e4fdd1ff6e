// full
// The pages of runs and plans for people who use a keyboard, a screen reader or a phone: axe finds nothing, and nothing is wider than the screen. In
// a browser, in full mode.
import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'uvu'
import * as assert from 'uvu/assert'

const BROWSER = ['chromium', 'chromium-browser', 'google-chrome'].find((b) => spawnSync(b, ['--version']).status === 0)
const ROOT = join(__dirname, '../..')
const SCREENS = ['1280,900', '500,844']
/** Chromium's numbers of colour schemes. */
const SCHEMES = { dark: 0, light: 1 }

const ACTS = `
addEventListener('load',()=>setTimeout(()=>axe.run(document).then(({violations})=>{
 const names=violations.map(v=>v.id+': '+v.nodes[0].html)
 if(document.documentElement.scrollWidth>document.documentElement.clientWidth)names.push('wider than the screen')
 const end=document.createElement('pre')
 end.id='found'
 end.textContent=JSON.stringify(names)
 document.body.append(end)}),300))
`

const foundOn = (page: string, screen: string, scheme: number): readonly string[] => {
  const axe = readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8')
  const watched = page.replace('.html', '.watched.html')
  // The text of a library may hold `$&`, so the replacement is a function.
  writeFileSync(
    watched,
    readFileSync(page, 'utf8').replace('</body>', () => `<script>${axe}</script><script>${ACTS}</script></body>`),
  )
  const flags = [
    ...['--headless=new', '--no-sandbox', '--disable-gpu', '--virtual-time-budget=20000', '--dump-dom'],
    ...[`--window-size=${screen}`, `--blink-settings=preferredColorScheme=${scheme}`],
  ]
  const { stdout } = spawnSync(BROWSER!, [...flags, `file://${watched}`], { encoding: 'utf8', maxBuffer: 1 << 26 })
  return JSON.parse(/<pre id="found">(.*?)<\/pre>/s.exec(stdout)![1]!) as readonly string[]
}

const inBrowser = BROWSER ? test : test.skip

inBrowser('axe finds nothing on the pages of runs, comparisons and plans, on any screen, light or dark', () => {
  const folder = mkdtempSync(join(tmpdir(), 'spillway-accessible-'))
  try {
    const spillway = (...args: readonly string[]): void => {
      const { status, stderr } = spawnSync(process.execPath, [join(ROOT, 'scripts/spillway.js'), ...args], {
        cwd: folder,
        encoding: 'utf8',
        env: { ...process.env, SPILLWAY_RUN_FOLDER: join(folder, 'runs') },
      })
      assert.is(status, 0, stderr)
    }
    const small = ['resnet20-cifar', '--batch', '4', '--algorithms', 'fixed']
    for (const lr of ['0.01', '0.1']) spillway('train', ...small, '--steps', '5', '--lr', lr, '--run', `of-${lr}`)
    spillway('compare-runs', 'of-0.01', 'of-0.1', '--report', 'compared.html')
    spillway('plan', ...small, '--budget', '16MiB', '--report', 'plan.html', '--explain')
    for (const page of ['runs/of-0.1/index.html', 'compared.html', 'plan.html'])
      for (const screen of SCREENS)
        for (const [name, scheme] of Object.entries(SCHEMES))
          assert.equal(foundOn(join(folder, page), screen, scheme), [], `${page}, ${screen}, ${name}`)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
})

test.run()
