// gate
// timeout 400
import { fewOf } from './family'
import { family } from './keys'

fewOf(family)
