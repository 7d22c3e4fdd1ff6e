// The published figures of today's systems, from peerfigures.json. In: nothing. Out: tables by system.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'

export interface MonetTable {
  readonly network: string
  readonly batch: number
  readonly size: readonly [number, number]
  /** GB without MONeT. */
  readonly base: number
  readonly rows: readonly (readonly [gb: number, overhead: number])[]
}
export type ShareRow = readonly [network: string, batch: number, size: number, share: number, overhead: number]
interface Shares {
  readonly source: string
  readonly of?: 'activations'
  readonly rows: readonly ShareRow[]
}
interface Peers {
  readonly MONeT: { readonly source: string; readonly card: string; readonly tables: readonly MonetTable[] }
  readonly POFO: Shares
  readonly HiRemate: Shares
  readonly MAGIS: Shares
  readonly Rotor: {
    readonly source: string
    readonly gain: number
    readonly networks: readonly (readonly [network: string, batch: number, size: number])[]
  }
}

export const PEERS = (JSON.parse(readFileSync(join(__dirname, 'peerfigures.json'), 'utf8')) as { readonly peers: Peers }).peers
