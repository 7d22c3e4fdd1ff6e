// The strategies for a step without a backward pass, which keeps nothing. In a file of their own, for lists.
export const PREDICTING: readonly string[] = ['in-core', 'tiled', 'auto']
