// Pages and bytes: the holders of pages, their times, and the contents of copies.
import { test } from 'uvu'
import { bytesOf, PAGE_BYTES } from '../../staging/core/bytes'
import type { MutablePlan } from './draft'
import { swapPlan, tiledPlan } from './handmade'
import { allResident, refuses, stay } from './refused'

const residents = (): MutablePlan => allResident(swapPlan())
const storageOf = (p: MutablePlan, label: string) => p.storages.find((s) => s.label === label)!

// ---------------------------------------------------------------- bytes that cells share

/** Cell `label` moves to the start of the storage of `onto`. */
const stackedOn =
  (label: string, onto: string) =>
  (p: MutablePlan): void => {
    const from = storageOf(p, label)
    const to = storageOf(p, onto)
    const cell = from.cells[0]!
    from.cells = []
    to.cells.push(cell)
    to.bytes = Math.max(to.bytes, from.bytes)
    p.places[cell]! = { storage: to.id, offset: 0 }
  }

refuses(
  'two values at one place while both are needed',
  'clobbered',
  residents,
  stackedOn('c2.grad', 'c1'),
  /the bytes of cell 'c1' are now in 'c2.grad'/,
)
refuses('an operand at the place of another of the same call', 'clobbered', residents, stackedOn('r1.grad', 'c1'), /shares bytes/)
refuses(
  'scratch at the place of an operand',
  'clobbered',
  residents,
  stackedOn('scratch', 'c1'),
  /shares bytes with another operand/,
)
refuses('a weight at the place of a weight', 'clobbered', residents, stackedOn('c2.weight', 'c1.weight'))
refuses(
  'a parameter is overwritten after its last use',
  'clobbered',
  residents,
  stackedOn('c1.weight.grad', 'c2.weight'),
  /next step's expectation/,
)

// ---------------------------------------------------------------- presence

refuses('pages come one call late', 'resident', swapPlan, (p) => {
  stay(p, 'r1.grad').acquire++
  sort(p)
})
refuses('pages go one call early', 'resident', swapPlan, (p) => {
  stay(p, 'r1.grad').release--
})
refuses('one page of two is never there', 'resident', swapPlan, (p) => {
  const r = stay(p, 'c2.grad')
  r.to = 1
  r.runs = [r.runs[0]!]
})
refuses(
  'a weight leaves before the step ends',
  'resident',
  swapPlan,
  (p) => {
    stay(p, 'c2.weight').release = 8
  },
  /first call to the last/,
)
refuses(
  'a swap in is not waited for before the bytes are read',
  'arriving',
  swapPlan,
  (p) => {
    stay(p, 'c1', 1).swapIn!.ready = 6
  },
  /still arriving/,
)
refuses('the image is not waited for', 'arriving', swapPlan, (p) => {
  stay(p, 'image').release = 2
  stay(p, 'image').swapIn!.ready = 1
})
refuses(
  'a call writes what is being swapped out',
  'leaving',
  swapPlan,
  (p) => {
    stay(p, 'c1').swapOut!.start = 1
  },
  /written while it is swapped out/,
)

const sort = (p: MutablePlan): void => {
  p.residencies.sort((a, b) => a.acquire - b.acquire)
}

// ---------------------------------------------------------------- what comes back

refuses(
  'bytes leave without a swap out and come back as garbage',
  'lost',
  swapPlan,
  (p) => {
    delete stay(p, 'c1').swapOut
    delete stay(p, 'c1', 1).swapIn
  },
  /not swapped in/,
)
refuses('bytes are saved and never loaded', 'lost', swapPlan, (p) => {
  delete stay(p, 'c1', 1).swapIn
})
refuses('one page of two is not loaded', 'lost', swapPlan, (p) => {
  const r = stay(p, 'c1', 1)
  const [first, second] = r.runs
  p.residencies.push(
    { ...structuredClone(r), to: 1, runs: [first!] },
    { storage: r.storage, from: 1, to: 2, acquire: r.acquire, release: r.release, runs: [second!] },
  )
  p.residencies.splice(p.residencies.indexOf(r), 1)
  sort(p)
})
refuses('the image is on the device but was never read', 'arriving', swapPlan, (p) => {
  delete stay(p, 'image').swapIn
})
refuses('the image is gone and not read again', 'arriving', swapPlan, (p) => {
  delete stay(p, 'image', 1).swapIn
})
refuses(
  'what was written after the swap out is dropped, and the old copy swapped in',
  'lost',
  swapPlan,
  (p) => {
    const r = stay(p, 'r1.grad')
    const tierOffset = p.tierBytes
    p.tierBytes *= 2
    const again = (acquire: number, release: number) => ({
      ...structuredClone(r),
      acquire,
      release,
      tierOffset,
      swapIn: { ready: acquire, from: 'tier' as const },
    })
    p.residencies.push(again(8, 9), again(9, 10))
    Object.assign(r, { release: 8, tierOffset, swapOut: { start: 7 } })
    sort(p)
  },
  /'c1.grad'.*not swapped in/,
)
refuses(
  'a swap in of what nobody swapped out',
  'tier',
  swapPlan,
  (p) => {
    delete stay(p, 'c1').swapOut
  },
  /which was not swapped out to there/,
)
refuses('a swap in from another place than the swap out', 'tier', swapPlan, (p) => {
  p.tierBytes *= 2
  stay(p, 'c1', 1).tierOffset = PAGE_BYTES
})
refuses(
  'a swap in starts before its swap out is waited for',
  'pages',
  swapPlan,
  (p) => {
    stay(p, 'c1').release = 5
  },
  /already on the device/,
)
refuses(
  'another swap out takes the place in the lower tier',
  'tier',
  swapPlan,
  (p) => {
    const r = stay(p, 'c2')
    r.release = 5
    r.swapOut = { start: 3 }
    r.tierOffset = 0
  },
  /which was not swapped out|still being swapped in/,
)
refuses(
  'a swap out over bytes that are still being swapped in',
  'tier',
  swapPlan,
  (p) => {
    const r = stay(p, 'c2.grad')
    r.release = 8
    r.swapOut = { start: 5 }
    r.tierOffset = 0
  },
  /still being swapped in/,
)
refuses(
  'data is fed over computed values',
  'structure',
  swapPlan,
  (p) => {
    stay(p, 'c1', 1).swapIn!.from = 'source'
  },
  /data source/,
)

// ---------------------------------------------------------------- physical pages and the budget

refuses('two residencies share a physical page', 'pages', swapPlan, (p) => {
  stay(p, 'c2').runs[0]!.page = stay(p, 'loss').runs[0]!.page
})
refuses(
  'a page is on the device twice',
  'pages',
  residents,
  (p) => {
    const r = stay(p, 'c2')
    p.residencies.push({ ...structuredClone(r), runs: [{ page: p.peakPages, count: 2 }] })
    p.peakPages += 2
    p.budgetBytes += bytesOf(2)
  },
  /already on the device/,
)
refuses('a physical page outside the pool', 'pages', swapPlan, (p) => {
  stay(p, 'c2').runs[0]!.page = p.peakPages
})
refuses('one page more than the budget', 'budget', swapPlan, (p) => {
  p.budgetBytes -= 1
})
refuses('a planned peak that is not reached', 'peak', swapPlan, (p) => {
  p.peakPages++
  p.budgetBytes += PAGE_BYTES
})

// ---------------------------------------------------------------- the end

refuses(
  'the loss leaves before anybody reads it',
  'end',
  swapPlan,
  (p) => {
    stay(p, 'loss').release = 9
  },
  /left the device/,
)
refuses('the loss is saved instead of staying', 'end', tiledPlan, (p) => {
  stay(p, 'loss').release--
})

test.run()
