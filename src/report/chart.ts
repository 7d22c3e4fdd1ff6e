// Charts of a page that a reader can explore: values at the pointer, zoom, logarithmic scale, smoothing. In: series. Out: HTML with the data
// as JSON beside a static drawing, and one script for all charts of a page. Invariant: the script needs no network and no other file; without
// it the static drawing remains. A value that no line can show has a mark at the edge.
import { embedJson } from './page'

/** A point: x, then y or null, then the least and the most of the steps that it stands for. */
export type ChartPoint = readonly [x: number, y: number | null, least?: number, most?: number]

export interface ChartSeries {
  readonly name: string
  readonly points: readonly ChartPoint[]
  /** Drawn thin and dashed: a planned value. */
  readonly reference?: true
  /** Steps whose values are not finite. */
  readonly odd?: readonly number[]
}

export interface Chart {
  readonly title: string
  readonly x: string
  readonly y: string
  /** True if the chart begins with a logarithmic scale. */
  readonly log?: boolean
  readonly series: readonly ChartSeries[]
}

/** JSON has no number for values that are not finite. */
export const pointOf = (x: number, y: number | undefined): ChartPoint => [x, y !== undefined && Number.isFinite(y) ? y : null]

/** A chart around its static drawing. */
export const chartHtml = (chart: Chart, drawing: string): string =>
  `<div class="chart">${drawing}<script type="application/json">${embedJson(chart)}</script></div>`

/** The numbers of the script, without a document. */
export const CHART_NUMBERS = `
// Weighted mean of a value and all before it; weights sum to 1 from the first value on.
const smooth=(points,weight)=>{let sum=0,total=0
 return points.map(([x,y])=>{if(y===null)return[x,null]
  sum=weight*sum+(1-weight)*y;total=weight*total+1-weight;return[x,sum/total]})}
const niceStep=(length,count)=>{const rough=length/count,power=10**Math.floor(Math.log10(rough)),k=rough/power
 return power*(k<=1?1:k<=2?2:k<=5?5:10)}
const ticks=(from,to,count,least=0)=>{const step=Math.max(least,niceStep(to-from||1,count)),all=[]
 for(let i=Math.ceil(from/step-1e-9);i*step<=to+step*1e-9;i++)all.push(+(i*step).toPrecision(12))
 return all}
const logTicks=(from,to)=>{const low=Math.floor(Math.log10(from)),high=Math.ceil(Math.log10(to)),all=[]
 const every=Math.ceil((high-low)/8)
 for(let p=low;p<=high;p++)if(p%every===0)for(const k of high-low<=2?[1,2,5]:[1])all.push(+(k*10**p).toPrecision(12))
 return all.filter(v=>v>=from&&v<=to)}
// Index of the point nearest to x; points are in order of x.
const nearest=(points,x)=>{let a=0,b=points.length-1
 while(b-a>1){const m=(a+b)>>1;points[m][0]<x?a=m:b=m}
 return b<0?-1:Math.abs(points[a][0]-x)<=Math.abs(points[b][0]-x)?a:b}
// Points inside a range of x, and one more on each side, so that lines reach the edges.
const within=(points,from,to)=>{const a=points.findIndex(p=>p[0]>=from)
 if(a<0)return[]
 let b=points.length-1
 while(b>a&&points[b][0]>to)b--
 return points.slice(Math.max(0,a-1),b+2)}
// Range of all finite values inside, with a margin; above 0 for a logarithmic scale.
const rangeOf=(series,from,to,log)=>{let low=1e300,high=-1e300
 for(const s of series)for(const p of s.points)if(p[0]>=from&&p[0]<=to)for(const v of p.slice(1))
  if(v!==null&&(!log||v>0)){low=Math.min(low,v);high=Math.max(high,v)}
 if(low>high)return log?[1,10]:[0,1]
 if(log)return[low/1.1,high*1.1]
 const margin=(high-low)*.04||Math.abs(high)*.04||1
 return[low-margin,high+margin]}
const numberText=v=>v===null?'–':String(+v.toPrecision(6))
const tickText=v=>v!==0&&(Math.abs(v)<1e-4||Math.abs(v)>=1e6)?v.toExponential():String(v)
const safe=text=>String(text).replace(/[&<>"']/g,c=>'&#'+c.charCodeAt(0)+';')
`

const DRAWING = `
const DASHES=['','8 3','2 3','8 3 2 3','14 4','5 2 2 2 2 2'],MOST_MARKS=60,LEFT=58,RIGHT=14,TOP=16,BOTTOM=40
const lineTo=points=>{let pen='M'
 return points.map(([x,y])=>{const at=y===null?'':pen+x.toFixed(1)+' '+y.toFixed(1);pen=y===null?'M':'L';return at}).join('')}

const begin=(box,number)=>{
 const chart=JSON.parse(box.querySelector('script').textContent),key='chart '+number
 const xs=chart.series.flatMap(s=>s.points.map(p=>p[0])),first=xs.reduce((a,b)=>Math.min(a,b),1e300),end=xs.reduce((a,b)=>Math.max(a,b),-1e300)
 if(xs.length===0)return
 const last=Math.max(end,first+1),state={from:first,to:last,log:!!chart.log,smooth:0,hidden:[],at:null}
 let isAll=true
 try{const kept=JSON.parse(sessionStorage.getItem(key));if(kept){Object.assign(state,kept);isAll=kept.isAll;if(isAll){state.from=first;state.to=last}}}catch{}
 const keep=()=>{try{sessionStorage.setItem(key,JSON.stringify({...state,at:null,isAll}))}catch{}}
 box.innerHTML='<div class="tools"><b>'+safe(chart.title)+'</b><label><input type="checkbox" class="log"> log scale</label>'
  +'<label>smoothing <input type="range" class="smooth" min="0" max="0.99" step="0.01"> <output></output></label>'
  +'<span><button class="in">zoom in</button><button class="out">zoom out</button><button class="all">reset</button></span></div>'
  +'<div class="drawing" tabindex="0" role="group" aria-label="'+safe(chart.title)
  +': arrow keys move, plus and minus zoom, 0 resets"><div class="picture"></div><div class="tip" role="status" hidden></div></div><p class="keys"></p>'
 const part=name=>box.querySelector('.'+name),picture=part('picture'),tip=part('tip'),drawing=part('drawing'),keys=part('keys')
 let map=null,pressed=null

 const isShown=s=>!state.hidden.includes(s.name)
 const shown=()=>chart.series.filter(isShown)
 const densest=()=>shown().reduce((a,s)=>!s.reference&&s.points.length>a.points.length?s:a,{points:[]})
 const colour=s=>s.reference?'var(--soft)':'var(--s'+chart.series.indexOf(s)%12+')'
 const dash=s=>s.reference?'5 4':DASHES[chart.series.indexOf(s)%DASHES.length]

 const draw=()=>{
  const width=Math.max(240,drawing.clientWidth),height=width<480?240:300,bottom=height-BOTTOM,right=width-RIGHT
  const [low,high]=rangeOf(shown(),state.from,state.to,state.log),up=state.log?Math.log10:v=>v
  const x=v=>LEFT+(v-state.from)/(state.to-state.from)*(right-LEFT)
  const y=v=>bottom-(up(v)-up(low))/(up(high)-up(low))*(bottom-TOP)
  map={x,width,right,bottom,valueAt:px=>state.from+(px-LEFT)/(right-LEFT)*(state.to-state.from),y}
  const text=(px,py,anchor,t)=>'<text x="'+px.toFixed(1)+'" y="'+py.toFixed(1)+'" text-anchor="'+anchor+'">'+safe(t)+'</text>'
  let marksBelow=0,odd=0
  let out=''
  for(const v of state.log?logTicks(low,high):ticks(low,high,6))
   out+='<path d="M'+LEFT+' '+y(v).toFixed(1)+'H'+right+'" stroke="var(--line)"/>'+text(LEFT-8,y(v)+4,'end',tickText(v))
  for(const v of ticks(state.from,state.to,Math.max(2,Math.floor(width/110)),1))out+=text(x(v),bottom+17,'middle',tickText(v))
  out+='<path d="M'+LEFT+' '+TOP+'V'+bottom+'H'+right+'" fill="none" stroke="var(--soft)"/>'+text((LEFT+right)/2,bottom+34,'middle',chart.x)
   +'<clipPath id="clip'+number+'"><rect x="'+(LEFT-4)+'" y="'+(TOP-4)+'" width="'+(right-LEFT+8)+'" height="'+(bottom-TOP+8)+'"/></clipPath><g clip-path="url(#clip'+number+')">'
  for(const s of shown()){
   const c=colour(s),isSmooth=state.smooth>0&&!s.reference,visible=v=>v!==null&&(!state.log||v>0)
   const path=(points,style)=>'<path d="'+lineTo(points.map(p=>[x(p[0]),visible(p[1])?y(p[1]):null]))+'" fill="none" stroke="'+c+'" '+style+'/>'
   const own=within(s.points,state.from,state.to),band=own.filter(p=>p.length>2&&visible(p[2])&&visible(p[3]))
   if(band.length>1)out+='<path d="M'+[...band.map(p=>x(p[0]).toFixed(1)+' '+y(p[3]).toFixed(1)),...band.reverse().map(p=>x(p[0]).toFixed(1)+' '+y(p[2]).toFixed(1))].join('L')
    +'z" fill="'+c+'" fill-opacity=".16"/>'
   const stroke='stroke-width="'+(s.reference?1.2:2)+'" stroke-dasharray="'+dash(s)+'"'
   out+=path(own,isSmooth?'stroke-width="1" stroke-opacity=".35"':stroke)
   if(isSmooth)out+=path(within(smooth(s.points,state.smooth),state.from,state.to),stroke)
   else if(!s.reference&&own.length<=MOST_MARKS)for(const p of own)if(visible(p[1]))out+='<circle cx="'+x(p[0]).toFixed(1)+'" cy="'+y(p[1]).toFixed(1)+'" r="2.6" fill="'+c+'"/>'
   for(const p of own)if(state.log&&p[1]!==null&&p[1]<=0){marksBelow++;out+='<path d="M'+x(p[0]).toFixed(1)+' '+bottom+'l-4 -7h8z" fill="'+c+'"/>'}
   for(const at of s.odd||[])if(at>=state.from&&at<=state.to){odd++;out+='<path d="M'+x(at).toFixed(1)+' '+TOP+'m-4 -4l8 8m0 -8l-8 8" stroke="'+c+'" stroke-width="2"/>'}
  }
  picture.innerHTML='<svg viewBox="0 0 '+width+' '+height+'" role="img" aria-label="'+safe(chart.title+': '+chart.y+' over '+chart.x)+'" font-size="12" fill="currentColor">'
   +out+'</g><g class="cursor"></g></svg>'
  keys.innerHTML=chart.series.map((s,i)=>'<button class="key" data-i="'+i+'" aria-pressed="'+isShown(s)+'"><svg viewBox="0 0 26 10" role="img" aria-label="line"><path d="M0 5h26" stroke="'+colour(s)
   +'" stroke-width="3" stroke-dasharray="'+dash(s)+'"/></svg>'+safe(s.name)+'</button>').join('')
   +(odd?'<span>× not finite: '+odd+'</span>':'')+(marksBelow?'<span>▼ 0 or less, not on a log scale: '+marksBelow+'</span>':'')
  part('log').checked=state.log;part('smooth').value=state.smooth;part('tools').querySelector('output').textContent=state.smooth?state.smooth.toFixed(2):'off'
  point()
  keep()
 }

 // The values at the cursor.
 const point=()=>{
  const cursor=picture.querySelector('.cursor'),at=state.at
  tip.hidden=at===null||at<state.from||at>state.to
  if(tip.hidden){cursor.innerHTML='';return}
  let rows='',dots='<path d="M'+map.x(at).toFixed(1)+' '+TOP+'V'+map.bottom+'" stroke="var(--soft)"/>'
  for(const s of shown()){
   const i=nearest(s.points,at),p=s.points[i]
   if(!p)continue
   const [px,py,least,most]=p,soft=state.smooth>0&&!s.reference?smooth(s.points.slice(0,i+1),state.smooth)[i][1]:null
   const value=numberText(py)+(least!==most?' ('+numberText(least)+' to '+numberText(most)+')':'')+(soft===null?'':', smoothed '+numberText(soft))
   rows+='<div><i style="background:'+colour(s)+'"></i>'+safe(s.name)+(px===at||s.reference?'':' at '+px)+': <b>'+value+'</b></div>'
   if(py!==null&&(!state.log||py>0))dots+='<circle cx="'+map.x(px).toFixed(1)+'" cy="'+map.y(py).toFixed(1)+'" r="4" fill="'+colour(s)+'" stroke="var(--panel)"/>'
  }
  tip.innerHTML='<div>'+safe(chart.x)+' '+at+'</div>'+rows
  cursor.innerHTML=dots
  const left=map.x(at),wide=tip.offsetWidth
  tip.style.left=Math.max(0,Math.min(map.width-wide,left>map.width/2?left-wide-12:left+12))+'px'
 }
 const moveTo=x=>{const {points}=densest(),i=nearest(points,Math.min(state.to,Math.max(state.from,x)));state.at=i<0?null:points[i][0];point()}
 const zoom=(from,to)=>{from=Math.max(first,from);to=Math.min(last,to);if(to-from<(last-first)*1e-4)return
  state.from=from;state.to=to;isAll=from===first&&to===last;draw()}
 const zoomBy=factor=>{const middle=state.at===null?(state.from+state.to)/2:state.at,half=(state.to-state.from)*factor/2;zoom(middle-half,middle+half)}
 const reset=()=>zoom(first,last)
 const pixel=e=>e.clientX-picture.getBoundingClientRect().left

 drawing.onpointerdown=e=>{pressed=pixel(e);if(e.pointerType==='mouse')drawing.setPointerCapture(e.pointerId)}
 drawing.onpointermove=e=>{const at=pixel(e)
  moveTo(map.valueAt(at))
  if(pressed!==null)picture.querySelector('.cursor').innerHTML+='<rect x="'+Math.min(at,pressed)+'" y="'+TOP+'" width="'+Math.abs(at-pressed)+'" height="'+(map.bottom-TOP)+'" fill="var(--accent)" fill-opacity=".15"/>'}
 drawing.onpointerup=e=>{const at=pixel(e),from=pressed;pressed=null
  if(from!==null&&Math.abs(at-from)>8)zoom(...[map.valueAt(from),map.valueAt(at)].sort((a,b)=>a-b));else moveTo(map.valueAt(at))}
 drawing.onpointercancel=()=>{pressed=null}
 drawing.onpointerleave=e=>{if(pressed===null&&e.pointerType==='mouse'){state.at=null;point()}}
 drawing.ondblclick=reset
 drawing.onfocus=()=>{if(drawing.matches(':focus-visible')&&state.at===null)moveTo(state.to)}
 drawing.onblur=()=>{state.at=null;point()}
 drawing.onkeydown=e=>{
  const {points}=densest(),i=state.at===null?points.length-1:nearest(points,state.at),by=e.shiftKey?10:1
  const go=k=>{const p=points[Math.min(points.length-1,Math.max(0,k))];if(!p)return
   const span=state.to-state.from,from=p[0]<state.from?p[0]:p[0]>state.to?p[0]-span:state.from
   state.at=p[0];from===state.from?point():zoom(from,from+span)}
  const act={ArrowLeft:()=>go(i-by),ArrowRight:()=>go(i+by),Home:()=>go(0),End:()=>go(points.length-1),'+':()=>zoomBy(.5),'=':()=>zoomBy(.5),'-':()=>zoomBy(2),0:reset,Escape:reset}[e.key]
  if(act&&!e.ctrlKey&&!e.metaKey&&!e.altKey){e.preventDefault();act()}}
 part('log').onchange=e=>{state.log=e.target.checked;draw()}
 part('smooth').oninput=e=>{state.smooth=+e.target.value;draw()}
 part('in').onclick=()=>zoomBy(.5)
 part('out').onclick=()=>zoomBy(2)
 part('all').onclick=reset
 keys.onclick=e=>{const button=e.target.closest('button');if(!button)return
  const {name}=chart.series[+button.dataset.i]
  state.hidden=state.hidden.includes(name)?state.hidden.filter(n=>n!==name):[...state.hidden,name];draw()
  keys.querySelector('[data-i="'+button.dataset.i+'"]').focus()}
 new ResizeObserver(()=>draw()).observe(drawing)
}
document.querySelectorAll('.chart').forEach(begin)
`

/** The script of all charts of a page. */
export const CHART_SCRIPT = `{${CHART_NUMBERS}${DRAWING}}`

/** The style of charts, beside that of the page. */
export const CHART_STYLE = `
.chart .tools{display:flex;flex-wrap:wrap;gap:4px 18px;align-items:center;margin:2px 0 6px}.chart .tools output{display:inline-block;min-width:2.2em}
.chart .tools b{color:var(--ink);font-weight:600;overflow-wrap:anywhere}
.chart .tools input[type=range]{width:110px;vertical-align:middle}.chart .tools input{accent-color:var(--accent)}
.drawing{position:relative;touch-action:pan-y;cursor:crosshair;user-select:none;-webkit-user-select:none}
.chart .tip{top:20px;width:auto;max-width:min(330px,90%)}.chart .tip i{display:inline-block;width:9px;height:9px;border-radius:2px;margin-right:6px}
.keys{display:flex;flex-wrap:wrap;gap:4px 8px;margin:4px 0;font-size:13px;color:var(--soft);align-items:center}
button.key{width:auto;height:auto;margin:0;font-size:13px;overflow-wrap:anywhere;text-align:left}button.key svg{display:inline-block;width:26px;height:10px;margin-right:7px}
button.key[aria-pressed=false]{opacity:.45;text-decoration:line-through}
`
