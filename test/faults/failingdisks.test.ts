// timeout 400
import { family } from './failingdisks'
import { fewOf } from './family'

fewOf(family)
