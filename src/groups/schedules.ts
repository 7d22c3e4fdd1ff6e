// The schedules of the learning rate, as one namespace.
export { constant, cosine, oneCycle, plateau, polynomial, stepped } from '../train/schedules'
