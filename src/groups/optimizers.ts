// The optimizers, as one namespace.
export { adam, adamw, rmsprop, sgd } from '../../dsl/training'
