// The page of a viewer: OpenSeadragon with a slide, layers over it, their legends, an opacity, a scale. In: names, sizes and legends. Out: HTML.
// Invariant: the page loads its own folder's files only, as images and one script, so that it works from file://. Texts of files are escaped.
import { embedJson, escapeHtml, page } from '../report/page'
import { HEAT_COLOURS } from '../predict/heat'
import { colourOf } from './sources'
import { DEEP_TILE } from './deepzoom'
import type { Legend } from './layers'

export interface TilesView {
  /** The folder of the tiles. */
  readonly tiles: string
  readonly format: string
  readonly width: number
  readonly height: number
}
export interface LayerView extends TilesView {
  readonly name: string
  readonly across: number
  readonly legend: Legend
}
export interface SlideView extends TilesView {
  readonly name: string
  readonly microns: number | undefined
  readonly layers: readonly LayerView[]
}

const percent = (share: number): string => (share > 0 && share < 0.001 ? '< 0.1 %' : `${(100 * share).toFixed(1)} %`)

const legendHtml = (legend: Legend): string =>
  legend.kind === 'heat'
    ? `<p class="heat"><span>0</span><i></i><span>1</span></p><p class="note">probability of ${escapeHtml(legend.of)}</p>`
    : `<ul>${legend.entries
        .map(({ name, colour, share }, label) => {
          const swatch = label === 0 ? '<i class="none"></i>' : `<i style="background:${colour}"></i>`
          return `<li>${swatch}<span>${escapeHtml(name)}${label === 0 ? ' <small>not tinted</small>' : ''}</span><b>${percent(share)}</b></li>`
        })
        .join('')}</ul>`

const layerHtml = ({ name, legend }: LayerView, i: number): string =>
  `<fieldset><legend><label><input type="checkbox" class="layer" data-layer="${i}"${i === 0 ? ' checked' : ''}>` +
  `<span>${escapeHtml(name)}</span>${i < 9 ? `<kbd>${i + 1}</kbd>` : ''}</label></legend>${legendHtml(legend)}</fieldset>`

const BUTTONS = [
  ['in', 'Zoom in', 'M12 5v14M5 12h14'],
  ['out', 'Zoom out', 'M5 12h14'],
  ['all', 'Show the whole slide', 'M4 9V4h5M15 4h5v5M20 15v5h-5M9 20H4v-5'],
] as const
const buttonsHtml = BUTTONS.map(
  ([id, label, path]) =>
    `<button type="button" id="${id}" aria-label="${label}" title="${label}"><svg viewBox="0 0 24 24" aria-hidden="true"><path d="${path}"/></svg></button>`,
).join('')

const KEYS = [
  ['arrows', 'move'],
  ['+ −', 'zoom'],
  ['0', 'show the whole slide'],
  ['1 to 9', 'switch a layer'],
  ['h', 'hide all layers, and show them again'],
  ['[ ]', 'opacity'],
] as const

const STYLE = `
html,body,main{height:100%}main{max-width:none;padding:0;display:grid;grid-template-columns:minmax(0,1fr) 300px}
.stage{position:relative;min-height:0;background:color-mix(in srgb,var(--line) 45%,var(--ground))}
#slide{position:absolute;inset:0}#slide .openseadragon-canvas{outline:0!important}
.stage:has(.openseadragon-canvas:focus-visible)::after{content:'';position:absolute;inset:0;z-index:1;border:3px solid var(--accent);pointer-events:none}
.buttons{position:absolute;left:12px;top:12px;display:grid;gap:6px;z-index:2}
.buttons button{width:40px;height:40px;padding:8px;margin:0;box-shadow:0 1px 4px rgb(0 0 0/.18)}
.buttons svg{width:22px;height:22px;fill:none;stroke:currentColor;stroke-width:2;stroke-linecap:round}
.bar{position:absolute;left:12px;bottom:12px;z-index:2;background:var(--panel);border:1px solid var(--line);border-radius:7px;padding:4px 10px 6px;font-size:13px;line-height:1.4;font-variant-numeric:tabular-nums;pointer-events:none}
.bar i{display:block;height:5px;border:1.5px solid var(--ink);border-top:0}.bar small{color:var(--soft);font-size:12px;margin-left:8px}
.side{overflow:auto;border-left:1px solid var(--line);background:var(--panel);padding:18px 18px 28px}
.side h1{font-size:18px;overflow-wrap:anywhere}.side h1+p{font-size:13.5px;margin:2px 0 16px}
.side fieldset{border:0;border-top:1px solid var(--line);padding:6px 0 10px;margin:0;min-width:0}.side legend{padding:8px 0 0;float:left;width:100%}.side legend+*{clear:both}
.side label{display:flex;align-items:center;gap:9px;font-weight:550;cursor:pointer;min-height:30px}.side label span{flex:1;min-width:0;overflow-wrap:anywhere}
input{accent-color:var(--accent)}input[type=checkbox]{width:18px;height:18px;margin:0;flex:none}input[type=range]{width:100%;margin:4px 0 14px;height:24px}
.side :focus-visible,.buttons :focus-visible{outline:2px solid var(--accent);outline-offset:2px}
kbd{font:12px/1.5 ui-monospace,monospace;border:1px solid var(--line);border-radius:4px;padding:0 6px;color:var(--soft);white-space:nowrap}
.side ul{list-style:none;margin:4px 0 0;padding:0;font-size:14px}.side li{display:flex;align-items:center;gap:9px;padding:2px 0}.side li span{flex:1;min-width:0;overflow-wrap:anywhere}
.side li i{flex:none;width:16px;height:16px;border-radius:4px;border:1px solid color-mix(in srgb,var(--ink) 35%,transparent)}.side li i.none{background:none;border-style:dashed}
.side li b{font-weight:400;color:var(--soft);font-variant-numeric:tabular-nums}small{font-size:12.5px;color:var(--soft)}
.heat{display:flex;align-items:center;gap:8px;margin:6px 0 0;font-size:13px;color:var(--soft)}.heat i{flex:1;height:12px;border-radius:4px;background:linear-gradient(to right,${HEAT_COLOURS.map(colourOf).join(',')})}
.note{margin:2px 0 0;font-size:13px;color:var(--soft)}.side output{font-weight:400;color:var(--soft)}
.side dl{display:grid;grid-template-columns:max-content 1fr;gap:5px 12px;margin:8px 0 0;font-size:13px}.side dd{margin:0}
.side details{border-top:1px solid var(--line);margin:0;padding-top:10px}.side summary{min-height:26px}
#slide .navigator{opacity:1!important}
#bad{position:absolute;left:50%;top:14px;transform:translateX(-50%);z-index:3;background:var(--panel);border:1px solid var(--limit);border-radius:7px;padding:6px 14px;font-size:14px;max-width:80%}
@media (max-width:700px){main{grid-template-columns:none;grid-template-rows:minmax(0,1fr) minmax(0,42%)}.navigator{display:none!important}.side{border-left:0;border-top:1px solid var(--line);padding:12px 16px 20px}}
@media print{main{display:block}.stage{height:60vh}.buttons{display:none}}
`

const SCRIPT = `
const q=s=>document.querySelector(s),all=s=>[...document.querySelectorAll(s)]
const source=t=>({Image:{xmlns:'http://schemas.microsoft.com/deepzoom/2008',Url:t.tiles+'/',Format:t.format,Overlap:'0',TileSize:'${DEEP_TILE}',Size:{Width:String(t.width),Height:String(t.height)}}})
const viewer=OpenSeadragon({element:q('#slide'),drawer:'canvas',showNavigationControl:false,showNavigator:true,navigatorPosition:'TOP_RIGHT',navigatorSizeRatio:.16,
 navigatorAutoFade:false,navigatorBackground:'var(--panel)',navigatorBorderColor:'var(--line)',navigatorDisplayRegionColor:'var(--limit)',animationTime:matchMedia('(prefers-reduced-motion: reduce)').matches?0:.5,maxZoomPixelRatio:16,minZoomImageRatio:.7,visibilityRatio:.3,immediateRender:false,
 gestureSettingsMouse:{clickToZoom:false,dblClickToZoom:true}})
const world=viewer.world,items=[]
let slide,hidden=false
const opacity=q('#opacity'),boxes=all('.layer')
const show=()=>{items.forEach((item,i)=>item&&item.setOpacity(!hidden&&boxes[i].checked?opacity.value/100:0));q('#shown').value=opacity.value+' %'
 q('#all-hidden').hidden=!hidden}
const place=(t,index,done)=>viewer.addTiledImage({tileSource:source(t),index,x:0,y:0,width:t.across||1,success:({item})=>done(item),error:()=>{q('#bad').hidden=false}})
place(D,0,item=>{slide=item;viewer.viewport.goHome(true);scale()
 const next=i=>{if(i===D.layers.length){document.body.dataset.ready='yes';return}
  place(D.layers[i],i+1,layer=>{items[i]=layer
   const wide=D.layers[i].across,rows=D.height/D.width/wide*D.layers[i].width
   if(wide!==1||rows<D.layers[i].height)layer.setClip(new OpenSeadragon.Rect(0,0,D.layers[i].width/wide,Math.min(rows,D.layers[i].height)))
   show();next(i+1)})}
 next(0)})
viewer.addHandler('tile-drawing',e=>{e.context.imageSmoothingEnabled=e.tiledImage===slide})
viewer.addHandler('tile-load-failed',()=>{q('#bad').hidden=false})
for(const b of boxes)b.onchange=()=>{hidden=false;show()}
opacity.oninput=show
const zoomBy=f=>{viewer.viewport.zoomBy(f);viewer.viewport.applyConstraints()}
q('#in').onclick=()=>zoomBy(2);q('#out').onclick=()=>zoomBy(.5);q('#all').onclick=()=>viewer.viewport.goHome()
const step=d=>{opacity.value=+opacity.value+d;show()}
const act={h:()=>{hidden=!hidden;show()},'[':()=>step(-10),']':()=>step(10)}
viewer.addHandler('canvas-key',e=>{const k=e.originalEvent.key,box=/^[1-9]$/.test(k)&&boxes[k-1]
 if(box){box.checked=!box.checked;box.onchange()}else if(act[k])act[k]();else if(!/^[rRfF]$/.test(k))return
 e.preventDefaultAction=true})
const round=x=>{const p=10**Math.floor(Math.log10(x));return [1,2,5].map(m=>m*p).filter(m=>m<=x).pop()}
const scale=()=>{if(!slide)return
 const zoom=slide.viewportToImageZoom(viewer.viewport.getZoom(true)),most=120/zoom*(D.microns||1),n=round(most)
 q('.bar i').style.width=120*n/most+'px'
 q('.bar span').textContent=!D.microns?n.toLocaleString('en')+' px':n>=1000?n/1000+' mm':+n.toPrecision(3)+' µm'
 q('.bar small').textContent=(100*zoom).toPrecision(2).replace(/e\\+?.*/,m=>'e'+m.slice(1))*1+' %'}
viewer.addHandler('animation',scale);viewer.addHandler('resize',scale)
const canvas=viewer.canvas
canvas.setAttribute('role','application');canvas.setAttribute('aria-label','Slide '+D.name+'. Arrows move, plus and minus zoom, 0 shows all of it.')
`

/** The page; `libraries` are the scripts beside it. */
export const viewerHtml = (v: SlideView, libraries: readonly string[]): string => {
  const { name, width, height, microns, layers } = v
  const size = `${width.toLocaleString('en')} × ${height.toLocaleString('en')} pixels`
  const scale = microns === undefined ? '' : `, ${Number(microns.toPrecision(3))} µm per pixel`
  const body = `<div class="stage"><div id="slide"></div><div class="buttons">${buttonsHtml}</div>
<div class="bar" aria-hidden="true"><i></i><span></span><small></small></div>
<p id="bad" role="status" hidden>Some tiles are missing: keep the page in its folder.</p></div>
<section class="side" aria-label="Layers" tabindex="0"><h1>${escapeHtml(name)}</h1><p>${size}${scale}</p>
<div${layers.length === 0 ? ' hidden' : ''}><label for="opacity"><span>Opacity of the layers</span><output id="shown" for="opacity">50 %</output></label>
<input type="range" id="opacity" min="0" max="100" value="50"><p class="note" id="all-hidden" role="status" hidden>All layers are hidden: press h to show them.</p></div>
${layers.map(layerHtml).join('')}
<details><summary>Keys</summary><dl>${KEYS.map(([key, about]) => `<dt><kbd>${key}</kbd></dt><dd>${about}</dd>`).join('')}</dl>
<p class="note">They work while the slide has the focus.</p></details></section>`
  return page(`${name}, a Spillway view`, body, { script: `const D=${embedJson(v)}${SCRIPT}`, style: STYLE, libraries })
}
