// Made by `spillway plan --emit`: do not edit, stage again. The plan of slides, 1x3x160x160, for ref.
// biome-ignore-all format: generated
import { planModule } from 'spillway'
import type model from './slides'

export default planModule<typeof model>()({
  model: 'slides',
  nets: [
    {
      kind: 'seq',
      layers: [
        {
          kind: 'conv2d',
          name: 'conv1',
          out: 8,
          kernel: 3,
          stride: 1,
          pad: 'same',
          dilation: 1,
          groups: 1,
          bias: true,
          init: 'fan-in-uniform',
        },
        { kind: 'relu', name: '' },
        {
          kind: 'conv2d',
          name: 'conv2',
          out: 8,
          kernel: 3,
          stride: 1,
          pad: 'same',
          dilation: 1,
          groups: 1,
          bias: true,
          init: 'fan-in-uniform',
        },
        { kind: 'relu', name: '' },
        { kind: 'maxPool', name: 'pool1', kernel: 2, stride: 2, pad: 0, ceil: false },
        {
          kind: 'conv2d',
          name: 'conv3',
          out: 16,
          kernel: 3,
          stride: 1,
          pad: 'same',
          dilation: 1,
          groups: 1,
          bias: true,
          init: 'fan-in-uniform',
        },
        { kind: 'relu', name: '' },
        {
          kind: 'conv2d',
          name: 'conv4',
          out: 16,
          kernel: 3,
          stride: 1,
          pad: 'same',
          dilation: 1,
          groups: 1,
          bias: true,
          init: 'fan-in-uniform',
        },
      ],
    },
  ],
  tensors: [
    { kind: 'fed', name: 'input', shape: [1, 3, 160, 160] },
    { kind: 'applied', net: 0, of: [0] },
    { kind: 'fed', name: 'target', shape: [1, 16, 80, 80] },
  ],
  objectives: [
    {
      name: 'model',
      over: [0],
      optimizer: { kind: 'sgd', lr: 0.001, momentum: 0.9, weightDecay: 0, nesterov: false },
      losses: { loss: [{ loss: 'mse', of: 1, to: 2, weight: 1 }] },
    },
  ],
  machine: 'ref',
  strategy: 'tiled',
  budget: 25165824,
  peak: 12582912,
  fingerprint: 'd1e14c93e9aa9379',
  segments: [{ phase: 'step', from: 'conv1', to: 'conv4', H: 2 }, { phase: 'update', from: 'conv1', to: 'conv4' }],
  checkpoints: [],
  swaps: [],
}, 'eNrVW9tu4zgSfd+vCPTatQ1W8SIqeWvswzwssIPFAv3QMBqKrSRGy5eV5O5pjAPs1+yH7ZcsSEsURUm2YjuTTNwXKSJPVR3WhRTp36OHTbFKq+g2KrfLPP+R/vzrNk/XEUTfs6JcbtbRrYBo/pTNv5W7VXQbZZQiJ6EZ3Sc6QxVBZDvc/h49Fun2yVys01VmEPPlIisNVJrvsjK6/eIeLdfbXRVBVGxy/7Z8SrdZdPsFgQMqZv7OIFpUP81vowclIoiWi+iWPYODmm/W3/Hjj2z5+OQhbtMiXXmIGrj59NHWy8qovFiWhoTdemkIiSBKo1v2ERMSkjGdxJToWJJ6PsjHnvz7ZVoekX4luWTkmgsOjfgiy3et4HReLb+nlRk3n009wmZgBk2gUZ9DI8ZaInKGSRzLOOG1OaIn/8o0jsiVDY0KOuIv4tHgxZ1hmYKnGegxNO3QtptNjhegeUbyk2OM6qqDnPQUOD7IqK4kGFlDJGJnXPhJJg0Fp6kUU6hEdQaXTPPuT2MS9VS4MpmjkrkjU3SCRlyBzCotHjOPRnd/EqRWzgU0thGdb0qPmPrOAY6EHMZd4z4+FumiRTF3y2w9UTXT+h8PhjEHr2HIgSZIGXUkJ8TVBkyg7yJTRIxju8En1o2k6/CDDh6hmyoWv50H7gAJhpLfJML1Ub4TJ4JDP71dRrdLXCS6JWAK3foE29qBy261ugZ47MCD0joNfGzO18ArBx/D0MTltBR9YlhdqJKG/tRkAv4osstRlHR4vw4zLkI5g+7M9GQInZrUcIShufYUrvnxlOUkEPRn05dwTSOV+uNqs8rW1W7V4pZVWmXnlOz5Zl1WqVUotSuSgyl8sEJPEnymRDEyw5tmrL7AVjk4tXtNW9XIimWCTH2RqfHgUmWK2DMF6pEl7iRL+QWWJoNr29ezVLhqJzCodts8nWflyQkm9YrSklP0PINosz28dbDvDCD6tlwvmvFbfK1Xznn6MysaW83bjKe0tCZsih9pYTJQWlVFaewoq2K5yH6JbhHq68/2epsu/rXZNpd/zx6q5vrTpqo2q+bun3a1YG4Wy9za8Uvn7oD2WGx2Rm8jJN8YeyxVa2MKAwQyhu0qc8tnbtIXWBcYRu/KMGcOBwGyNUc5c8iZs0p/+2q8wTOoWQ0fMehbVqyz/JcDkL3+bK+doeQZSq2hzDOUQTTPlrlPv2p1jWfeu5hA16/Ocd+VygKdzsLpHERB897imLOEThm3IrSTICeEG3/v4aYhAWStedgyqI4HnHifAYcISIDcM0nMvLdXjSOXmWdPvXZuzKlvnS3zzW5tdGEkGIOofidi5LuE71GKAtALeWxjXvviv97/WIyrcJ/Ov4WUXqZGG85J6Lj3PxZfD2jlkUEeUuktR9kLStSASVsp2kJYPh5z2912cSjwzp68sK+IGELkpgO37GPSsP23bJ7+tFlonZVVVmy+dyjngAlw0So281/Q9UlfpFX6Z2E8BvTqMrHWNHoruglQA+dDdPNO+g9iLczMgzyHmRIRyEuU1CZKFNMDir/T4dVA6BlHQN7MSx4ZYP6aA8yAOHA1NMBqYjy9V8IJIfEIb2sUxm/EdgJEwOUQ2fpYNIUTqknRpIG8NEly5r/bHZ5sBmLDCeeQ2OvOOM0ucbpeZ3lpS3n2W5WtKzPaijV3n+2ds1IgkEcoedN/Nj1n0Dt1YQ7khSbFQO3kmPCIF9MrerEE0sD1gBcTTUwZ75VvUuDHTDvhIf5GZAugGHg8RLY4VYDxpSmDA3kZk7cTEJLTYwnf6dgy4N7kgiNwmvk7DaPDi69Zf8EokgwNb/xGKhFwAsF8lWbPdqjSKnv8abZWl3lmNFql86fl+rAH8WAUyB83xbJ6WpWmtGRpuStsu/vd4jGrPv2szPkdkqikNs67zdJvv6aP5pcKomqZFXUTBlGZPRrFO+d9rOE3//vPf2+ClVxZZVv74t7w9nv0yTrAofR8PnjA/Wbx00LVpafMl/P6MNGn6PaLeSU2m9k+5lqrGXyJhd3OmFkM28LcPcN6l+eHf4b7StNXDva1Y1u7+AkNjqCc1ECYvuq4BnRSgyMow3IFzeALN5t7XgfdkcrfRKo4JXUc48UyTRD9auZS9fkyI19eIP/EWAs0PZNj1quT0kcxTkpnM/gi2DHp8UnpoxgvlWkVdYL1Hyj4XHKSC4bmHHK6DCFeQNFFLon86oZfrb0fwegUvn4KmRB0LV8Xx/C5qRP1H5c7L8m17Uglb63wtPLLLpoBvLx29p2KLpsCXDgDIvEKBFy1x6B7kbxo7njBXM8q9C3L6s1oexr+kBlWm4Xd116YqXajnOli5DXt9MR2ybR2xnkmteMT28UT2020g+PEdkftmIXHcOziY3T91Vt/4PD6A93M8HDe0l5JdxU7Z2vdjrsr5a5i3yOse5TVpjisp9rjCnl6n+XNod6syoryJl0vbppzF/eHFZfSmtm3cHle1sch7LY6KIjN2S4GzaYf2E0vc7zJbFdo/+xAI6pcpXl+U39fw4nggivtiUiAGBCCfREOJIAkUGfzvsEzy83yZvNwUy8Kb1iLSopJZUaxwbXvyIAS4MwurQk4By6AS+AKeAxcA09AmJoJgkBwEAKEBKFAxCA0iAQkA4kgCSQHKUBKkApkZ7e+Ua751klDJArhM8n83XJnUHM0ue6kMSG/U2JHs97/N2NZD6wVvHl4KLOqXl64B2zCA4xJjz9LaOyZEoyNP1NiFFMqPa6M1GxUGy5IdHuKCfZZDxt/KPiohZL0uBmSkiPcEI2boYgfDpsNPlSJGJWpYnYEVscBLI6xgz4BiDT2EHXIjt+TJ1qMPaRYCT0uk7PRnpxIqvGeoQfQmI3eAx2z0Fe9p4hInM7sfAKaaSnEuZJRcrJ7Guc9TgTGFzyWxNj5qkkmg+gIHsdn201coTp7OBEJZRAnwWMVBP0LwDnF/AgtsWCane1pMgz+4GlM5yGTYixRLw+rXuGgoHDMICqycrnI1vNlWLIYRA+FeXvPIKo2NsjT+b93y+LwrMjyzM6jYglRsVsfem+brs2BnMNczM8U54LiKCifCKokRPkmtXO9IkvNzC5pukblZlfMs+i5J5dG5VIglzy5iS837oFyB0oBqDhijDlt4FCF7lljVhWnzJEdc2bmrqzs7sPDMs/3bL/XezP/+cjMDzKUif8DDMwOg2t7OG3s9xCceo100IhQho1QdcTy/vMeCudM9FsdDvB7zaRisW+CDPt0BDMcstc7xrhHCD9sb76zrO2K+66m5E7v7Tdm7Ppwjx8Y4Ac8CEISOiamwcSgB99H9iDuahYbXNHH5ahQKqZBqPiA2xwT2BMcPsx8OgCgzWxasz37wIB9YA0XQgvNB1gLTh4cQ6YRZB7rGszy6SvRXjWtURHpyaNQ975rvOUO1d5+T0yghe8MgxRakeffkHAhTo1Hg3XnXK2VwXoyKNFMKeZ+OKCWqmayzPb1gcWD8g3EnY/miJDIGWuiIp3Pd6tdnlaZ8d/AgxU4AWa7d4KQ9rIBUihFl3Vv4/gEMR5wh6OpxHSMcwE9ENooNPGBaO0ChKklUX3DzFGHUatYZ7hH/YmSmAlU2rOk2d/fsz5B2DKPPvOCmH4h9c7rPWA/ALpezzWSVK2zB3Trhu0w3cYJ0guZQz8W/TDvakSxIuUGUreqdfhrrRzPFmZaKoYzlcXpZKv2y29tsgrQ61wWZrAEpXrpENVp3EP1MvrxNO6PUFNM+0VVCClPBIMOirvQLxjQRu+mEo3WN46CMSmpNSAYR58K6cpQfdnop2N8YRi4EuyhedW4W4JJJcovwV2Oec1xOLshCrPH2VMC9gFfZUrQwe370sU1tKv369TQjoxjpeJatekcgWfWjEBUr2ZcJ+cHoxTm/EsTeAA/msCvkh2nefTZuSuAD3PXVZJPEOxh8ikfF/vDwS9z2stOpNWd/bP38zXpJl8PdWjduXfloQgSMR1DaVwouPAgCGOuRiH0nb7THbVRiPHWzSh3//f6I5r9h/H+NcXd/335Qte0PT8//+X/3/t04A==')
