import { growthOf } from './bench/acceptance/times'
console.log(growthOf(process.argv[2]!, 1330))
