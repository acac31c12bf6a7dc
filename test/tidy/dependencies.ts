// What comes from elsewhere is named and locked.

import { type File, file, type Rule } from "./source.ts";

const read = (files: readonly File[], name: string): string =>
  files.find(({ path }) => path === name)?.text ?? "";

export const explained: Rule = {
  name: "the README's table of dependencies names each of them",
  check: (files) => {
    const manifest = JSON.parse(read(files, "package.json") || "{}");
    const names = Object.keys({
      ...manifest.dependencies,
      ...manifest.devDependencies,
      ...manifest.optionalDependencies,
    });
    const section =
      /^#+ [^\n]*dependenc[^\n]*\n([\s\S]*?)(?=^#+ |(?![\s\S]))/im.exec(read(files, "README.md"))?.[1] ?? "";
    const told = [...section.matchAll(/`([^`]+)`/g)].map(([, name]) => name!);
    const isTold = (name: string): boolean =>
      told.some((one) => one === name || (one.endsWith("*") && name.startsWith(one.slice(0, -1))));
    return names
      .filter((name) => !isTold(name))
      .map(
        (name) => `README.md: says nothing about the dependency ${name}; add it to the table, with its job`,
      );
  },
  broken: [
    file("package.json", '{"dependencies":{"lmdb":"1","zod":"4"}}'),
    file("README.md", "# Dependencies\n| `zod` |\n# Rest\n`lmdb`\n"),
  ],
  kept: [
    file("package.json", '{"dependencies":{"@nats-io/a":"1","zod":"4"}}'),
    file("README.md", "## Dependencies\n| `zod`, `@nats-io/*` |\n"),
  ],
};

interface Locked {
  version?: string;
  optionalDependencies?: Record<string, string>;
}

// npm leaves a platform's package out when the registry in use does not have it; `npm ci` then refuses to work.
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
