// timeout 400
import { fewOf } from './family'
import { family } from './labels'

fewOf(family)
