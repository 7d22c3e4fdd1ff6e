// The commands and their purposes, in the order of the help. Nothing else is here, so that the help and a misspelt command cost nothing.
export const COMMANDS = {
  new: 'start a project from a template that trains at once',
  models: 'list the networks of the zoo: name, parameters, layers, input, loss',
  plan: 'plan a step of a model in a memory budget, and explain the plan',
  fits: 'find the largest batch and image in a memory budget, and the changes with which a step fits',
  train: 'train a model in a memory budget',
  'lr-find': 'find a learning rate: raise it from step to step until the loss diverges',
  runs: 'list the runs of this folder, or show one: state, steps, loss, best metric, options',
  'compare-runs': 'compare the options, results and curves of runs',
  evaluate: 'measure the loss and metrics of trained weights on data',
  predict: 'run trained weights on images',
  view: 'write a page that shows a slide and its predictions at any zoom',
  check: 'check the types and the shapes of a model file; report faults with line and column',
  verify: 'verify a plan file, independently of the planner',
  compare: 'compare all strategies over a range of budgets',
  export: 'write a model and its weights as ONNX',
  import: 'write a model file and weights from an ONNX file or a PyTorch program',
  setup: 'make a GPU usable: find or fetch its libraries, then check this machine',
  doctor: 'check this machine: print each part, found or missing, and how to install it',
  completion: 'print a completion script for bash, zsh or fish',
} as const

export type CommandName = keyof typeof COMMANDS
