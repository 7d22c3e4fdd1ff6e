// The lower tier: where values lie while they are off the device. In: what users write. Out: a Tier. Invariant: nobody behind
// this file asks what the text was.

/** Host memory, or a file in a folder. */
export type Tier = { readonly kind: 'memory' } | { readonly kind: 'disk'; readonly folder: string }

/** 'ram', or nothing: memory; else the folder of the spill file. */
export const tierOf = (spill: string | undefined): Tier =>
  spill === undefined || spill === 'ram' ? { kind: 'memory' } : { kind: 'disk', folder: spill }
