// timeout 1200
// Every second network of the fixture, in two halves that run beside each other: see firststep.ts.
import { test } from 'uvu'
import { namesWithSteps, stepsArePyTorchs } from './firststep'

stepsArePyTorchs(namesWithSteps.filter((_, i) => i % 2 === 1))

test.run()
