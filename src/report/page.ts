// The shell of the reports: style, script, and safe text. In: parts made elsewhere. Out: one page that needs no network. Invariant: every text from a
// model or a plan file passes escapeHtml or embedJson; hatches replace colours on grey paper.

const ESCAPES: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' }
export const escapeHtml = (text: string): string => text.replace(/[&<>"']/g, (c) => ESCAPES[c]!)

/** A table that scrolls, also by keys; `name` is for readers of screens. */
export const scrolling = (name: string, content: string, kind = ''): string =>
  `<div class="scroll${kind}" tabindex="0" role="region" aria-label="Table: ${escapeHtml(name)}">${content}</div>`

/** JSON that may stand inside a script element: no '<' can end it early. */
export const embedJson = (data: unknown): string =>
  JSON.stringify(data)
    .replace(/</g, '\\u003c')
    .replace(/\u2028/g, '\\u2028')
    .replace(/\u2029/g, '\\u2029')

/** Colours of a page, and of lines on it, for both schemes of the reader. */
const LIGHT = {
  page: '--ground:#fbfaf8;--panel:#fff;--ink:#23262b;--soft:#6a7079;--line:#e4e2dd;--accent:#2f5fc4;--limit:#c2413b;',
  lines:
    '--s0:#1b6ca8;--s1:#d1495b;--s2:#2e8b57;--s3:#c77700;--s4:#7b4fa6;--s5:#00868b;--s6:#a0522d;--s7:#c71585;--s8:#556b2f;--s9:#4169e1;--s10:#8f6a08;--s11:#708090',
}
const DARK = {
  page: '--ground:#15171b;--panel:#1c1f24;--ink:#e4e5e7;--soft:#979da7;--line:#30343b;--accent:#8fb1ff;--limit:#ef7a73;',
  lines:
    '--s0:#63b0e8;--s1:#f08592;--s2:#63c491;--s3:#f0ae4a;--s4:#b694dd;--s5:#3fc1c6;--s6:#d98f68;--s7:#ef79c0;--s8:#a3bd74;--s9:#8ea6ff;--s10:#d9b34a;--s11:#a3b2c2',
}
const IF_DARK = '@media screen and (prefers-color-scheme:dark)'
/** The colours that a drawing needs if it is a file of its own. */
export const SCHEMES = `:root{${LIGHT.page}${LIGHT.lines}}${IF_DARK}{:root{${DARK.page}${DARK.lines}}}`

const STYLE = `
:root{color-scheme:light dark;${LIGHT.page}
--output:#8fae4f;--parameters:#75859b;--input:#c983a8;--activations:#5b8def;--gradients:#e3a548;--workspace:#7fbcab;--mixed:#b3a3dc;
--forward:#5b8def;--recompute:#a48ade;--backward:#e3a548;--update:#62ab7c;--tiling:#b4bac3;--full:#d8605a;--late:#eb9f88;--data:#c983a8;--out:#cf8a62;--in:#4ba3b0;
${LIGHT.lines}}
${IF_DARK}{:root{${DARK.page}
--output:#7b9744;--parameters:#7b8aa1;--input:#b97499;--activations:#5580d2;--gradients:#c98f3c;--workspace:#669f90;--mixed:#9384c2;
--forward:#5580d2;--recompute:#8e77c6;--backward:#c98f3c;--update:#54946b;--tiling:#777e89;--full:#d0605a;--late:#cf8570;--data:#b97499;--out:#b97a56;--in:#43909c;
${DARK.lines}}}
*{box-sizing:border-box}
body{margin:0;background:var(--ground);color:var(--ink);font:15px/1.55 system-ui,-apple-system,"Segoe UI","Helvetica Neue",sans-serif}
main{max-width:1240px;margin:0 auto;padding:36px 28px 64px}
h1{font-size:30px;font-weight:650;letter-spacing:-.01em;margin:0}
h2{font-size:18px;font-weight:650;margin:44px 0 10px}
h1+p{margin:4px 0 0;color:var(--soft)}h1+p b{color:var(--ink);font-weight:550}
section>p.lead{margin:0 0 14px;color:var(--soft);max-width:960px}
.cards{display:grid;grid-template-columns:repeat(auto-fit,minmax(170px,1fr));gap:12px;margin:26px 0 0}
.card{background:var(--panel);border:1px solid var(--line);border-radius:10px;padding:14px 16px}
.card em{display:block;font-style:normal;color:var(--soft);font-size:13px}
.card strong{display:block;font-size:22px;font-weight:620;letter-spacing:-.01em;line-height:1.3;font-variant-numeric:tabular-nums}
.card span{color:var(--soft);font-size:13px}
.sizes{display:grid;grid-template-columns:max-content 1fr max-content;gap:7px 14px;align-items:center;margin-top:18px;font-size:14px}
.sizes i{display:block;height:12px;border-radius:3px;min-width:2px}
.sizes i.now{background:var(--accent)}.sizes i.incore{background:var(--line)}.sizes i.limit{background:var(--limit)}.sizes i.fixed{background:var(--parameters)}
.sizes b{font-weight:500;font-variant-numeric:tabular-nums;text-align:right}
.words{display:grid;grid-template-columns:110px 1fr;gap:10px 18px;max-width:980px;margin:0}
.words dt{color:var(--soft)}.words dd{margin:0}
.legend{margin:0 0 4px;display:flex;flex-wrap:wrap;gap:2px 18px;font-size:13px;color:var(--soft)}
.legend em{font-style:normal;width:62px;color:var(--ink)}
.legend span{white-space:nowrap}.key{display:inline-block;width:11px;height:11px;border-radius:3px;margin-right:6px;vertical-align:-1px}
.step{position:relative;margin-top:12px;padding:12px 12px 4px 104px;background:var(--panel);border:1px solid var(--line);border-radius:10px}
.gutter{position:absolute;left:12px;top:12px;width:84px;font-size:12px;color:var(--soft);text-align:right}
.gutter b{position:absolute;right:0;font-weight:500;white-space:nowrap}.gutter .tick{font-variant-numeric:tabular-nums}
.limit{position:absolute;right:18px;margin-top:12px;font-size:12px;color:var(--limit);z-index:2;pointer-events:none;background:var(--panel);padding:0 5px;border-radius:4px}
.sizes .limit{position:static;margin:0;padding:0}
.view{overflow-x:auto;overflow-y:hidden;outline-offset:3px}
.plot{position:relative;width:100%;padding-bottom:24px}
svg{display:block;width:100%}
.segs{position:absolute;left:0;right:0;top:0;height:22px}
.seg{position:absolute;top:0;height:20px;overflow:hidden;white-space:nowrap;text-overflow:ellipsis;font-size:11px;line-height:20px;padding:0 1px 0 5px;border-left:1px solid var(--panel);color:var(--ink);background:color-mix(in srgb,var(--c) 30%,var(--panel))}
.seg.forward{--c:var(--forward)}.seg.recompute{--c:var(--recompute)}.seg.backward{--c:var(--backward)}.seg.update{--c:var(--update)}.seg.step{--c:var(--workspace)}
.grid{stroke:var(--line);fill:none;vector-effect:non-scaling-stroke}
.budget{stroke:var(--limit);fill:none;stroke-width:1.5;stroke-dasharray:6 4;vector-effect:non-scaling-stroke}
.area{stroke-width:.8;vector-effect:non-scaling-stroke}
.apart{stroke:var(--panel);stroke-width:.6;vector-effect:non-scaling-stroke}
.marks b{position:absolute;bottom:2px;font-size:12px;font-weight:400;color:var(--soft);white-space:nowrap;font-variant-numeric:tabular-nums;border-left:1px solid var(--line);padding-left:4px}
.hair{position:absolute;top:0;bottom:20px;width:1px;background:var(--ink);opacity:.5;pointer-events:none}
.tip{position:absolute;z-index:3;top:44px;width:330px;pointer-events:none;background:var(--panel);border:1px solid var(--line);border-radius:8px;box-shadow:0 6px 24px rgb(0 0 0/.16);padding:9px 12px;font-size:12.5px;line-height:1.5}
.tip b{font-weight:600}.tip span{float:right;padding-left:10px;font-variant-numeric:tabular-nums}.tip div{clear:both;overflow-wrap:anywhere}
.tools{margin:8px 0 0;font-size:13px;color:var(--soft)}
button{font:inherit;color:var(--ink);background:var(--panel);border:1px solid var(--line);border-radius:7px;padding:2px 11px;margin-right:8px;cursor:pointer}
.scroll{max-height:560px;overflow:auto;border:1px solid var(--line);border-radius:10px;background:var(--panel)}
table{border-collapse:collapse;width:100%;font-size:13.5px}
th{position:sticky;top:0;background:var(--panel);text-align:left;font-weight:550;color:var(--soft);border-bottom:1px solid var(--line);padding:8px 12px;white-space:nowrap;z-index:1}
td{padding:5px 12px;border-bottom:1px solid color-mix(in srgb,var(--line) 55%,transparent);vertical-align:top}
tr:last-child td{border-bottom:0}
.n{text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums}
.scroll td:first-child{white-space:nowrap;max-width:340px;overflow:hidden;text-overflow:ellipsis}
td small{color:var(--soft);font-size:12.5px}
.share{display:flex;height:5px;margin-top:3px;border-radius:2px;overflow:hidden;width:90px;margin-left:auto;background:color-mix(in srgb,var(--line) 60%,transparent)}
.tag{display:inline-block;border-radius:5px;padding:0 7px;font-size:12.5px;background:color-mix(in srgb,var(--c) 22%,var(--panel));white-space:nowrap}
.holders td:first-child{width:26%}.holders td:nth-child(2){width:60%}.holders i{display:block;height:11px;border-radius:3px;margin-top:6px;min-width:2px}
.peak{position:absolute;z-index:2;font-size:12px;font-weight:600;line-height:1;white-space:nowrap;pointer-events:none;transform:translate(-50%,0);text-align:center}
.peak.right{transform:translate(-100%,0)}.peak.left{transform:none}
.peak::after{content:'▾';display:block;font-size:11px;line-height:8px}.peak.right::after{text-align:right}.peak.left::after{text-align:left}
.peak u{text-decoration:none;background:color-mix(in srgb,var(--panel) 75%,transparent);border-radius:3px;padding:0 3px}
footer{margin-top:48px;padding-top:16px;border-top:1px solid var(--line);color:var(--soft);font-size:13.5px;max-width:900px}
footer dl{display:grid;grid-template-columns:110px 1fr;gap:3px 18px;margin:0}footer dd{margin:0}
header p{margin:4px 0 0;color:var(--soft)}header p b{color:var(--ink);font-weight:550}
header p.state{color:var(--ink);font-size:17px;font-weight:600;margin-top:14px}
p.state::before{content:'';display:inline-block;width:10px;height:10px;border-radius:50%;border:2px solid var(--accent);margin-right:9px}
p.state.done::before{background:var(--accent)}p.state.ended::before{border-radius:0;border-color:var(--limit);background:var(--limit)}
p.when{font-size:13.5px;overflow-wrap:anywhere}p.when .tools{margin-left:12px}
figure{margin:0}figure.plotted{background:var(--panel);border:1px solid var(--line);border-radius:10px;padding:8px 12px;margin:0 0 12px;max-width:960px}
details{margin:4px 0}summary{cursor:pointer;color:var(--soft);font-size:13.5px}details .scroll{max-height:340px;margin:8px 0}
caption{text-align:left;padding:9px 12px 2px;font-size:13px;color:var(--soft)}
tbody th{position:static;font-weight:400;color:var(--ink);border-bottom:1px solid color-mix(in srgb,var(--line) 55%,transparent);padding:5px 12px}
.numbers{width:fit-content;max-width:100%;margin:0 0 12px}.numbers table{width:auto;min-width:340px}
.recipe td{overflow-wrap:anywhere}.recipe table{min-width:0}
.crossed td.n{background:color-mix(in srgb,var(--accent) calc(var(--share)*.5),transparent)}.crossed thead td{border-bottom:1px solid var(--line)}
.worst{display:grid;grid-template-columns:repeat(auto-fill,minmax(210px,1fr));gap:12px;list-style:none;margin:0;padding:0}
.worst li{background:var(--panel);border:1px solid var(--line);border-radius:10px;padding:12px}
.pictures{display:flex;flex-wrap:wrap;gap:6px}.pictures img{image-rendering:pixelated;max-width:100%;height:auto;border:1px solid var(--line)}
.worst figcaption{margin-top:8px;font-size:13.5px}.worst figcaption *{display:block;overflow-wrap:anywhere}.worst b{font-weight:550}.worst span{color:var(--soft)}
@media (max-width:600px){main{padding:20px 14px 48px}.words,footer dl{grid-template-columns:1fr;gap:2px}.words dd,footer dd{margin-bottom:8px}.sizes{gap:7px 8px;font-size:12.5px}}
@media print{@page{margin:12mm}*{print-color-adjust:exact;-webkit-print-color-adjust:exact}
body{font-size:11px;background:#fff}main{max-width:none;padding:0}h1{font-size:22px}h2{font-size:15px;margin:22px 0 6px;break-after:avoid}p.lead{break-after:avoid}p.when,.card em,.card span,.worst figcaption,caption,footer{font-size:9.5px}header p.state{font-size:13px}

.tools,.peak::after,summary{display:none}.scroll{max-height:none;overflow:visible;border-radius:0}.view{overflow:hidden}
table,.numbers table{font-size:9px;min-width:0}td small,.tag{font-size:inherit}th{position:static;white-space:normal;padding:3px 5px}td,tbody th{padding:2px 5px}.n{white-space:normal}
.scroll td:first-child,.share{max-width:150px;overflow-wrap:anywhere;white-space:normal}.share{width:60px}
thead{display:table-header-group}tr,.card,figure,.worst li,.step{break-inside:avoid}.cards{gap:6px}.card{padding:7px 9px}.card strong{font-size:15px}
.cards{grid-template-columns:repeat(3,1fr)}.worst{grid-template-columns:repeat(3,1fr)}figure.plotted{max-width:none}}
`

/** The hatch of each colour: the pixels from line to line, upright and level; 0 is none. Bars of one lane differ. */
const HATCHES = {
  parameters: [0, 0],
  input: [5, 0],
  activations: [0, 8],
  gradients: [0, 4],
  workspace: [6, 6],
  mixed: [3, 3],
  output: [8, 0],
  forward: [0, 0],
  recompute: [5, 0],
  backward: [0, 5],
  update: [4, 4],
  tiling: [8, 8],
  full: [0, 0],
  late: [0, 4],
  data: [5, 0],
  out: [0, 0],
  in: [0, 0],
} as const
type Hatched = keyof typeof HATCHES

/** The colours and hatches of a drawing whose unit is `across` of its own to a pixel sideways. */
export const hatchesSvg = (across: number): string =>
  `<defs>${(Object.keys(HATCHES) as Hatched[])
    .map((c) => {
      const [x, y] = HATCHES[c]
      const [width, height] = [(x || 8) * across, y || 8]
      const line = (w: number, h: number): string => `<rect class="hatch" width="${w}" height="${h}"/>`
      return (
        `<pattern id="k-${c}" patternUnits="userSpaceOnUse" width="${width}" height="${height}"><rect class="ground ${c}" width="${width}" height="${height}"/>` +
        `${x > 0 ? line(across, height) : ''}${y > 0 ? line(width, 1) : ''}</pattern>`
      )
    })
    .join('')}</defs>`

const linesEvery = (pixels: number, turn: string): readonly string[] =>
  pixels === 0 ? [] : [`repeating-linear-gradient(${turn},var(--hatch) 0 1px,transparent 1px ${pixels}px)`]

const COLOUR_RULES = `:root{--hatch:color-mix(in srgb,var(--panel) 65%,transparent)}.hatch{fill:var(--hatch)}${(
  Object.keys(HATCHES) as Hatched[]
)
  .map((c) => {
    const [x, y] = HATCHES[c]
    const lines = [...linesEvery(x, '90deg'), ...linesEvery(y, '180deg')]
    return (
      `.bar.${c}{fill:url(#k-${c})}.area.${c}{fill:url(#k-${c});stroke:var(--${c})}.ground.${c}{fill:var(--${c})}` +
      `.key.${c},.share .${c},.holders .${c}{background:${lines.map((l) => `${l},`).join('')}var(--${c})}`
    )
  })
  .join('')}`

/** Zooms the drawing by making it wider, and describes the part under the pointer. */
const SCRIPT = `
const D=JSON.parse(document.getElementById('data').textContent),q=s=>document.querySelector(s)
const view=q('.view'),plot=q('.plot'),tip=q('.tip'),hair=q('.hair'),step=q('.step')
let zoom=1
const setZoom=(z,at)=>{z=Math.min(64,Math.max(1,z));const x=(at-view.getBoundingClientRect().left+view.scrollLeft)/plot.clientWidth
 const offset=at-view.getBoundingClientRect().left
 zoom=z;plot.style.width=z*100+'%'
 for(const m of document.querySelectorAll('.marks'))m.hidden=+m.dataset.zoom!==z
 view.scrollLeft=x*plot.clientWidth-offset}
const middle=()=>{const r=view.getBoundingClientRect();return r.left+r.width/2}
for(const b of document.querySelectorAll('button[data-zoom]'))b.onclick=()=>setZoom(b.dataset.zoom==='in'?zoom*2:zoom/2,middle())
view.ondblclick=e=>setZoom(zoom*2,e.clientX)
view.addEventListener('wheel',e=>{if(!e.ctrlKey)return;e.preventDefault();setZoom(e.deltaY<0?zoom*2:zoom/2,e.clientX)},{passive:false})
const last=(n,at)=>{let a=-1,b=n;while(b-a>1){const m=(a+b)>>1;at(m)?a=m:b=m}return a}
const time=s=>s>=1?s.toFixed(3)+' s':s>=1e-3?(s*1e3).toFixed(3)+' ms':(s*1e6).toFixed(1)+' µs'
const line=(text,value)=>{const d=document.createElement('div'),v=document.createElement('span');v.textContent=value;d.textContent=text;d.prepend(v);return d}
const laneLine=(l,x)=>{const i=last(l.bars.length/4,k=>l.bars[4*k]<=x);if(i<0||l.bars[4*i+1]<x)return
 const [s,e,n,more]=l.bars.slice(4*i,4*i+4);return line(l.title+': '+D.labels[n]+(more?' and '+more+' more':''),time((e-s)/D.width*D.seconds))}
view.onpointermove=e=>{const r=plot.getBoundingClientRect(),x=Math.min(1,Math.max(0,(e.clientX-r.left)/r.width))*D.width
 hair.hidden=tip.hidden=false;hair.style.left=x/D.width*100+'%'
 const s=D.segments[last(D.segments.length,k=>D.segments[k][0]<=x)],m=D.memory[last(D.memory.length,k=>D.memory[k][0]<=x)]
 const head=line(s?s[1]:'',time(x/D.width*D.seconds));head.style.fontWeight=600;tip.replaceChildren(head)
 if(m){const mib=n=>(n*D.pageMiB).toLocaleString('en')+' MiB';tip.append(line('on the device',mib(m.slice(1).reduce((a,b)=>a+b,0))))
  D.kinds.forEach((k,i)=>{if(m[i+1])tip.append(line('\\u2003'+k,mib(m[i+1])))})}
 for(const l of D.lanes){const t=laneLine(l,x);if(t)tip.append(t)}
 const box=step.getBoundingClientRect(),left=e.clientX-box.left
 tip.style.left=(left>box.width/2?left-346:left+16)+'px'}
view.onpointerleave=()=>{hair.hidden=tip.hidden=true}
`

/** Parts of a page besides its body. */
interface PageParts {
  /** Data of the drawing of a plan, if the body contains one. */
  readonly plan?: unknown
  readonly script?: string
  readonly style?: string
  /** Script files beside the page, loaded before `script`. */
  readonly libraries?: readonly string[]
}

export const page = (
  title: string,
  body: string,
  { plan, script = '', style = '', libraries = [] }: PageParts,
): string => `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">
<title>${escapeHtml(title)}</title><style>${STYLE}${COLOUR_RULES}${style}</style></head>
<body><main>${body}</main>
${plan === undefined ? '' : `<script type="application/json" id="data">${embedJson(plan)}</script><script>${SCRIPT}</script>`}${libraries.map((file) => `<script src="${escapeHtml(file)}"></script>`).join('')}${script === '' ? '' : `<script>${script}</script>`}</body></html>
`
