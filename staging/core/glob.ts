// Names by patterns: `*` stands for any run of characters, all else for itself. In: a pattern, names. Out: which of them it matches, or the
// pattern that was meant. Invariant: a pattern is matched whole. Worked example: 'layer1.*.conv?' matches nothing; `?` is no sign.
import { nearest } from './nearest'

/** Returns a test of names against a pattern. */
export const globMatches = (pattern: string): ((name: string) => boolean) => {
  const [first = '', ...rest] = pattern.split('*')
  const last = rest.pop()
  if (last === undefined) return (name) => name === first
  return (name) => {
    if (name.length < first.length + last.length || !name.startsWith(first) || !name.endsWith(last)) return false
    const end = name.length - last.length
    // The first match of each part leaves the longest rest for the parts after it.
    let at = first.length
    for (const part of rest) {
      const found = name.indexOf(part, at)
      if (found < 0 || found + part.length > end) return false
      at = found + part.length
    }
    return true
  }
}

/** The pattern nearest to one that matches nothing: a name, or all names with the same beginning up to a dot. */
export const nearestGlob = (pattern: string, names: readonly string[]): string | undefined => {
  const scopes = names.flatMap((name) =>
    name
      .split('.')
      .slice(0, -1)
      .map((_, i, parts) => `${parts.slice(0, i + 1).join('.')}.*`),
  )
  return nearest(pattern, [...new Set([...scopes, ...names])], 1)[0]
}
