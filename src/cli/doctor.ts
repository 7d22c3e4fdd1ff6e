// `spillway doctor`: the parts that this machine has, the missing ones, and the way to get them.
import { right } from 'fp-ts/Either'
import { doctor, reportText } from '../doctor/doctor'
import type { Done, Output } from './output'

export const runDoctor = (out: Output): Done => {
  const report = doctor()
  return right(out.answer(report, reportText(report)))
}
