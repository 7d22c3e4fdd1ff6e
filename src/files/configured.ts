// The configuration file of the command of this process. In: its effect, from the command line. Out: the arguments with the options of the file,
// for the record of a run; the inputs that the file adds to every check of places. Invariant: a script has none.

/** The effect of a configuration file on the command. */
export interface Configured {
  /** The arguments of the command, as if the options of the file were given as flags. */
  readonly args: readonly string[]
  /** The file and its imports. */
  readonly reads: readonly { readonly by: string; readonly path: string }[]
}

const current: { configured?: Configured | undefined } = {}

/** Sets the configuration file of this process; undefined at the end of a command. */
export const configuredBy = (configured: Configured | undefined): void => {
  current.configured = configured
}

export const configuredReads = (): Configured['reads'] => current.configured?.reads ?? []
export const commandArgs = (): readonly string[] => current.configured?.args ?? process.argv.slice(2)
