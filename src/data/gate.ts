// A gate that threads pass to read a sample, so that none is ended in the middle of one: Node.js aborts the whole process if a thread is ended while
// it begins to unpack a PNG ("close before init"). In, out: two numbers that threads share. Invariant: after a stop no thread is inside, unless one
// took too long.

/** How many samples are being read, and whether no other may begin. */
export type Gate = Int32Array
const [INSIDE, STOPPED] = [0, 1]
export const openGate = (): Gate => new Int32Array(new SharedArrayBuffer(8))

export const leave = (gate: Gate): void => {
  Atomics.sub(gate, INSIDE, 1)
  Atomics.notify(gate, INSIDE)
}
export const enter = (gate: Gate): boolean => {
  Atomics.add(gate, INSIDE, 1)
  if (Atomics.load(gate, STOPPED) === 0) return true
  leave(gate)
  return false
}
/** Waits until no sample is being read, or this number of milliseconds. */
export const stopGate = (gate: Gate, most: number): void => {
  Atomics.store(gate, STOPPED, 1)
  const until = Date.now() + most
  for (let inside = Atomics.load(gate, INSIDE); inside > 0 && Date.now() < until; inside = Atomics.load(gate, INSIDE))
    Atomics.wait(gate, INSIDE, inside, until - Date.now())
}
