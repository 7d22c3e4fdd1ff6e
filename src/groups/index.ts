// Groups of the public functions: `layers.conv2d` is the export `conv2d`. The flat names remain.
import * as allData from './data'
import * as allLayers from './layers'
import * as allLosses from './losses'
import * as allOptimizers from './optimizers'
import * as allSchedules from './schedules'
import * as allSteps from './steps'

/** All layers and the functions that combine them. @example const net = layers.seq(layers.conv2d('c1', 8, 3), layers.relu()) */
export const layers = allLayers
/** All losses. @example stage(net, { loss: losses.crossEntropy }) */
export const losses = allLosses
/** All optimizers. @example stage(net, { optimizer: optimizers.adamw({ lr: 1e-3 }) }) */
export const optimizers = allOptimizers
/** All schedules of the learning rate. @example train(net, plan, { epochs: 30, schedule: schedules.cosine() }) */
export const schedules = allSchedules
/** All sources of data. @example train(net, plan, { epochs: 30, data: data.folder('cats/') }) */
export const data = allData
/** The parts of a step with several objectives. @example const photo = steps.fed('photo', [1, 3, 64, 64]) */
export const steps = allSteps
