// The plugin of the cuda device, spillway_cuda.so. In: the addon's file. Out: the plugin's file, in the order of native/runtime/devices.cpp.
import * as path from 'node:path'

export const PLUGIN = 'spillway_cuda.so'

/** The folders that devices.cpp searches: beside the addon, a build of the checkout or the user's, and the platform package. */
export const pluginPlaces = (addon: string): readonly string[] => {
  const own = path.dirname(addon)
  return [own, path.join(own, '..', '..', 'cuda'), path.join(own, '..', 'cuda')].map((folder) => path.join(folder, PLUGIN))
}

interface Looking {
  readonly exists: (file: string) => boolean
  readonly addon: () => string | undefined
  readonly env: Readonly<Record<string, string | undefined>>
}

/** The file that the cuda device loads; undefined if there is none. */
export const pluginFile = (at: Looking, root: string): string | undefined => {
  const given = at.env.SPILLWAY_CUDA
  const places = given ? [given] : [...pluginPlaces(at.addon() ?? ''), path.join(root, 'build', 'cuda', PLUGIN)]
  return places.find((file) => at.exists(file))
}
