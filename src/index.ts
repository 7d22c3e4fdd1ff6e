// The public API: `import { … } from 'spillway'`. Models and their parts, staging, training, plan files, sizes.
// Functions named try… return Either, trainTask a TaskEither; the others throw a SpillwayException.
export type { Either } from 'fp-ts/Either'
export type { TaskEither } from 'fp-ts/TaskEither'
export * from '../dsl'
export * from '../staging/core/names'
export { PAGE_BYTES, parseBytes, showBytes } from '../staging/core/bytes'
export type { GraphError, StageError } from '../staging/core/errors'
export type { Algorithms, Plan } from '../staging/plan/plan'
export { strategies } from '../staging/planner/strategies'
export type { Timeline } from '../staging/sim/timeline'
export type { LocalMachine } from './machine/localmachine'
export { machineNames } from './machine/machine'
export { type MachineRates, registerMachine } from './machine/ownmachines'
export type { Augment } from './data/augment'
export {
  type Data,
  files,
  folder,
  type FilesOptions,
  type ImageOptions,
  type Numbers,
  type OwnSource,
  pick,
  type PixelSize,
  type Region,
  type RegionSource,
  type Sample,
  type Samples,
  type SampleValue,
  shard,
  source,
  split,
  type StreamOptions,
} from './data/data'
export { withoutDamaged } from './data/damaged'
export type { SlideOptions } from './data/slides/slideoptions'
export { slides } from './data/slides/slides'
export type { DeviceProgress } from './train/device'
export { type Config, defineConfig } from './cli/define'
export { data, layers, losses, optimizers, schedules, steps } from './groups'
export { errorText, type SpillwayError, SpillwayException, type TypeFault } from './errors/errors'
export { exportOnnx, type ExportOptions, type ExportResult, tryExportOnnx } from './exchange/export'
export { importOnnx, type ImportOptions, type ImportResult, tryImportOnnx } from './exchange/import'
export type { Written } from './files/whole'
export { type Growing, type Largest, largest, type LargestOptions, type Price, tryLargest } from './stage/largest'
export type { ModeOf, PlanFor } from './stage/mode'
export { loadPlan, savePlan, tryLoadPlan, trySavePlan } from './stage/planfile'
export { type ModelSource, openModule, type PlanModule, planModule } from './stage/planmodule'
export type { ProcessMemory, Staging } from './report/facts'
export { reportHtml } from './report/html'
export { summary } from './report/summary'
export { traceJson } from './report/trace'
export type { TrainResult } from './train/result'
export type { LossScale } from './train/weights'
export { run, type RunOptions, tryRun } from './train/run'
export { gib, kib, mib } from './stage/sizes'
export { describePlan, type Staged } from './stage/staged'
export { stage, tryStage } from './stage/stage'
export type { StageOptions } from './stage/stageoptions'
export { registerStrategy, type StrategyRule, type ToPlan } from './stage/ownstrategies'
export { stageAsync, type StageAsyncOptions } from './stage/async'
export { type LeftWeight, type LoadingOptions, type WeightsRecipe, weightsRecipe, type WeightsTable } from './train/loading'
export type { KeepOptions, RunLength, TrainOptions } from './train/options'
export type { Evaluating, JudgedWeights } from './train/measured'
export type { Measurement } from './train/measurement'
export { validation, type ValidationOptions } from './predict/validation'
export type { EvaluateOptions, PredictOptions } from './predict/options'
export { type Evaluated, evaluate } from './predict/evaluator'
export { type Compared, type Metric, metric, type MetricOptions } from './predict/ownmetric'
export type { MetricName } from './predict/metricnames'
export type { Prediction } from './predict/outputs'
export { openPredictor, type Pictures, type Predictor, type PredictorOptions } from './predict/kept'
export { predict, type Predicted } from './predict/predictor'
export type { Ranked } from './predict/ranked'
export { train, trainTask } from './train/trainer'
export { fit } from './train/fit'
export { findRate, type FindRateOptions, type FoundRate, type TriedRate } from './train/findrate'
export type { FitEvent } from './train/events'
export {
  constant,
  cosine,
  type CosineOptions,
  oneCycle,
  type OneCycleOptions,
  type OwnSchedule,
  plateau,
  type PlateauOptions,
  polynomial,
  type PolynomialOptions,
  type Schedule,
  stepped,
  type SteppedOptions,
} from './train/schedules'
export { zoo, type ZooEntry, zooEntry, zooNames } from './zoo'
