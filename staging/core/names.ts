// The names of planners, machines and allocators, for options. In: nothing. Out: their types, which an editor completes. Invariant: the tables of
// planners and machines have exactly the built-in names as keys; users declare the names of their own by merging.

/**
 * The names of the built-in planners, as keys.
 *
 * @example const name: keyof BuiltInStrategies = 'swap:greedy'
 */
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
  'recompute:conv': true
  'hybrid:tflms': true
  'hybrid:superneurons': true
  sft: true
  tiled: true
  auto: true
}
/**
 * The names of all planners, as keys. Add the name of your own one by declaration merging.
 *
 * @example stage(net, { strategy: 'swap:greedy' })
 */
export interface Strategies extends BuiltInStrategies {}
/**
 * The name of a planner.
 *
 * @example
 * const strategy: StrategyName = 'checkpoint:sqrt'
 * stage(net, { strategy })
 */
export type StrategyName = keyof Strategies

/**
 * The names of the built-in simulated machines, as keys.
 *
 * @example const name: keyof BuiltInMachines = 'v100-pcie-16g'
 */
export interface BuiltInMachines {
  'p100-nvlink-16g': true
  'v100-nvlink-16g': true
  'v100-nvlink-32g': true
  'v100-pcie-16g': true
  'titanx-pcie-12g': true
  '2080ti-pcie-11g': true
  'a100-pcie-40g': true
  'h200-pcie-141g': true
  'a100-sxm-80g': true
  'h100-sxm-80g': true
  'h200-sxm-141g': true
  b200: true
  'rtx-3090-24g': true
  'rtx-4090-24g': true
  'l4-24g': true
  't4-16g': true
}
/**
 * The names of all simulated machines, as keys. Add the name of your own one by declaration merging.
 *
 * @example stage(net, { machine: 'v100-pcie-16g' })
 */
export interface Machines extends BuiltInMachines {}
/**
 * The name of a device of this computer.
 *
 * @example const devices: readonly DeviceName[] = ['cpu', 'cuda']
 */
export type DeviceName = 'cpu' | 'ref' | 'null' | 'cuda'
/**
 * The name of a machine: a device of this computer or a simulated machine.
 *
 * @example
 * const machine: MachineName = 'a100-pcie-40g'
 * stage(net, { machine })
 */
export type MachineName = DeviceName | keyof Machines

/**
 * The name of an allocator that can be simulated beside a plan.
 *
 * @example
 * const allocator: AllocatorName = 'best-fit'
 * stage(net, { allocator })
 */
export type AllocatorName = 'pages' | 'best-fit' | 'gtbm' | `va:${string}`
