// The page of a run: its reports so far, beside its plan. In: those, as data. Out: one HTML page, which needs no network and reloads itself during
// the run. Invariant: every drawing has its numbers in a table, too, so that it needs neither eyes nor colours.
import { CHART_SCRIPT, CHART_STYLE } from './chart'
import { planParts } from './html'
import { escapeHtml, page } from './page'
import { section, tableOf } from './runcharts'
import { cards, head } from './runhead'
import { losses, memory, metrics, rates, time } from './runmetrics'
import { classes, worst } from './runsamples'
import type { RunView } from './runview'

const recipe = ({ recipe: facts = {} }: RunView): string =>
  Object.keys(facts).length === 0
    ? ''
    : section(
        'recipe',
        'Recipe',
        'The command, the options, the machine and the data of this run.',
        `<div class="recipe">${tableOf(
          'Recipe',
          ['name', 'value'],
          Object.entries(facts).map(([name, value]) => [escapeHtml(name), escapeHtml(value)]),
        )}</div>`,
      )

/** Reloads itself, unless that is switched off; opened parts stay open. */
const RELOAD = `
const state=q('.state'),silent=(Date.now()-Date.parse(state.dataset.written))/6e4
if(silent>10)state.append(' It was last updated '+Math.round(silent)+' minutes ago: a step is slow, or the process has ended.')
const live=q('#live'),kept=sessionStorage,opened=()=>[...document.querySelectorAll('details')].filter(d=>d.open).map(d=>d.id)
for(const id of JSON.parse(kept.getItem('opened')||'[]')){const d=document.getElementById(id);if(d)d.open=true}
if(live){live.checked=kept.getItem('live')!=='no';live.onchange=()=>kept.setItem('live',live.checked?'yes':'no')
 setInterval(()=>{if(!live.checked||document.hidden)return;kept.setItem('opened',JSON.stringify(opened()));location.reload()},10000)}
`

const PLAN_WORDS = 'The rest of the page shows the plan, with predicted times.'

/** The plan's part of a run's page: made once, because it does not change. */
export const planPart = ({ plan, timeline, staging }: Pick<RunView, 'plan' | 'timeline' | 'staging'>) =>
  planParts(plan, timeline, staging)

/** The page of a run. */
export const runHtml = (v: RunView, part = planPart(v)): string =>
  page(
    `${v.end === undefined ? 'running: ' : ''}${v.plan.graph.name}, a Spillway run`,
    [
      head(v),
      cards(v),
      losses(v),
      metrics(v),
      rates(v),
      time(v),
      memory(v),
      classes(v),
      worst(v),
      recipe(v),
      section('plan', 'The plan', PLAN_WORDS),
      part.html,
    ].join('\n'),
    { plan: part.data, script: RELOAD + CHART_SCRIPT, style: CHART_STYLE },
  )
