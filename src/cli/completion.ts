// `spillway completion SHELL`: the answers to Tab in a shell, as a script for it. In: the commands as they are declared, and the names that their
// options take. Out: the script. Invariant: it holds all names itself, so that completing starts no process. bash breaks words at colons, which some
// strategies have: the part before it is there already, and is not offered again.
import * as E from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import type { Command, Option } from 'commander'
import { type SpillwayError, unknownName } from '../errors/errors'
import type { Done, Output } from './output'

export const INSTALLING = `
Write the script where the shell finds it:
  spillway completion bash > ~/.local/share/bash-completion/completions/spillway
  spillway completion zsh > ~/.zfunc/_spillway        (in a folder of $fpath)
  spillway completion fish > ~/.config/fish/completions/spillway.fish`

/** The next word: one of some names, several with commas between them, files, folders, or anything (no names). */
interface Follows {
  readonly kind: 'names' | 'list' | 'files' | 'folders' | 'switch'
  readonly names: readonly string[]
}
interface Flag {
  readonly long: string
  readonly about: string
  readonly follows: Follows
}
interface Completed {
  readonly name: string
  readonly about: string
  readonly flags: readonly Flag[]
  /** The argument, when it takes one; a model is a name or a file. */
  readonly argument?: Follows & { readonly called: string }
}

type ValuesOf = (of: string) => readonly string[]

const FILES = ['<file>', '<path>', '<where>', '<plan>', '<model>']

const followsOf = (placeholder: string, names: readonly string[]): Follows => ({
  names,
  kind:
    placeholder === ''
      ? 'switch'
      : placeholder === '<dir>'
        ? 'folders'
        : FILES.includes(placeholder)
          ? 'files'
          : placeholder === '<a,b>'
            ? 'list'
            : 'names',
})

const flagOf =
  (valuesOf: ValuesOf) =>
  ({ long, flags, description }: Option): Flag => ({
    long: long ?? '',
    about: description,
    follows: followsOf(/<.*>/.exec(flags)?.[0] ?? '', valuesOf(long ?? '')),
  })

const HELP: Flag = { long: '--help', about: 'display help for command', follows: followsOf('', []) }

const completed = (commands: readonly Command[], valuesOf: ValuesOf): readonly Completed[] =>
  commands.map((c) => {
    const [first] = c.registeredArguments
    const called = `<${first?.name()}>`
    return {
      name: c.name(),
      about: c.description(),
      flags: [...c.options.map(flagOf(valuesOf)), HELP],
      ...(first === undefined ? {} : { argument: { ...followsOf(called, valuesOf(called)), called: first.name() } }),
    }
  })

/** In single quotes, as all three shells read them. */
const quoted = (text: string): string => `'${text.replace(/'/g, `'\\''`)}'`
const words = (names: readonly string[]): string => quoted(names.join(' '))

// ---------------------------------------------------------------- bash

const bashFollows = ({ kind, names }: Follows): string => {
  const offered = names.length > 0 ? `_spillway_names ${words(names)}; ` : ''
  switch (kind) {
    case 'list':
      return `_spillway_list ${words(names)}`
    case 'folders':
      return '_spillway_files -d'
    case 'files':
      return `${offered}_spillway_files -f`
    default:
      return offered === '' ? ':' : offered.slice(0, -2)
  }
}

const bashCommand = ({ name, flags, argument }: Completed): string => {
  const taking = flags.filter((f) => f.follows.kind !== 'switch')
  return [
    `  ${name})`,
    '    case "$prev" in',
    ...taking.map((f) => `      ${f.long}) ${bashFollows(f.follows)} ;;`),
    `      *) case "$cur" in -*) _spillway_names ${words(flags.map((f) => f.long))} ;; *) ${argument ? bashFollows(argument) : ':'} ;; esac ;;`,
    '    esac ;;',
  ].join('\n')
}

const bash = (commands: readonly Completed[]): string => `# Completion of spillway for bash.
_spillway_names() { COMPREPLY+=($(compgen -W "$1" -- "$cur")); }
_spillway_files() { compopt -o filenames 2>/dev/null; COMPREPLY+=($(compgen "$1" -- "$cur")); }
_spillway_list() { local last="\${cur##*,}"; COMPREPLY+=($(compgen -P "\${cur%"$last"}" -W "$1" -- "$last")); }
_spillway() {
  local line="\${COMP_LINE:0:COMP_POINT}"
  local -a typed
  read -ra typed <<< "$line"
  [ "\${line: -1}" = ' ' ] && typed+=('')
  local cur="\${typed[-1]}" prev="\${typed[-2]}" there
  COMPREPLY=()
  if [ "\${#typed[@]}" -le 2 ]; then
    _spillway_names ${words(commands.map((c) => c.name))}
  else case "\${typed[1]}" in
${commands.map(bashCommand).join('\n')}
  esac; fi
  there="\${cur%"\${cur##*:}"}"
  [[ "$COMP_WORDBREAKS" == *:* ]] && COMPREPLY=("\${COMPREPLY[@]#"$there"}")
}
complete -F _spillway spillway`

// ---------------------------------------------------------------- zsh

const zshFunction = (command: string, what: string): string => `_spillway_${command}_${what.replace(/\W+/g, '')}`
const zshNames = (follows: Follows): string => {
  const names = follows.names.map(quoted).join(' ')
  if (follows.kind === 'list') return `compset -P '*,'; compadd -q -S '' -- ${names}`
  return `compadd -- ${names}${follows.kind === 'files' ? '; _files' : ''}`
}
const zshAction = (command: string, what: string, follows: Follows): string =>
  follows.names.length > 0
    ? zshFunction(command, what)
    : follows.kind === 'folders'
      ? '_files -/'
      : follows.kind === 'files'
        ? '_files'
        : ' '
const zshEscaped = (text: string): string => text.replace(/[[\]:\\]/g, '\\$&')

const zshFlag = (command: string, { long, about, follows }: Flag): string => {
  const after = follows.kind === 'switch' ? '' : `:${long.slice(2)}:${zshAction(command, long, follows)}`
  return quoted(`${long}[${zshEscaped(about)}]${after}`)
}

const zshCommand = ({ name, flags, argument }: Completed): string => {
  const own = argument === undefined ? [] : [quoted(`1:${argument.called}:${zshAction(name, argument.called, argument)}`)]
  return `    ${name}) _arguments ${[...flags.map((f) => zshFlag(name, f)), ...own].join(' \\\n      ')} ;;`
}

const zshFunctions = ({ name, flags, argument }: Completed): readonly string[] =>
  [
    ...flags.map((f): readonly [string, Follows] => [f.long, f.follows]),
    ...(argument === undefined ? [] : [[argument.called, argument] as const]),
  ]
    .filter(([, follows]) => follows.names.length > 0)
    .map(([what, follows]) => `${zshFunction(name, what)}() { ${zshNames(follows)} }`)

const zsh = (commands: readonly Completed[]): string => `#compdef spillway
# Completion of spillway for zsh.
${commands.flatMap(zshFunctions).join('\n')}
_spillway() {
  local -a commands
  commands=(${commands.map((c) => quoted(`${c.name}:${c.about}`)).join('\n    ')})
  if (( CURRENT == 2 )); then _describe command commands; return; fi
  local command=$words[2]
  shift words
  (( CURRENT-- ))
  case $command in
${commands.map(zshCommand).join('\n')}
  esac
}
if [ "$funcstack[1]" = _spillway ]; then _spillway "$@"; else compdef _spillway spillway; fi`

// ---------------------------------------------------------------- fish

const fishFollows = ({ kind, names }: Follows): string => {
  const offered = names.length > 0 ? ` -a ${words(names)}` : ''
  switch (kind) {
    case 'switch':
      return ''
    case 'files':
      return ` -r -F${offered}`
    case 'folders':
      return " -x -a '(__fish_complete_directories)'"
    case 'list':
      return ` -x -a '(__fish_append , ${names.join(' ')})'`
    default:
      return ` -x${offered}`
  }
}

const fishCommand = ({ name, flags, argument }: Completed): readonly string[] => {
  const seen = `complete -c spillway -n '__fish_seen_subcommand_from ${name}'`
  const ownNames = argument && argument.names.length > 0 ? ` -a ${words(argument.names)}` : ''
  return [
    ...(argument ? [`${seen}${argument.kind === 'files' ? ' -F' : ''}${ownNames}`] : []),
    ...flags.map((f) => `${seen} -l ${f.long.slice(2)}${fishFollows(f.follows)} -d ${quoted(f.about)}`),
  ]
}

const fish = (commands: readonly Completed[]): string =>
  [
    '# Completion of spillway for fish.',
    'complete -c spillway -f',
    ...commands.map((c) => `complete -c spillway -n __fish_use_subcommand -a ${c.name} -d ${quoted(c.about)}`),
    ...commands.flatMap(fishCommand),
  ].join('\n')

// ---------------------------------------------------------------- the command

const SCRIPTS: Readonly<Record<string, (commands: readonly Completed[]) => string>> = { bash, zsh, fish }
export const SHELLS: readonly string[] = Object.keys(SCRIPTS)

export const printCompletion = (shell: string, commands: readonly Command[], valuesOf: ValuesOf, out: Output): Done =>
  pipe(
    SCRIPTS[shell],
    E.fromNullable<SpillwayError>(unknownName('shell', shell, SHELLS)),
    E.map((scriptOf) => scriptOf(completed(commands, valuesOf))),
    E.map((script) => out.answer({ shell, script }, script)),
  )
