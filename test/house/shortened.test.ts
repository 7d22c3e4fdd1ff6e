// Declarations of networks without repetition: the same types, each interface once.
import { test } from 'uvu'
import * as assert from 'uvu/assert'

const { shortened } = require('../../scripts/setup/shortened') as { readonly shortened: (text: string) => string }
const BEGIN = "import type * as $ from '../dsl';\n"

test('a repeated part is the type of a constant, for constants and for the table of the family', () => {
  const text = `export declare const a: Seq<readonly [import("../dsl").Conv2d<"a<b", 64, 3>, import("../dsl").Conv2d<"a<b", 64, 3>]>;
declare const _default: {
    'a-1': Network<Seq<readonly [import("../dsl").Conv2d<"a<b", 64, 3>, import("../dsl").Conv2d<"a<b", 64, 3>]>, 7>;
};
`
  assert.is(
    shortened(text),
    `${BEGIN}declare const t0: $.Conv2d<"a<b", 64, 3>;
declare const t1: Seq<readonly [typeof t0, typeof t0]>;
export declare const a: typeof t1;
declare const _default: {
    'a-1': Network<typeof t1, 7>;
};
`,
  )
})

test('a declaration of several lines is one', () => {
  const part = 'Seq<readonly [Conv2d<"up", {\n    readonly scale: 2;\n}>]>'
  assert.is(
    shortened(`export declare const a: ${part};\nexport declare const b: ${part};\n`),
    `${BEGIN}declare const t0: ${part};\nexport declare const a: typeof t0;\nexport declare const b: typeof t0;\n`,
  )
})

test('functions and short types stay; a shortened text stays', () => {
  const text = `export declare const f: <C extends number>(c: C) => Seq<readonly [Conv2d<"longer", C>, Conv2d<"longer", C>]>;
export declare const a: [Relu<"">, Relu<"">];
`
  assert.is(shortened(text), `${BEGIN}${text}`)
  assert.is(shortened(`${BEGIN}${text}`), `${BEGIN}${text}`)
})

test.run()
