// The templates of `spillway new` and their purposes, in the order of the help. The files are in examples/templates.
export const TEMPLATES = {
  classify: 'a classifier of images',
  segment: 'a U-Net that labels each pixel',
  finetune: 'a new head on trained layers',
} as const
export type TemplateName = keyof typeof TEMPLATES
export const templateNames = Object.keys(TEMPLATES) as readonly TemplateName[]
