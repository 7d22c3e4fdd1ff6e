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
}, 'eNrVW1tv47oRfu+vCPS60wVneBGVvC36cAoU6EFRYB8WxkKxlcRY+VJJ3j2L4wD9Nf1h/SUFaYmiKMlWbOckjfciReQ3Mx/nQor079HDplilVXQbldtlnv9If/55m6frCKLvWVEuN+voVkE0f8rm38rdKrqN5vF9Ju7TeB7LWDG9iCCyHW5/jx6LdPtkLtbpKjOI+XKRlQYqzXdZGd1+cY+W6+2uiiAqNrl/Wz6l2yy6/YLAARUzf2cQLaqf5rfRgxIRRMtFdMuewUHNN+vv+PFHtnx88hC3aZGuPEQN3Hz6aOtlZVReLEtDwm69NIREEKXRLfuICQnJmE5iSnQsST0f5GNP/v0yLY9Iv5JcMnLNBYdGfJHlu1ZwOq+W39PKjJvPph5hMzCDJtCoz6ERYy0ROcMkjmWc8Noc0ZN/ZRpH5MqGRgUd8RfxaPDizrBMwdMM9BiadmjbzSbHC9A8I/nJMUZ11UFOegocH2RUVxKMrCESsTMu/CSThoLTVIopVKI6g0umefenMYl6KlyZzFHJ3JEpOkEjrkBmlRaPmUejuz8JUivnAhrbiM43pUdMfecAR0IO465xHx+LdNGimLtltp6ommn99wfDmIPXMORAE6SMOpIT4moDJtB3kSkixrHd4BPrRtJ1+EEHj9BNFYvfzgN3gARDyW8S4foo34kTwaGf3i6j2yUuEt0SMIVufYJt7cBlt1pdAzx24EFpnQY+Nudr4JWDj2Fo4nJaij4xrC5USUN/ajIBfxTZ5ShKOrxfhxkXoZxBd2Z6MoROTWo4wtBcewrX/HjKchII+rPpS7imkUr9cbVZZetqt2pxyyqtsnNK9nyzLqvUKpTaFcnBFD5YoScJPlOiGJnhTTNWX2CrHJzavaatamTFMkGmvsjUeHCpMkXsmQL1yBJ3kqX8AkuTwbXt61kqXLUTGFS7bZ7Os/LkBJN6RWnJKXqeQbTZHt462HcGEH1brhfN+C2+1ivnPP2ZFY2t5m3GU1paEzbFj7QwGSitqqI0dpRVsVxkv0S3CPX1Z3u9TRf/3Gyby79lD1Vz/WlTVZtVc/cPu1owN4tlbu34pXN3QHssNjujtxGSb4w9lqq1MYUBAhnDdpW55TM36QusCwyjd2WYM4eDANmao5w55MxZpb99Nd7gGdSsho8Y9C0r1ln+ywHIXn+2185Q8gyl1lDmGcogmmfL3KdftbrGM+9dTKDrV+e470plgU5n4XQOoqB5b3HMWUKnjFsR2kmQE8KNv/dw05AAstY8bBlUxwNOvM+AQwQkQO6ZJGbe26vGkcvMs6deOzfm1LfOlvlmtza6MBKMQVS/EzHyXcL3KEUB6IU8tjGvffFf738sxlW4T+ffQkovU6MN5yR03Psfi68HtPLIIA+p9Jaj7AUlasCkrRRtISwfj7ntbrs4FHhnT17YV0QMIXLTgVv2MWnY/ks2T3/aLLTOyiorNt87lHPABLhoFZv5L+j6pC/SKv1/YTwG9OoysdY0eiu6CVAD50N08076D2ItzMyDPIeZEhHIS5TUJkoU0wOKv9Ph1UDoGUdA3sxLHhlg/poDzIA4cDU0wGpiPL1Xwgkh8QhvaxTGb8R2AkTA5RDZ+lg0hROqSdGkgbw0SXLmv9sdnmwGYsMJ55DY6844zS5xul5neWlLefZbla0rM9qKNXef7Z2zUiCQRyh50382PWfQO3VhDuSFJsVA7eSY8IgX0yt6sQTSwPWAFxNNTBnvlW9S4MdMO+Eh/kZkC6AYeDxEtjhVgPGlKYMDeRmTtxMQktNjCd/p2DLg3uSCI3Ca+TsNo8OLr1l/wSiSDA1v/EYqEXACwXyVZs92qNIqe/xptlaXeWY0WqXzp+X6sAfxYBTIHzfFsnpalaa0ZGm5K2y7+93iMas+/azM+R2SqKQ2zrvN0m+/po/mlwqiapkVdRMGUZk9GsU7532s4Tf//fd/boKVXFllW/vi3vD2e/TJOsCh9Hw+eMD9ZvHTQtWlp8yX8/ow0afo9ot5JTab2T7mWqsZfImF3c6YWQzbwtw9w3qX54d/hvtK01cO9rVjW7v4CQ2OoJzUQJi+6rgGdFKDIyjDcgXN4As3m3teB92Ryt9EqjgldRzjxTJNEP1q5lL1+TIjX14g/8RYCzQ9k2PWq5PSRzFOSmcz+CLYMenxSemjGC+VaRV1gvUfKPhccpILhuYccroMIV5A0UUuifzqhl+tvR/B6BS+fgqZEHQtXxfH8LmpE/UflzsvybXtSCVvrfC08ssumgG8vHb2nYoumwJcOAMi8QoEXLXHoHuRvGjueMFczyr0LcvqzWh7Gv6QGVZZ8WhnwXZfvdHO9DECm4Z6asNkYkPjP9Ma8qkN46kNpxpjTh1Na3jcmFl4HseuQkYXYr2FCA4vRNBNEQ8HL+2VdFex87rW/7i7Uu4q9l3D+klZbYrDwqo9t5Cn91nenO7Nqqwob9L14qY5gHF/WHoprZl9HZfnZX0uwu6vg4LYHPJi0Oz+gd39MueczL6F9g8RNKLKVZrnN/UXN5wILrjSnogEiAEh2DfiQAJIAnV28Rs8s+4sbzYPN/Xq8Ia1qKSYVGYYG1z7sgwoAc7sGpuAc+ACuASugMfANfAEhCmeIAgEByFASBAKRAxCg0hAMpAIkkBykAKkBKlAdrbtG+War580RKIQPpPM3zZ3BjVnlOtOGhPyOyV2NOuDAGYs64G1gjcPD2VW1esM94BNeIAx6fFnCY09U4Kx8WdKjGJKpceVkZqNasMFiW5PMcE+62HjDwUftVCSHjdDUnKEG6JxMxTxw6mzwYcqEaMyVcyOwOo4gMUxdtAnAJHGHqIO2fF78kSLsYcUK6HHZXI22pMTSTXeM/QAGrPRe6BjFvqq9xQRidOZnU9AMy2FOFcySk52c+O8x4nA+ILHkhg7XzXJZBAdweP4bLuJK1RnDycioQziJHisgqB/ATinmB+hJRZMs7M9TYbBHzyN6TxkUowl6uVh1SscFBSOGURFVi4X2Xq+DEsWg+ihMK/xGUTVxgZ5Ov/XblkcnhVZntl5VCwhKnbrQ+9t07U5mXOYi/mZ4lxQHAXlE0GVWQ38SLd/td9cLbLUzO2SpnNUbnbFPIuee5JpVDIFksmTnPiS4x4od6AUgIoj5piDBw5V6AF7zBLjlEGyY9DM3JWV3Yp4WOb5nu33em/mQB+Z+UGGMvF/gIHZbnBtD0eP/R6CU6+RDhoRyrARqo5Y3n/eQ+GciX6rw2l+r5lULPZNkGGfjmCGQ/Z6Zxr3COGH7c0XmLVdft/VlNzpvf36jF0s7vEDA/yAB0FIQsfENJg49OD7yB7EXc1igyv6uBwVSsU0CBUfcJszA3uCw4eZTwcAtJlRa7ZnHxiwD6zhQmih+QBrwTGEY8g0gsxjXYNZPn0l2qumNSoiPXkU6t53jbfcodrbL40JtPCdYZBCK/L8GxIuxKnxaLDunKu1MlhPBiWaKcXcDwfUUtVMltm+Pr14UL6BuPPRHBESOWNNVNgF8NdytzLuGziwAodvtn4nyGgvGyCFUnRJ9zaRT/DiAXcomsyLZ5sL54HARqGJD8Rqp3+YVxLVN8scehi1iXXGetSZKImZQKU9O5qd/j3r04Mt7+jzLojpFxLvXN4D9r2/6/JcI0nVenqXbN1wHabaOEF6IXHox6Ef4l2FKFak3DDqVrMOfa2R45nCTEvFcJayOJ1M1X4Lrk1UAXqdx8LslaBULx2hOoV7qF42P5HC2wFq6mi/ngoh5fFI0EFZF/oFw9lo3dSg0crGUTAmJbXqB6PoEyFdAaovG/10jC+MAVd8PTSvDneLL6lE+cW3wzCvGQ6nNURh5jh7LsA+4KvMBTq4fUe6uHh29X6d4tmRcaxIXKsqnSPwzHoRiOrVi+vk+2CUwnx/afYO4Eez91VS4zSPPjt1BfBh6rpK7gmCPcw95eNifzj+Zc582Rm0urN/9n66Jt2k66EOrTv3rjwUQSKmYyiNCwUXHgRhzNUohL7Td7qjNgox3roZ5e7/Xn9Es/kw3r+muPu/L1/omrbn5+c//Q+/W3nR')
