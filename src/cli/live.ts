// A line on the terminal while a command loads its modules, plans and measures. In: the text of each phase. Out: the line, at once. Invariant: the
// first text of the command replaces it, on either stream; nothing of it remains. The entry script loads this file first: it imports nothing.

/** A stream as far as the line needs it. */
export type Stream = Pick<NodeJS.WriteStream, 'write' | 'isTTY' | 'columns'>

export type Environment = Readonly<Record<string, string | undefined>>

/** Clears the line from the cursor on. */
export const CLEAR = '\x1b[K'

/** Returns true if a stream takes control sequences: it is a terminal, outside of CI. */
export const takesControls = ({ isTTY }: Pick<Stream, 'isTTY'>, { CI = '', TERM }: Environment = process.env): boolean =>
  isTTY && ['', '0', 'false'].includes(CI) && TERM !== 'dumb'

/** Returns true if a stream takes a line that changes: NO_COLOR is not set, either. */
export const takesLive = (stream: Pick<Stream, 'isTTY'>, env: Environment = process.env): boolean =>
  takesControls(stream, env) && !env['NO_COLOR']

/** A line on the second stream, if it takes one. */
export class LiveLine {
  /** The functions that the line has replaced, while it is shown. */
  private writes: readonly Stream['write'][] | undefined

  constructor(
    private readonly streams: readonly [out: Stream, err: Stream],
    private readonly env: Environment = process.env,
  ) {}

  /** Shows a text in place of the one before. */
  show(text: string): void {
    const { streams, env } = this
    const [, terminal] = streams
    if (!takesLive(terminal, env)) return
    // A full last column would wrap in some terminals.
    const line = text.slice(0, (terminal.columns || 80) - 1)
    if (this.writes) return void this.writes[1]!.call(terminal, `\r${line}${CLEAR}`)
    terminal.write(line)
    this.writes = streams.map(({ write }) => write)
    for (const stream of streams) {
      const { write } = stream
      stream.write = ((...args: Parameters<Stream['write']>) => {
        this.end()
        return write.apply(stream, args)
      }) as Stream['write']
    }
  }

  /** Clears the line. */
  end(): void {
    const { writes, streams } = this
    if (!writes) return
    this.writes = undefined
    streams.forEach((stream, i) => {
      stream.write = writes[i]!
    })
    streams[1].write(`\r${CLEAR}`)
  }
}

/** The line of this process. */
export const live = new LiveLine([process.stdout, process.stderr])

/** Shows the first line of a command, before it loads its modules. */
export const showStart = (args: readonly string[]): void => live.show(['spillway', ...args.slice(0, 2), '…'].join(' '))
