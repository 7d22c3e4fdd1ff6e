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
          kernel: 3,
          stride: 1,
          pad: 'same',
          dilation: 1,
          groups: 1,
          out: 8,
          bias: true,
          init: 'fan-in-uniform',
        },
        { kind: 'relu', name: '' },
        {
          kind: 'conv2d',
          name: 'conv2',
          kernel: 3,
          stride: 1,
          pad: 'same',
          dilation: 1,
          groups: 1,
          out: 8,
          bias: true,
          init: 'fan-in-uniform',
        },
        { kind: 'relu', name: '' },
        { kind: 'maxPool', name: 'pool1', kernel: 2, stride: 2, pad: 0, ceil: false },
        {
          kind: 'conv2d',
          name: 'conv3',
          kernel: 3,
          stride: 1,
          pad: 'same',
          dilation: 1,
          groups: 1,
          out: 16,
          bias: true,
          init: 'fan-in-uniform',
        },
        { kind: 'relu', name: '' },
        {
          kind: 'conv2d',
          name: 'conv4',
          kernel: 3,
          stride: 1,
          pad: 'same',
          dilation: 1,
          groups: 1,
          out: 16,
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
}, 'eNrVW1tv47oRfu+vCPS60wVneBGVvC36cAoU6EFRYB8WxkKxlcRY+VJJ3j2L4wD9Nf1h/SUFaYmiKMlWbOckjfciReQ3Mx/nQor079HDplilVXQbldtlnv9If/55m6frCKLvWVEuN+voNoZo/pTNv5W7VXQbzeP7TNyn8TyWsWJ6EUFkO9z+Hj0W6fbJXKzTVWYQ8+UiKw1Umu+yMrr94h4t19tdFUFUbHL/tnxKt1l0+wWBAypm/s4gWlQ/zW+jByUiiJaL6JY9g4Oab9bf8eOPbPn45CFu0yJdeYgauPn00dbLyqi8WJaGhN16aQiJIEqjW/YRExKSMZ3ElOhYkno+yMee/PtlWh6RfiW5ZOSaCw6N+CLLd63gdF4tv6eVGTefTT3CZmAGTaBRn0MjxloicoZJHMs44bU5oif/yjSOyJUNjQo64i/i0eDFnWGZgqcZ6DE07dC2m02OF6B5RvKTY4zqqoOc9BQ4PsioriQYWUMkYmdc+EkmDQWnqRRTqER1BpdM8+5PYxL1VLgymaOSuSNTdIJGXIHMKi0eM49Gd38SpFbOBTS2EZ1vSo+Y+s4BjoQcxl3jPj4W6aJFMXfLbD1RNdP67w+GMQevYciBJkgZdSQnxNUGTKDvIlNEjGO7wSfWjaTr8IMOHqGbKha/nQfuAAmGkt8kwvVRvhMngkM/vV1Gt0tcJLolYArd+gTb2oHLbrW6BnjswIPSOg18bM7XwCsHH8PQxOW0FH1iWF2okob+1GQC/iiyy1GUdHi/DjMuQjmD7sz0ZAidmtRwhKG59hSu+fGU5SQQ9GfTl3BNI5X642qzytbVbtXillVaZeeU7PlmXVapVSi1K5KDKXywQk8SfKZEMTLDm2asvsBWOTi1e01b1ciKZYJMfZGp8eBSZYrYMwXqkSXuJEv5BZYmg2vb17NUuGonMKh22zydZ+XJCSb1itKSU/Q8g2izPbx1sO8MIPq2XC+a8Vt8rVfOefozKxpbzduMp7S0JmyKH2lhMlBaVUVp7CirYrnIfoluEerrz/Z6my7+udk2l3/LHqrm+tOmqjar5u4fdrVgbhbL3NrxS+fugPZYbHZGbyMk3xh7LFVrYwoDBDKG7Spzy2du0hdYFxhG78owZw4HAbI1RzlzyJmzSn/7arzBM6hZDR8x6FtWrLP8lwOQvf5sr52h5BlKraHMM5RBNM+WuU+/anWNZ967mEDXr85x35XKAp3OwukcREHz3uKYs4ROGbcitJMgJ4Qbf+/hpiEBZK152DKojgeceJ8BhwhIgNwzScy8t1eNI5eZZ0+9dm7MqW+dLfPNbm10YSQYg6h+J2Lku4TvUYoC0At5bGNe++K/3v9YjKtwn86/hZRepkYbzknouPc/Fl8PaOWRQR5S6S1H2QtK1IBJWynaQlg+HnPb3XZxKPDOnrywr4gYQuSmA7fsY9Kw/Zdsnv60WWidlVVWbL53KOeACXDRKjbzX9D1SV+kVfr/wngM6NVlYq1p9FZ0E6AGzofo5p30H8RamJkHeQ4zJSKQlyipTZQopgcUf6fDq4HQM46AvJmXPDLA/DUHmAFx4GpogNXEeHqvhBNC4hHe1iiM34jtBIiAyyGy9bFoCidUk6JJA3lpkuTMf7c7PNkMxIYTziGx151xml3idL3O8tKW8uy3KltXZrQVa+4+2ztnpUAgj1Dypv9ses6gd+rCHMgLTYqB2skx4REvplf0YgmkgesBLyaamDLeK9+kwI+ZdsJD/I3IFkAx8HiIbHGqAONLUwYH8jImbycgJKfHEr7TsWXAvckFR+A083caRocXX7P+glEkGRre+I1UIuAEgvkqzZ7tUKVV9vjTbK0u88xotErnT8v1YQ/iwSiQP26KZfW0Kk1pydJyV9h297vFY1Z9+lmZ8zskUUltnHebpd9+TR/NLxVE1TIr6iYMojJ7NIp3zvtYw2/+++//3AQrubLKtvbFveHt9+iTdYBD6fl88ID7zeKnhapLT5kv5/Vhok/R7RfzSmw2s33MtVYz+BILu50xsxi2hbl7hvUuzw//DPeVpq8c7GvHtnbxExocQTmpgTB91XEN6KQGR1CG5QqawRduNve8Drojlb+JVHFK6jjGi2WaIPrVzKXq82VGvrxA/omxFmh6JsesVyelj2KclM5m8EWwY9Ljk9JHMV4q0yrqBOs/UPC55CQXDM055HQZQryAootcEvnVDb9aez+C0Sl8/RQyIehavi6O4XNTJ+o/LndekmvbkUreWuFp5ZddNAN4ee3sOxVdNgW4cAZE4hUIuGqPQfciedHc8YK5nlXoW5bVm9H2NPwhM6yy4tHOgu2+eqOd6WMENg311IbJxIbGf6Y15FMbxlMbTjXGnDqa1vC4MbPwPI5dhYwuxHoLERxeiKCbIh4OXtor6a5i53Wt/3F3pdxV7LuG9ZOy2hSHhVV7biFP77O8Od2bVVlR3qTrxU1zAOP+sPRSWjP7Oi7Py/pchN1fBwWxOeTFoNn9A7v7Zc45mX0L7R8iaESVqzTPb+ovbjgRXHClPREJEANCsG/EgQSQBOrs4jd4Zt1Z3mweburV4Q1rUUkxqcwwNrj2ZRlQApzZNTYB58AFcAlcAY+Ba+AJCFM8QRAIDkKAkCAUiBiEBpGAZCARJIHkIAVICVKB7GzbN8o1Xz9piEQhfCaZv23uDGrOKNedNCbkd0rsaNYHAcxY1gNrBW8eHsqsqtcZ7gGb8ABj0uPPEhp7pgRj48+UGMWUSo8rIzUb1YYLEt2eYoJ91sPGHwo+aqEkPW6GpOQIN0TjZijih1Nngw9VIkZlqpgdgdVxAItj7KBPACKNPUQdsuP35IkWYw8pVkKPy+RstCcnkmq8Z+gBNGaj90DHLPRV7ykiEqczO5+AZloKca5klJzs5sZ5jxOB8QWPJTF2vmqSySA6gsfx2XYTV6jOHk5EQhnESfBYBUH/AnBOMT9CSyyYZmd7mgyDP3ga03nIpBhL1MvDqlc4KCgcM4iKrFwusvV8GZYsBtFDYV7jM4iqjQ3ydP6v3bI4PCuyPLPzqFhCVOzWh97bpmtzMucwF/MzxbmgOArKJ4Iqsxr4kW7/ar+5WmSpmdslTeeo3OyKeRY99yTTqGQKJJMnOfElxz1Q7kApABVHzDEHDxyq0AP2mCXGKYNkx6CZuSsruxXxsMzzPdvv9d7MgT4y84MMZeL/AAOz3eDaHo4e+z0Ep14jHTQilGEjVB2xvP+8h8I5E/1Wh9P8XjOpWOybIMM+HcEMh+z1zjTuEcIP25svMGu7/L6rKbnTe/v1GbtY3OMHBvgBD4KQhI6JaTBx6MH3kT2Iu5rFBlf0cTkqlIppECo+4DZnBvYEhw8znw4AaDOj1mzPPjBgH1jDhdBC8wHWgmMIx5BpBJnHugazfPpKtFdNa1REevIo1L3vGm+5Q7W3XxoTaOE7wyCFVuT5NyRciFPj0WDdOVdrZbCeDEo0U4q5Hw6opaqZLLN9fXrxoHwDceejOSIkcsaaqLAL4K/lbmXcN3BgBQ7fbP1OkNFeNkAKpeiS7m0in+DFA+5QNJkXzzYXzgOBjUITH4jVTv8wrySqb5Y59DBqE+uM9agzURIzgUp7djQ7/XvWpwdb3tHnXRDTLyTeubwH7Ht/1+W5RpKq9fQu2brhOky1cYL0QuLQj0M/xLsKUaxIuWHUrWYd+lojxzOFmZaK4SxlcTqZqv0WXJuoAvQ6j4XZK0GpXjpCdQr3UL1sfiKFtwPU1NF+PRVCyuORoIOyLvQLhrPRuqlBo5WNo2BMSmrVD0bRJ0K6AlRfNvrpGF8YA674emheHe4WX1KJ8otvh2FeMxxOa4jCzHH2XIB9wFeZC3Rw+450cfHs6v06xbMj41iRuFZVOkfgmfUiENWrF9fJ98Eohfn+0uwdwI9m76ukxmkefXbqCuDD1HWV3BMEe5h7ysfF/nD8y5z5sjNodWf/7P10TbpJ10MdWnfuXXkogkRMx1AaFwouPAjCmKtRCH2n73RHbRRivHUzyt3/vf6IZvNhvH9Ncfd/X77QNW3Pz89/+h8KQHnS')
