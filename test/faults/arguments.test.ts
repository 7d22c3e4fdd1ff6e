// timeout 300
import { family } from './arguments'
import { fewOf } from './family'

fewOf(family)
