// The names that options choose among: planners, machines, allocators. In: nothing. Out: their types, which an editor completes. Invariant:
// the tables of planners and machines have exactly the keys of what is built in; who registers others declares their names by merging.

/** The planners that there are by themselves. */
export interface BuiltInStrategies {
  'in-core': true
  'checkpoint:sqrt': true
  'checkpoint:optimal': true
  'swap:vdnn-all': true
  'swap:vdnn-conv': true
  'swap:vdnn++': true
  'swap:superneurons': true
  'swap:autoswap': true
  'swap:tflms': true
  'swap:dymem': true
  'swap:window': true
  'swap:greedy': true
  'swap:dynprog': true
  'swap:fractional': true
  'hybrid:tflms': true
  'hybrid:superneurons': true
  sft: true
  tiled: true
  auto: true
}
/**
 * The planners by name; those of `registerStrategy` are declared by merging.
 *
 * @example stage(net, { strategy: 'swap:greedy' })
 */
export interface Strategies extends BuiltInStrategies {}
/** The name of a planner. */
export type StrategyName = keyof Strategies

/** The machines that there are by themselves. */
export interface BuiltInMachines {
  'p100-nvlink-16g': true
  'v100-nvlink-16g': true
  'v100-nvlink-32g': true
  'v100-pcie-16g': true
  'titanx-pcie-12g': true
  '2080ti-pcie-11g': true
  'a100-pcie-40g': true
  'h200-pcie-141g': true
}
/**
 * The machines that plans can be simulated for, by name; those of `registerMachine` are declared by merging.
 *
 * @example stage(net, { machine: 'v100-pcie-16g' })
 */
export interface Machines extends BuiltInMachines {}
/** The name of a kind of device. */
export type DeviceName = 'cpu' | 'ref' | 'null' | 'cuda'
/** What plans are made for: a device of this machine, or a named one. */
export type MachineName = DeviceName | keyof Machines

/** What a plan can be replayed on, to compare. */
export type AllocatorName = 'pages' | 'best-fit' | 'gtbm' | `va:${string}`
