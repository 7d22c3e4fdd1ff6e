// The folder for files that can be made or fetched again: measurements, compiled helpers, published weights.
import { homedir } from 'node:os'
import { join } from 'node:path'

export const cacheFolder = (): string => join(process.env['XDG_CACHE_HOME'] || join(homedir(), '.cache'), 'spillway')
