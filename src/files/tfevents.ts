// TensorBoard's event files. In: scalars and texts by step. Out: a file in its folder, a record each. Invariant: a record is the length, its
// checksum, the event (protos/tensorboard.proto), its checksum; checksums are CRC-32C, turned and shifted as TensorFlow does it.
// A run that is resumed begins a new file, whose first event takes back the steps that will run again.
import { closeSync, openSync, writeSync } from 'node:fs'
import { hostname } from 'node:os'
import { join } from 'node:path'
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import type { SpillwayError } from '../errors/errors'
import { onFile } from '../errors/exceptions'
import { encoded, messageType } from './protobuf'
import { madeFolder } from './whole'

// ---------------------------------------------------------------- records

/** Castagnoli's polynomial, backwards. */
const POLYNOMIAL = 0x82f63b78
const TABLE = Uint32Array.from({ length: 256 }, (_, n) => {
  let c = n
  for (let k = 0; k < 8; k++) c = c & 1 ? (c >>> 1) ^ POLYNOMIAL : c >>> 1
  return c
})
export const crc32c = (bytes: Uint8Array): number => {
  let c = 0xffffffff
  for (const b of bytes) c = TABLE[(c ^ b) & 0xff]! ^ (c >>> 8)
  return (c ^ 0xffffffff) >>> 0
}
const MASK_DELTA = 0xa282ead8
export const maskedCrc = (bytes: Uint8Array): number => {
  const c = crc32c(bytes)
  return (((c >>> 15) | (c << 17)) + MASK_DELTA) >>> 0
}

export const record = (data: Uint8Array): Uint8Array => {
  const out = Buffer.alloc(data.length + 16)
  out.writeBigUInt64LE(BigInt(data.length))
  out.writeUInt32LE(maskedCrc(out.subarray(0, 8)), 8)
  out.set(data, 12)
  out.writeUInt32LE(maskedCrc(data), 12 + data.length)
  return out
}

// ---------------------------------------------------------------- events

const DT_STRING = 7
const DATA_CLASS_TENSOR = 2
const SESSION_START = 1

const event = (step: number, what: object): Uint8Array =>
  record(encoded(messageType('tensorboard', 'tensorboard.Event'), { wallTime: Date.now() / 1000, step, ...what }))

export interface EventFile {
  readonly scalars: (step: number, values: Readonly<Record<string, number>>) => Either<SpillwayError, void>
  /** In Markdown. */
  readonly text: (tag: string, text: string) => Either<SpillwayError, void>
  readonly close: () => void
}

const textValue = (tag: string, text: string) => ({
  tag,
  tensor: { dtype: DT_STRING, tensorShape: { dim: [{ size: 1 }] }, stringVal: [Buffer.from(text, 'utf8')] },
  metadata: { pluginData: { pluginName: 'text' }, dataClass: DATA_CLASS_TENSOR },
})

let opened = 0

/** A new file in a folder; of a run that goes on, `stepsDone` stay. */
export const openEvents = (folder: string, stepsDone: number): Either<SpillwayError, EventFile> => {
  const seconds = String(Math.floor(Date.now() / 1000)).padStart(10, '0')
  const path = join(folder, `events.out.tfevents.${seconds}.${hostname()}.${process.pid}.${opened++}`)
  return pipe(
    madeFolder(folder),
    E.flatMap(() => onFile('output', path)(() => E.right(openSync(path, 'wx')))),
    E.flatMap((fd) => {
      const write = (bytes: Uint8Array): Either<SpillwayError, void> =>
        onFile('output', path)(() => E.right(void writeSync(fd, bytes)))
      const start = stepsDone > 0 ? [event(stepsDone + 1, { sessionLog: { status: SESSION_START } })] : []
      const file: EventFile = {
        scalars: (step, values) =>
          write(
            event(step, {
              summary: { value: Object.entries(values).map(([tag, simpleValue]) => ({ tag, simpleValue })) },
            }),
          ),
        text: (tag, text) => write(event(stepsDone, { summary: { value: [textValue(tag, text)] } })),
        close: () => closeSync(fd),
      }
      return pipe(
        write(Buffer.concat([event(0, { fileVersion: 'brain.Event:2' }), ...start])),
        E.map(() => file),
      )
    }),
  )
}
