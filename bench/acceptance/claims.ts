// Output and memory of acceptance. In: claims, one after the other. Out: a line each, and the list for the results' file. Invariant: a claim holds or
// fails by the figures beside it.
export interface Claim {
  readonly section: string
  readonly what: string
  readonly holds: boolean
  readonly figures: Readonly<Record<string, unknown>>
}

export type Claiming = (section: string, what: string, holds: boolean, figures: Readonly<Record<string, unknown>>) => void

export const claims: Claim[] = []

export const claim: Claiming = (section, what, holds, figures) => {
  claims.push({ section, what, holds, figures })
  console.log(`${holds ? 'holds ' : 'FAILS '} ${section}: ${what} ${JSON.stringify(figures)}`)
}
