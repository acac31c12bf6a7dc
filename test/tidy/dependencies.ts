// The documentation and the lock file of the dependencies.

import { type File, file, type Rule } from "./source.ts";

const read = (files: readonly File[], name: string): string =>
  files.find(({ path }) => path === name)?.text ?? "";

const PAGE = "deploy/DEPENDENCIES.md";

export const explained: Rule = {
  name: `${PAGE} names each dependency, and no other`,
  check: (files) => {
    const manifest = JSON.parse(read(files, "package.json") || "{}");
    const names = Object.keys({
      ...manifest.dependencies,
      ...manifest.devDependencies,
      ...manifest.optionalDependencies,
      ...manifest.peerDependencies,
    });
    const firstCells = [...read(files, PAGE).matchAll(/^\|([^|]*)\|/gm)].map(([, cell]) => cell!);
    const listed = firstCells.flatMap((cell) => [...cell.matchAll(/`([^`]+)`/g)].map(([, name]) => name!));
    const matches = (row: string, name: string): boolean =>
      row === name || (row.endsWith("*") && name.startsWith(row.slice(0, -1)));
    return [
      ...names
        .filter((name) => !listed.some((row) => matches(row, name)))
        .map((name) => `${PAGE}: has no row for ${name}; add one with its job`),
      ...listed
        .filter((row) => !names.some((name) => matches(row, name)))
        .map((row) => `${PAGE}: has a row for ${row}, which is not in package.json; remove it`),
    ];
  },
  broken: [
    file("package.json", '{"dependencies":{"lmdb":"1","zod":"4"}}'),
    file(PAGE, "| `zod` |\n`lmdb`\n"),
  ],
  kept: [
    file("package.json", '{"dependencies":{"@nats-io/a":"1","zod":"4"}}'),
    file(PAGE, "| `zod`, `@nats-io/*` | `job` |\n"),
  ],
};

interface Locked {
  version?: string;
  optionalDependencies?: Record<string, string>;
}

// npm omits a platform's package when the registry does not have it, and then `npm ci` fails.
export const locked: Rule = {
  name: "the lock file is complete for every platform",
  check: (files) => {
    const packages: Record<string, Locked> =
      JSON.parse(read(files, "package-lock.json") || "{}").packages ?? {};
    const present = new Set(
      Object.entries(packages)
        .filter(([, { version }]) => version)
        .map(([path]) => path.replace(/^.*node_modules\//, "")),
    );
    return Object.values(packages)
      .flatMap(({ optionalDependencies = {} }) => Object.keys(optionalDependencies))
      .filter((name) => !present.has(name))
      .map((name) => `package-lock.json: ${name} is missing, so npm ci refuses; add its version, os and cpu`);
  },
  broken: [
    file(
      "package-lock.json",
      '{"packages":{"node_modules/a":{"version":"1","optionalDependencies":{"a-linux":"1"}}}}',
    ),
  ],
  kept: [
    file(
      "package-lock.json",
      '{"packages":{"node_modules/a":{"version":"1","optionalDependencies":{"b":"1"}},"node_modules/b":{"version":"1"}}}',
    ),
  ],
};
