// The parts of a step with several objectives, as one namespace.
export { add, apply, detach, fed, joined, loss, minimize, multiply, step } from '../../dsl/step'
