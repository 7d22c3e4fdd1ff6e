// gate
// timeout 14400
import { family } from './campaign'
import { fewOf } from './family'

fewOf(family)
