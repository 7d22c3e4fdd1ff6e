// The commands and what each does, in the order of the help. Nothing else is here, so that the help and a misspelt command cost nothing.
export const COMMANDS = {
  models: 'the zoo: name, parameters, layers, input',
  plan: 'stage a model and explain the plan',
  train: 'stage a model, or take a plan, and train',
  evaluate: 'the loss and metrics of trained weights on data, in any budget',
  predict: 'run trained weights over images, in any budget',
  check: "check a model file: its types, and that it stages; with each fault's line and column",
  verify: 'check a plan file independently',
  compare: 'every strategy over a sweep of budgets',
  export: 'write a model with its weights as ONNX',
  import: 'make a model file, and weights, of an ONNX file',
  doctor: 'what this machine has, what is missing and how to get it',
  completion: "the shell's completion of all of this: bash, zsh or fish",
} as const

export type CommandName = keyof typeof COMMANDS
