// FNV-1a, 64 bits, in 32-bit halves: the checksum of tapes and plan files, the fingerprint of graphs.
// In: bytes or text (as UTF-8). Out: the hash as two unsigned halves or sixteen hex digits. Not a cryptographic hash.

export interface Hash64 {
  readonly hi: number
  readonly lo: number
}

export const fnv1a64 = (bytes: Uint8Array): Hash64 => {
  let hi = 0xcbf29ce4
  let lo = 0x84222325
  for (let i = 0; i < bytes.length; i++) {
    const x = (lo ^ bytes[i]!) >>> 0
    // The prime is 2^40 + 0x1b3, so the product modulo 2^64 is x * 0x1b3 + (x << 40) over both halves.
    const low = x * 0x1b3
    lo = low >>> 0
    hi = (Math.imul(hi, 0x1b3) + Math.floor(low / 0x100000000) + (x << 8)) >>> 0
  }
  return { hi, lo }
}

export const hashText = (text: string): string => {
  const { hi, lo } = fnv1a64(new TextEncoder().encode(text))
  return hi.toString(16).padStart(8, '0') + lo.toString(16).padStart(8, '0')
}
