// Declarations of networks without repetition. In: a .d.ts of the compiler, with long types. Out: the same types; a repeated part is the type of a
// constant. Invariant: only the text differs: editors and errors show the types in full, as they would show no alias. Worked example:
// `export declare const a: Seq<readonly [Relu<"relu1">, Relu<"relu1">]>` becomes `declare const t0: Relu<"relu1">` and
// `export declare const a: Seq<readonly [typeof t0, typeof t0]>`.
'use strict'

/** The beginning of a constant, or of a member of a family's table. */
const HEAD = /^(?:export declare const \w+| {4}(?:'[\w-]+'|\w+)): /
/** Functions have type parameters, which a constant could not name. */
const OF_FUNCTION = /=>/
const NAMES = "import type * as $ from '../dsl';"
/** A shorter type is repeated. */
const LEAST = 20
const STRING = /"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'/g
/** A string, the beginning of a generic type, a word, or any other sign. */
const TOKEN = /"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[\w$.]+<?|./gs

/** The types of a file. Their parts are texts, and nodes for `Name<…>`. Equal nodes are one. */
class Types {
  nodes = new Map()

  parse(type) {
    const tokens = type.match(TOKEN)
    let at = 0
    const partsUpTo = (end) => {
      const parts = []
      for (let token = tokens[at++]; token !== undefined && token !== end; token = tokens[at++])
        parts.push(/\w<$/.test(token) ? this.node([token, ...partsUpTo('>'), '>']) : token)
      return parts
    }
    return partsUpTo(undefined)
  }

  node(parts) {
    const key = parts.map((p) => (typeof p === 'string' ? p : `\0${p.id}\0`)).join('')
    const known = this.nodes.get(key) ?? { id: this.nodes.size, parts, uses: 0 }
    this.nodes.set(key, known)
    return known
  }

  /** Counts the places of each node in a text that has each node once. */
  count(parts) {
    for (const p of parts) if (typeof p !== 'string' && ++p.uses === 1) this.count(p.parts)
  }
}

/** The lines of a text; a declaration of several lines is one. */
const declarationsIn = (text) => {
  const found = []
  let open = ''
  for (const line of text.split('\n')) {
    const whole = open + line
    const brackets = whole.replace(STRING, '').match(/[[\]{}()<>]/g) ?? []
    const isWhole =
      !HEAD.test(whole) || OF_FUNCTION.test(whole) || brackets.filter((b) => '[{(<'.includes(b)).length * 2 === brackets.length
    if (isWhole) found.push(whole)
    open = isWhole ? '' : `${whole}\n`
  }
  return open === '' ? found : [...found, open]
}

const shortened = (text) => {
  // An earlier compilation has shortened a file that this one left as it was.
  if (text.startsWith(NAMES)) return text
  const types = new Types()
  const declarations = declarationsIn(text.replaceAll('import("../dsl").', '$.')).map((declaration) => {
    const head = HEAD.exec(declaration)?.[0]
    return head === undefined || OF_FUNCTION.test(declaration)
      ? [declaration]
      : [head, ...types.parse(declaration.slice(head.length))]
  })
  for (const parts of declarations) types.count(parts)
  const constants = []
  const textOf = (part) => {
    if (typeof part === 'string') return part
    part.text ??= named(part, part.parts.map(textOf).join(''))
    return part.text
  }
  const named = ({ uses }, full) => {
    if (uses < 2 || full.length < LEAST) return full
    const name = `t${constants.length}`
    constants.push(`declare const ${name}: ${full};`)
    return `typeof ${name}`
  }
  const body = declarations.map((parts) => parts.map(textOf).join(''))
  return [NAMES, ...constants, ...body].join('\n')
}

module.exports = { shortened }
