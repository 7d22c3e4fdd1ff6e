// The schedules of the learning rate, as one namespace.
export { constant, cosine, oneCycle, polynomial, stepped } from '../train/schedules'
