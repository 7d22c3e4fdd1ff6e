// timeout 900
import { fewOf } from './family'
import { family } from './kills'

fewOf(family)
