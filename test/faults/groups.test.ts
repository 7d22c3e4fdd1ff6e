// gate
// timeout 300
import { fewOf } from './family'
import { family } from './groups'

fewOf(family)
