// The names of the native build's packages, system by system. In: the text of /etc/os-release. Out: the names, and the line that installs them.
// Invariant: a system of unknown name counts as the one that it resembles, by its own words, and else as Debian.
'use strict'

const DEBIAN = {
  names: { compiler: ['g++'], cmake: ['cmake'], make: ['make'], oneDNN: ['libdnnl-dev'], openCl: ['ocl-icd-opencl-dev'] },
  line: (names) => `apt-get update && apt-get install -y --no-install-recommends ${names.join(' ')}`,
}

const DISTRIBUTIONS = {
  debian: DEBIAN,
  // The same names: oneDNN is in its `universe`, since 24.04 in a version that will do.
  ubuntu: DEBIAN,
  fedora: {
    names: {
      compiler: ['gcc-c++'],
      cmake: ['cmake'],
      make: ['make'],
      oneDNN: ['onednn-devel'],
      // By its contents: its name differs from release to release.
      openCl: ['"pkgconfig(OpenCL)"', 'opencl-headers'],
    },
    line: (names) => `dnf install -y ${names.join(' ')}`,
  },
  arch: {
    names: { compiler: ['gcc'], cmake: ['cmake'], make: ['make'], oneDNN: ['onednn'], openCl: ['ocl-icd', 'opencl-headers'] },
    line: (names) => `pacman -S --needed --noconfirm ${names.join(' ')}`,
  },
}

/** `ID=` first, then the list of `ID_LIKE=`. */
const distributionOf = (osRelease) => {
  const field = (name) => (new RegExp(`^${name}="?([^"\n]*)"?$`, 'm').exec(osRelease)?.[1] ?? '').split(' ')
  const known = [...field('ID'), ...field('ID_LIKE')].find((name) => name in DISTRIBUTIONS)
  return DISTRIBUTIONS[known ?? 'debian']
}

module.exports = { DISTRIBUTIONS, distributionOf }
