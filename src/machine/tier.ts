// The lower tier: the place of values away from the device. In: the users' text. Out: a Tier. Invariant: code after this file does not see the text.

/** Host memory, or a file in a folder. */
export type Tier = { readonly kind: 'memory' } | { readonly kind: 'disk'; readonly folder: string }

/** 'ram', or nothing: memory; else the folder of the spill file. */
export const tierOf = (spill: string | undefined): Tier =>
  spill === undefined || spill === 'ram' ? { kind: 'memory' } : { kind: 'disk', folder: spill }
