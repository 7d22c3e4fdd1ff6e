// The strategies that plan a step without a backward pass: there is nothing to be kept for one. By themselves, for whoever lists them.
export const PREDICTING: readonly string[] = ['in-core', 'tiled', 'auto']
