// `node scripts/cuda/faults.js [WORDS …]`: plants faults in the cuda device's sources, one at a time (those whose names hold such words), and
// runs its tests on the imitated CUDA: each must be caught. In: nothing but this checkout; the sources that are changed are a copy in build/.
// Out: bench/results/cuda-faults.json, a row for each fault, with the test that caught it and its words; where faults are named, the others'
// rows stay; exit code 0 if every one was. Faults in headers that own_kernels.cu includes are few: they take long to compile.
'use strict'
const { spawn, spawnSync } = require('node:child_process')
const fs = require('node:fs')
const path = require('node:path')
const { headersHere } = require('./toolkit')

const ROOT = path.join(__dirname, '..', '..')
const SOURCES = path.join(ROOT, 'native', 'cuda')
const BUILD = path.join(ROOT, 'build', 'planted')
const PLANTED = path.join(BUILD, 'native', 'cuda')
const RESULT = path.join(ROOT, 'bench', 'results', 'cuda-faults.json')

/** A fault is one text in the place of another, which stands there once at least; the first is replaced. */
const fault = (name, file, from, to) => ({ name, file, from, to })
const FAULTS = [
  fault(
    'an event that is not recorded',
    'context.cpp',
    'return checked(cudaEventRecord(events_[event], stream(lane)), "cudaEventRecord");',
    '(void)lane, (void)event; return {};',
  ),
  fault(
    'an event that nobody waits for',
    'context.cpp',
    'return checked(cudaStreamWaitEvent(stream(lane), events_[event], 0), "cudaStreamWaitEvent");',
    '(void)lane, (void)event; return {};',
  ),
  fault(
    'an event recorded on another lane',
    'context.cpp',
    'cudaEventRecord(events_[event], stream(lane))',
    'cudaEventRecord(events_[event], stream((void(lane), Lane::far_in)))',
  ),
  fault(
    'a copy on another lane',
    'context.cpp',
    'cudaMemcpyDefault, stream(lane))',
    'cudaMemcpyDefault, stream((void(lane), Lane::far_out)))',
  ),
  fault(
    'a lane that nobody waits for at the end of a step',
    'context.cpp',
    'checked(cudaStreamSynchronize(stream(lane)), "the GPU")',
    'Status{}',
  ),
  fault('stamps that are never given back', 'context.cpp', 'for (cudaEvent_t e : stamps_)\n    if (e) cudaEventDestroy(e);', ''),
  fault(
    'counters of blocks that nobody sets to zero',
    'context.cpp',
    'SPILLWAY_CUDA(cudaMemsetAsync(arrivals_, 0, ARRIVALS * sizeof *arrivals_, stream(Lane::compute)));',
    '',
  ),
  fault(
    'a copy cut short',
    'context.cpp',
    'cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault',
    'cudaMemcpyAsync(to, from, bytes - 4, cudaMemcpyDefault',
  ),
  fault(
    'a step whose scalars are those of the one before',
    'context.cpp',
    '*step_here_ = step;',
    'static int n = 0; if (n++ == 0) *step_here_ = step;',
  ),
  fault('a graph that is never given back', 'context.cpp', 'for (cudaGraphExec_t g : graphs_) cudaGraphExecDestroy(g);', ''),
  fault(
    'pinned memory that is never given back',
    'pinned.cpp',
    'for (const AddressRange& range : registered_) cudaHostUnregister(range.data());',
    '',
  ),
  fault('the graph before the one that is asked for', 'context.cpp', 'uint32_t(graphs_.size() - 1)', 'uint32_t(0)'),
  fault(
    'a capture that other threads take part in',
    'context.cpp',
    'cudaStreamCaptureModeThreadLocal',
    'cudaStreamCaptureModeGlobal',
  ),
  fault(
    'streams that wait for the default stream',
    'context.cpp',
    'cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking)',
    'cudaStreamCreateWithFlags(&s, cudaStreamDefault)',
  ),
  fault(
    'memory that nobody has access to',
    'pool.cpp',
    'return checked(d.cuMemSetAccess(start, m.count * PAGE_BYTES, &access, 1), "cuMemSetAccess");',
    '(void)start, (void)access; return {};',
  ),
  fault('access to the first page of a mapping alone', 'pool.cpp', 'm.count * PAGE_BYTES, &access', 'PAGE_BYTES, &access'),
  fault('memory that is unmapped by half', 'pool.cpp', 'd.cuMemUnmap(m.at, m.bytes);', 'd.cuMemUnmap(m.at, m.bytes / 2);'),
  fault('memory that is never released', 'pool.cpp', 'if (p.handle) d.cuMemRelease(p.handle);', '(void)p;'),
  fault(
    'a pool that is larger than the plan',
    'pool.cpp',
    'p.count * PAGE_BYTES, &prop, 0), "cuMemCreate"',
    '(p.count + 1) * PAGE_BYTES, &prop, 0), "cuMemCreate"',
  ),
  fault('a mapping of the page behind', 'pool.cpp', 'base_ + m.va * PAGE_BYTES', 'base_ + (m.va ? m.va - 1 : 0) * PAGE_BYTES'),
  fault(
    'strides of another layout',
    'conv2d_engines.cpp',
    '{s[1] * s[2] * s[3], 1, s[3] * s[1], s[1]}',
    '{s[1] * s[2] * s[3], s[2] * s[3], s[3], 1}',
  ),
  fault('strides of the other axis', 'conv2d_engines.cpp', '{p.stride_h, p.stride_w}', '{p.stride_w, p.stride_w}'),
  fault(
    'an alignment that is not there',
    'conv2d_engines.cpp',
    'CUDNN_TYPE_INT64, 1, &alignment',
    'CUDNN_TYPE_INT64, ((void)alignment, 1), &WHOLE_ALIGN',
  ),
  fault(
    'a fused bias in floats',
    'conv2d_engines.cpp',
    '{1, p.y[1], 1, 1}, WHOLE_ALIGN, stored)',
    '{1, p.y[1], 1, 1}, WHOLE_ALIGN, DType::f32)',
  ),
  fault(
    'padding on one side',
    'conv2d.cpp',
    'rows_before(h),\n               rows_before(w),\n               h.dilation',
    'rows_before(h),\n               rows_before(h),\n               h.dilation',
  ),
  fault('x that is not cut out', 'conv2d.cpp', 'if (s.cut && !writes_x) SPILLWAY_TRY(gather_grid(*s.x, *s.cut, x, stream));', ''),
  fault(
    'weights that are not turned',
    'conv2d.cpp',
    'is_half(s.problem.factors) || (w[2] * w[3] > 1 && w[1] > 1)',
    'is_half(s.problem.factors) || w[0] < 0',
  ),
  fault('laid weights that are turned once more', 'conv2d.cpp', 'return !ops::comes_laid(*s.w) && (', 'return ('),
  fault(
    'scratch over the weights',
    'conv2d.cpp',
    'return {0, cut, cut + weights, before, before + scratch',
    'return {0, cut, cut + weights, cut, before + scratch',
  ),
  fault('a bias that is not added', 'conv2d.cpp', 'if (way_.fused || !(s.bias || e.rectified)) return {};', 'return {};'),
  fault('a descriptor that is used after its end', 'backend.hpp', 'raw_(std::exchange(o.raw_, nullptr))', 'raw_(o.raw_)'),
  fault(
    'engines that convert their inputs down',
    'backend.cpp',
    'if (has_note(notes, CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS)) return Worth::nothing;',
    '',
  ),
  fault(
    'a fallback by an engine that was named before',
    'backend.cpp',
    'if (is_fallback && numbers_.contains(facts.value().number)) return;',
    '(void)is_fallback;',
  ),
  fault(
    'engines that need not repeat, among those that do',
    'backend.cpp',
    '? Worth::loose : Worth::exact',
    '? Worth::exact : Worth::exact',
  ),
  fault(
    'work on the stream of the call before',
    'backend.cpp',
    'SPILLWAY_TRY(checked(api().cudnnSetStream(handle.value(), stream), "cudnnSetStream"));',
    'static const cudaStream_t first = stream; SPILLWAY_TRY(checked(api().cudnnSetStream(handle.value(), first), "cudnnSetStream"));',
  ),
  fault(
    'a failure of cuDNN as no engine',
    'libraries.cpp',
    'CUDNN_STATUS_CATEGORY(code) == CUDNN_STATUS_NOT_SUPPORTED ? Code::illegal : Code::device',
    'Code::illegal',
  ),
  fault(
    'a product that is turned',
    'linear.cpp',
    'return {f, stored_type(f), true, false, out, pixels, in, in, in};',
    'return {f, stored_type(f), false, false, out, pixels, in, in, in};',
  ),
  fault(
    'an algorithm of another product',
    'linear.cpp',
    'std::unique_ptr<Compiled>& of_product = known[p];',
    'std::unique_ptr<Compiled>& of_product = known[known.empty() ? p : known.begin()->first];',
  ),
  fault(
    'a transposed convolution on an own kernel without its bias',
    'kernels/convtranspose2d.hpp',
    'c.n_ins > 2 ? &c.ins[2] : nullptr',
    'nullptr',
  ),
  fault(
    'what ranks exchange, on the lane of compute',
    'own_calls.cpp',
    'run_own(known, context, Lane::ranks)',
    'run_own(known, context)',
  ),
  fault(
    'an exchange that nobody waits for',
    'own_calls.cpp',
    'context.waits_later() ? exchanged() : context.in_turn(exchanged)',
    'exchanged()',
  ),
  fault(
    'parcels that are taken from the first rank alone',
    'ranks.cpp',
    'NCCL_BYTES, int(takes[i].rank), comm_, stream_)',
    'NCCL_BYTES, int(takes[0].rank), comm_, stream_)',
  ),
  fault('a communicator that is never given back', 'ranks.cpp', 'if (comm_) api().ncclCommDestroy(comm_);', ''),
  fault(
    'ranks that wait for ever',
    'ranks.cpp',
    'if (lost_.ok() && patience > 0 && seconds > patience) lose(waited(host_, patience));',
    '(void)seconds, (void)patience;',
  ),
  fault('a rank whose end nobody hears of', 'ranks.cpp', 's.ok() && code != NCCL_SUCCESS', 's.ok() && code < NCCL_SUCCESS'),
  fault('two ranks on one GPU', 'ranks.cpp', 'std::strcmp(all[before].bus, all[r].bus) == 0', "all[before].bus[0] == '?'"),
  fault(
    'terms of ranks added up from the last',
    'kernels/collective.hpp',
    'for (uint32_t r = 0; r < size; r++) total +=',
    'for (uint32_t r = size; r-- > 0;) total +=',
  ),
  fault(
    'a short sum that replaces the sums before it',
    'kernels/sums.hpp',
    'sum_of(shared, lane, s, item) += double(part[lane][s]);',
    'sum_of(shared, lane, s, item) = double(part[lane][s]);',
  ),
  fault(
    'coefficients of the first channels for all channels of a block',
    'kernels/boxes.hpp',
    'own.at[lane] = at[item % grid.across * LANES + uint32_t(lane)];',
    'own.at[lane] = at[item % grid.across * 0 + uint32_t(lane)];',
  ),
  fault(
    'a variance of a pixel without its mean',
    'kernels/layernorm.hpp',
    'if constexpr (phase == 2) gather(shared, at, item, m.mean);',
    'if constexpr (phase == 2) gather(shared, at, item, 0);',
  ),
  fault(
    'shares of ranks that lie on one another',
    'kernels/collective.hpp',
    'parcel(group, r, came + r * own, own)',
    'parcel(group, r, came + r / 2 * own, own)',
  ),
]

const run = (program, args, seconds = 600) => {
  const r = spawnSync('timeout', ['--kill-after=5', String(seconds), program, ...args], {
    cwd: ROOT,
    encoding: 'utf8',
    maxBuffer: 2 ** 27,
  })
  return { ok: r.status === 0, text: `${r.stdout ?? ''}${r.stderr ?? ''}${r.error ? r.error.message : ''}` }
}

const configure = () =>
  run('cmake', [
    ...['-S', 'native', '-B', BUILD, '-DSPILLWAY_ADDON=ON', '-DCMAKE_BUILD_TYPE=Release'],
    `-DSPILLWAY_CUDA_SOURCE=${PLANTED}`,
  ])
const build = () => run('cmake', ['--build', BUILD, '--parallel', '2', '--target', ...CHECKS.map(([program]) => program)], 3600)

/** The present sources. A file is written only if it differs, so that its build products stay, and no planted fault does. */
const layOut = () => {
  fs.mkdirSync(PLANTED, { recursive: true })
  for (const name of fs.readdirSync(SOURCES, { recursive: true })) {
    const [from, to] = [path.join(SOURCES, name), path.join(PLANTED, name)]
    if (fs.statSync(from).isDirectory()) fs.mkdirSync(to, { recursive: true })
    else if (!fs.existsSync(to) || !fs.readFileSync(from).equals(fs.readFileSync(to))) fs.copyFileSync(from, to)
  }
}

const CHECKS = [
  ['host_cuda_test', {}],
  ['kernels_host_cuda', { SPILLWAY_TEST_SHARE: '60' }],
  ['host_cuda_ranks_test', {}],
]
/** A program that a fault keeps waiting is over by then; without a fault they take a quarter of a minute. */
const CHECK_SECONDS = 120

const NOTICED = /^(?:cuda rule: .*|FAILED .*)$/m

/** A test program up to the first failure that it tells, with all that it started. Out: null when it ends well. */
const noticed = (program, env) =>
  new Promise((resolve) => {
    const child = spawn('stdbuf', ['-oL', path.join(BUILD, 'tests', program)], {
      cwd: ROOT,
      env: { ...process.env, ...env },
      detached: true,
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    let text = ''
    const end = () => {
      try {
        process.kill(-child.pid, 'SIGKILL')
      } catch {} // it is over
    }
    const late = setTimeout(() => {
      text += '\nFAILED to end\n'
      end()
    }, CHECK_SECONDS * 1000)
    const hears = (chunk) => {
      text += chunk
      if (/(?:cuda rule: |FAILED ).*\n/.test(text)) end()
    }
    child.stdout.on('data', hears)
    child.stderr.on('data', hears)
    child.on('close', (status) => {
      clearTimeout(late)
      resolve(status === 0 ? null : (NOTICED.exec(text)?.[0].slice(0, 160) ?? 'it ended otherwise'))
    })
  })

/** The program that says so, and its first words; null when nobody notices. */
const caughtBy = async () => {
  for (const [program, env] of CHECKS) {
    const words = await noticed(program, env)
    if (words !== null) return { by: program, words }
  }
  return null
}

const give = (words) => {
  console.error(words)
  process.exit(1)
}

/** Out: its row. If nothing of it compiles, no test has caught it. */
const planted = async ({ name, file, from, to }) => {
  const at = path.join(PLANTED, file)
  const right = fs.readFileSync(at, 'utf8')
  fs.writeFileSync(
    at,
    right.replace(from, () => to),
  )
  const built = build()
  const caught = built.ok ? await caughtBy() : null
  const missed = built.ok ? 'nobody says a word' : `it does not compile: ${/error: .*/.exec(built.text)?.[0] ?? ''}`
  fs.writeFileSync(at, right)
  console.log(`${caught ? 'caught' : 'MISSED'}  ${name}: ${caught ? `${caught.by} ${caught.words}` : missed}`)
  return { name, file, caught: caught !== null, ...(caught ?? { words: missed }) }
}

const known = () => (fs.existsSync(RESULT) ? JSON.parse(fs.readFileSync(RESULT, 'utf8')).rows : [])
const write = (rows) =>
  fs.writeFileSync(
    RESULT,
    `${JSON.stringify({ planted: rows.length, caught: rows.filter((r) => r.caught).length, rows }, null, 2)}\n`,
  )

const main = async (words) => {
  const asked = FAULTS.filter((f) => words.length === 0 || words.some((w) => f.name.includes(w)))
  if (asked.length === 0) give(`no fault's name holds ${words.join(' or ')}; there are:\n${FAULTS.map((f) => f.name).join('\n')}`)
  const gone = asked.filter((f) => !fs.readFileSync(path.join(SOURCES, f.file), 'utf8').includes(f.from))
  if (gone.length > 0) give(`what is to be changed is not there any more:\n${gone.map((f) => `${f.file}: ${f.name}`).join('\n')}`)
  // Without them the tests are built without the device, and pass.
  const why = headersHere()
  if (why) give(why)
  layOut()
  const configured = configure()
  const first = configured.ok ? build() : configured
  if (!first.ok) give(first.text.slice(-2000))
  const without = await caughtBy()
  if (without) give(`the tests fail without a fault: ${without.by} ${without.words}`)
  const rows = new Map(known().map((r) => [r.name, r]))
  for (const one of asked) {
    rows.set(one.name, await planted(one))
    write(FAULTS.flatMap((f) => rows.get(f.name) ?? []))
  }
  const caught = asked.filter((f) => rows.get(f.name).caught).length
  console.log(`${caught} of ${asked.length} caught`)
  process.exitCode = caught === asked.length ? 0 : 1
}

module.exports = { FAULTS, SOURCES }
if (require.main === module) main(process.argv.slice(2))
