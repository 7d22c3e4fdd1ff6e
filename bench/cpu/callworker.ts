// A process that times calls on some threads. In: the number of threads as argument, a call (JSON) a line on stdin. Out: its seconds, a
// JSON line each.
import { createInterface } from 'node:readline'
import { secondsOfCall, type TimedCall } from './calls'

const threads = Number(process.argv[2])
const main = async (): Promise<void> => {
  for await (const line of createInterface({ input: process.stdin })) {
    if (line === 'end') break
    process.stdout.write(`${JSON.stringify({ seconds: secondsOfCall(JSON.parse(line) as TimedCall, threads) })}\n`)
  }
}

main().catch((e) => {
  console.error(e)
  process.exit(1)
})
