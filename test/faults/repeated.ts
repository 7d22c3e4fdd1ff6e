// The command line again and again in one process, as many short runs in a tenth of the time. In: its arguments; a line on stdin starts the
// next run. Out: that of the command, and a line `ended CODE` on stdout.
import { createInterface } from 'node:readline'
import { main } from '../../src/cli'

const repeat = async (): Promise<void> => {
  for await (const _ of createInterface({ input: process.stdin })) {
    const code = await main(process.argv.slice(2))
    process.stdout.write(`ended ${code}\n`)
  }
}

if (require.main === module) void repeat()
