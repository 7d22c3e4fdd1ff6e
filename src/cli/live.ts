// A line on the terminal while a command loads its modules, plans and measures. In: the words. Out: the line, at once. Invariant: the first
// text of the command replaces it, on either stream; nothing of it remains.

/** A stream as far as the line needs it. */
export type Stream = Pick<NodeJS.WriteStream, 'write' | 'isTTY' | 'columns'>

/** Clears the line from the cursor on. */
export const CLEAR = '\x1b[K'

/** Shows a line on the second stream, if it is a terminal, until one of the streams gets a text. Returns the function that ends it. */
export const liveLine = (
  text: string,
  streams: readonly [out: Stream, err: Stream] = [process.stdout, process.stderr],
): (() => void) => {
  const [, terminal] = streams
  if (!terminal.isTTY) return () => {}
  const writes = streams.map((stream) => stream.write)
  let isShown = true
  const end = (): void => {
    if (!isShown) return
    isShown = false
    streams.forEach((stream, i) => {
      stream.write = writes[i]!
    })
    terminal.write(`\r${CLEAR}`)
  }
  // A full last column would wrap in some terminals.
  terminal.write(text.slice(0, (terminal.columns || 80) - 1))
  for (const [i, stream] of streams.entries())
    stream.write = ((...args: Parameters<Stream['write']>) => {
      end()
      return writes[i]!.apply(stream, args)
    }) as Stream['write']
  return end
}
