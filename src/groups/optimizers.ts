// The optimizers, as one namespace.
export { adam, adamw, lion, nadam, rmsprop, sgd } from '../../dsl/training'
