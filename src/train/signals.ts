// Signals that end a run. In: signals of the caller. Out: one signal for all of them. Invariant: a signal that has aborted already counts.

/** Signals of the system that end a process. */
export const ENDING = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const
export const isEnding = (reason: unknown): reason is (typeof ENDING)[number] => ENDING.some((name) => name === reason)

/** Calls `act` when the signal aborts; at once if it has. */
export const onAbort = (signal: AbortSignal | undefined, act: () => void): void => {
  if (signal?.aborted) act()
  else signal?.addEventListener('abort', act)
}

/** Returns a signal that aborts with the first of these. */
export const firstOf = (...signals: readonly (AbortSignal | undefined)[]): AbortSignal => {
  const controller = new AbortController()
  for (const signal of signals) onAbort(signal, () => controller.abort(signal?.reason))
  return controller.signal
}
