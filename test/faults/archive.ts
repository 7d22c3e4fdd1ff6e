// Zip archives as tests make them. In: parts, and wrong numbers if asked. Out: the archive's bytes. Checksums are 0: no reader here compares them.
export interface Part {
  readonly name: string
  readonly bytes: Uint8Array
  /** The archive's own numbers, if they are wrong. */
  readonly says?: { readonly bytes?: number; readonly at?: number; readonly method?: number }
}

/** A zip archive of parts as they are; `count`: how many it says that it has. */
export const archive = (parts: readonly Part[], count = parts.length): Buffer => {
  const files: Buffer[] = []
  const entries: Buffer[] = []
  let at = 0
  for (const { name, bytes, says = {} } of parts) {
    const title = Buffer.from(name)
    const size = says.bytes ?? bytes.length
    const local = Buffer.alloc(30)
    local.writeUInt32LE(0x04034b50)
    local.writeUInt16LE(title.length, 26)
    const entry = Buffer.alloc(46)
    entry.writeUInt32LE(0x02014b50)
    entry.writeUInt16LE(says.method ?? 0, 10)
    entry.writeUInt32LE(size, 20)
    entry.writeUInt32LE(size, 24)
    entry.writeUInt16LE(title.length, 28)
    entry.writeUInt32LE(says.at ?? at, 42)
    files.push(local, title, Buffer.from(bytes))
    entries.push(entry, title)
    at += local.length + title.length + bytes.length
  }
  const listed = Buffer.concat(entries)
  const end = Buffer.alloc(22)
  end.writeUInt32LE(0x06054b50)
  end.writeUInt16LE(count, 8)
  end.writeUInt16LE(count, 10)
  end.writeUInt32LE(listed.length, 12)
  end.writeUInt32LE(at, 16)
  return Buffer.concat([...files, listed, end])
}
