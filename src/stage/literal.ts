// Plain data as TypeScript text. In: a value of strings, numbers, booleans, arrays and objects. Out: its literal, wrapped.
const WIDTH = 120
const INDENT = '  '

const key = (k: string): string => (/^[A-Za-z_$][\w$]*$/.test(k) ? k : JSON.stringify(k))
/** A string literal in single quotes; no content ends it. */
export const text = (s: string): string => `'${JSON.stringify(s).slice(1, -1).replaceAll('\\"', '"').replaceAll("'", "\\'")}'`

/** Text for a line comment: a name with a line break would end it. */
export const commentText = (s: string): string => s.replace(/[\p{Cc}\u2028\u2029]+/gu, ' ')

export const literal = (u: unknown, indent = ''): string => {
  if (typeof u === 'string') return text(u)
  if (typeof u !== 'object' || u === null) return String(u)
  const inner = indent + INDENT
  const isList = Array.isArray(u)
  const parts = isList
    ? u.map((x) => literal(x, inner))
    : Object.entries(u)
        .filter(([, v]) => v !== undefined)
        .map(([k, v]) => `${key(k)}: ${literal(v, inner)}`)
  const [open, close, space] = isList ? ['[', ']', ''] : ['{', '}', ' ']
  const line = parts.length === 0 ? `${open}${close}` : `${open}${space}${parts.join(', ')}${space}${close}`
  if (indent.length + line.length <= WIDTH && !line.includes('\n')) return line
  return `${open}\n${parts.map((p) => `${inner}${p},\n`).join('')}${indent}${close}`
}
