// The strategies for a step without a backward pass, which keeps no values. They have a file of their own, so that lists need not import the
// planners.
export const PREDICTING: readonly string[] = ['in-core', 'tiled', 'auto']
