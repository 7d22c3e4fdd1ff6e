// `spillway doctor`: what this machine has, what is missing and how to get it.
import { right } from 'fp-ts/Either'
import { doctor, reportText } from '../doctor/doctor'
import type { Done, Output } from './output'

export const runDoctor = (out: Output): Done => {
  const report = doctor()
  return right(out.answer(report, reportText(report)))
}
