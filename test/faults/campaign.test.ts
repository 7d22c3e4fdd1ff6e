// timeout 5400
import { family } from './campaign'
import { fewOf } from './family'

fewOf(family)
