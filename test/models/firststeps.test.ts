// timeout 1200
// Every network of the fixture, or one of each kind: see firststep.ts.
import { test } from 'uvu'
import { namesWithSteps, stepsArePyTorchs } from './firststep'

stepsArePyTorchs(namesWithSteps)

test.run()
