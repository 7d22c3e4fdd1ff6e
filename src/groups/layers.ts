// The layers of the DSL and the functions that combine them, as one namespace.
export * from '../../dsl/layers'
export {
  atInputSize,
  block,
  blocks,
  concat,
  counted,
  masked,
  repeat,
  residual,
  scaled,
  seq,
  skip,
  value,
  values,
} from '../../dsl/compose'
export { identity } from '../../dsl/net'
