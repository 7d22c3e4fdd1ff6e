import { family } from './checkpoints'
import { fewOf } from './family'

fewOf(family)
