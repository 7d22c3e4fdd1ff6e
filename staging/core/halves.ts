// The 16-bit types of activations.
export const HALVES = ['bf16', 'f16'] as const
export type Half = (typeof HALVES)[number]
export const isHalf = (dtype: string): dtype is Half => dtype === 'bf16' || dtype === 'f16'
