// gate
// serial
// timeout 400
import { fewOf } from './family'
import { family } from './processes'

fewOf(family)
