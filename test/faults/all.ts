// All cases of one family, for `npm run acceptance -- edges`. In: its name. Out: its counts as the last line; 1 where something was not as
// it must be, with the words.
import { writeSync } from 'node:fs'
import type { Family } from './family'

const main = async ([name = '']: readonly string[]): Promise<void> => {
  const { family } = require(`./${name}`) as { readonly family: Family }
  const watch = setTimeout(() => {
    writeSync(2, `${name} has not ended after ${family.seconds} s\n`)
    process.exit(1)
  }, 1000 * family.seconds)
  const counts = await family.run(family.all)
  clearTimeout(watch)
  console.log(JSON.stringify({ what: family.what, counts }))
}

if (require.main === module)
  main(process.argv.slice(2)).catch((e: unknown) => {
    console.error(e)
    process.exit(1)
  })
