// The sources of data, as one namespace.
export { files, folder, pick, shard, source, split } from '../data/data'
export { slides } from '../data/slides/slides'
