// The names that options choose among: planners, machines, allocators. In: nothing. Out: their types, which an editor completes. Invariant:
// the tables of planners and machines have exactly these keys; both are open to more by declaration merging.

/**
 * The planners by name. Open: who adds a planner adds its name, here or by declaration merging.
 *
 * @example stage(net, { strategy: 'swap:greedy' })
 */
export interface Strategies {
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
  tiled: true
  auto: true
}
/** The name of a planner. */
export type StrategyName = keyof Strategies

/**
 * The machines that plans can be simulated for, by name. Open, as the planners are.
 *
 * @example stage(net, { machine: 'v100-pcie-16g' })
 */
export interface Machines {
  'p100-nvlink-16g': true
  'v100-nvlink-16g': true
  'v100-nvlink-32g': true
  'v100-pcie-16g': true
  'titanx-pcie-12g': true
  '2080ti-pcie-11g': true
  'a100-pcie-40g': true
  'h200-pcie-141g': true
}
/** The name of a kind of device. */
export type DeviceName = 'cpu' | 'ref' | 'null' | 'cuda'
/** What plans are made for: a device of this machine, or a named one. */
export type MachineName = DeviceName | keyof Machines

/** What a plan can be replayed on, to compare. */
export type AllocatorName = 'pages' | 'best-fit' | 'gtbm' | `va:${string}`
