// The language server of TypeScript 7 as a test instrument. In: a program as text, and offsets in it. Out: the text that an editor shows at each
// offset, without its type. Invariant: the program is not written to disk.
import { spawn } from 'node:child_process'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'

const root = join(__dirname, '../..')
const COMPILER = join(root, 'node_modules/@typescript', `typescript-${process.platform}-${process.arch}`, 'lib/tsc')

interface Message {
  readonly id?: number
  readonly method?: string
  readonly params?: { readonly items?: readonly unknown[] }
  readonly result?: { readonly contents?: { readonly value?: string } } | null
}

const BREAK = '\r\n\r\n'

/** The texts at offsets of a program. */
export const shownAt = async (text: string, offsets: readonly number[]): Promise<readonly string[]> => {
  const server = spawn(COMPILER, ['--lsp', '--stdio'], { cwd: root, stdio: ['pipe', 'pipe', 'ignore'] })
  const waiting = new Map<number, (m: Message) => void>()
  const send = (message: object): void => {
    const body = JSON.stringify({ jsonrpc: '2.0', ...message })
    server.stdin.write(`Content-Length: ${Buffer.byteLength(body)}${BREAK}${body}`)
  }
  const hear = (m: Message): void => {
    // The server asks for settings: there are none.
    if (m.id !== undefined && m.method) send({ id: m.id, result: m.params?.items?.map(() => null) ?? null })
    else if (m.id !== undefined) waiting.get(m.id)?.(m)
  }
  let heard = Buffer.alloc(0)
  server.stdout.on('data', (part: Buffer) => {
    heard = Buffer.concat([heard, part])
    for (let head = heard.indexOf(BREAK); head >= 0; head = heard.indexOf(BREAK)) {
      const end = head + BREAK.length + Number(/Content-Length: (\d+)/i.exec(heard.toString('utf8', 0, head))![1])
      if (heard.length < end) return
      hear(JSON.parse(heard.toString('utf8', head + BREAK.length, end)))
      heard = heard.subarray(end)
    }
  })
  let asked = 0
  let ended = (): void => {}
  server.once('exit', () => ended())
  const ask = (method: string, params: object): Promise<Message> =>
    new Promise((resolve, reject) => {
      ended = () => reject(new Error(`the language server ended before its answer to ${method}`))
      waiting.set(++asked, resolve)
      send({ id: asked, method, params })
    })
  const uri = pathToFileURL(join(root, 'test/types/everyoption-program.ts')).href
  try {
    await ask('initialize', {
      processId: process.pid,
      rootUri: pathToFileURL(root).href,
      capabilities: { textDocument: { hover: { contentFormat: ['markdown'] } } },
    })
    send({ method: 'initialized', params: {} })
    send({ method: 'textDocument/didOpen', params: { textDocument: { uri, languageId: 'typescript', version: 1, text } } })
    const texts: string[] = []
    for (const offset of offsets) {
      const before = text.slice(0, offset).split('\n')
      const position = { line: before.length - 1, character: before.at(-1)!.length }
      const { result } = await ask('textDocument/hover', { textDocument: { uri }, position })
      texts.push((result?.contents?.value ?? '').replace(/^```.*?```/s, '').trim())
    }
    return texts
  } finally {
    server.removeAllListeners('exit').kill()
  }
}
