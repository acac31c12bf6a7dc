// The allowed imports. The table is the architecture: dependencies point in one direction, outsiders are limited to the
// API, and each library has one home, so that its replacement concerns one folder.

import { type File, file, imports, isCode, isProduction, type Rule, resolveImport } from "./source.ts";

const SHARED = [
  "protocol",
  "runtime",
  "store",
  "bus",
  "integrity",
  "lifecycle",
  "records",
  "mirror",
  "artifacts",
  "prompts",
  "transfer",
  "sdk",
  "service-host",
].map((name) => `shared/${name}`);
const OUTSIDER = ["shared/protocol", "shared/runtime", "shared/prompts", "shared/bus", "shared/sdk"];
const SERVICES = ["writer", "reader", "coordinator", "watchdog", "signer"].map((name) => `services/${name}`);
const OUTSIDERS = ["cli", "gateway", "hook", "mcp", "runner"].map((name) => `services/${name}`);

/** Folder → the folders it may import besides itself. */
const LAYERS: Record<string, readonly string[]> = {
  "shared/protocol": [],
  "shared/runtime": ["shared/protocol"],
  "shared/integrity": ["shared/protocol", "shared/runtime"],
  "shared/lifecycle": ["shared/protocol", "shared/integrity"],
  "shared/prompts": ["shared/protocol", "shared/integrity"],
  "shared/transfer": ["shared/protocol", "shared/integrity", "shared/lifecycle"],
  "shared/store": ["shared/protocol", "shared/runtime"],
  "shared/bus": ["shared/protocol", "shared/runtime"],
  "shared/records": ["shared/protocol", "shared/lifecycle", "shared/integrity", "shared/store"],
  "shared/mirror": [
    "shared/protocol",
    "shared/runtime",
    "shared/integrity",
    "shared/records",
    "shared/store",
  ],
  "shared/artifacts": ["shared/protocol", "shared/integrity", "shared/bus"],
  "shared/sdk": ["shared/protocol", "shared/runtime", "shared/integrity", "shared/prompts", "shared/bus"],
  "shared/service-host": SHARED.filter(
    (folder) => folder !== "shared/service-host" && folder !== "shared/sdk",
  ),
  ...Object.fromEntries(SERVICES.map((service) => [service, SHARED])),
  ...Object.fromEntries(OUTSIDERS.map((service) => [service, OUTSIDER])),
  // It compares the files of the mirror with the fleet.
  "services/cli": [...OUTSIDER, "shared/transfer", "shared/mirror"],
  // Secrets are removed before anything leaves the machine.
  "services/hook": [...OUTSIDER, "shared/integrity"],
  "services/standalone": [...SHARED, ...SERVICES, ...OUTSIDERS, "deploy/local"],
  "deploy/demo": ["shared/sdk"],
  "deploy/examples": ["shared/sdk"],
  "deploy/package": [],
  "deploy/image": [],
  // It makes for containers what the standalone fleet makes for itself.
  "deploy/compose": ["shared/bus", "shared/integrity", "shared/runtime", "shared/sdk", "services/standalone"],
  "deploy/settings": [...SHARED, ...SERVICES, ...OUTSIDERS, "services/standalone"],
  "deploy/sizing": ["shared/protocol", "shared/bus", "shared/runtime"],
  "deploy/hook": ["deploy/local"],
  "deploy/prometheus": [],
  "deploy/grafana": [],
  "deploy/local": ["deploy/hook", ...SHARED, ...SERVICES, ...OUTSIDERS, "services/standalone"],
};

/** Package (or scope with a star) → the places where production code may import it. */
const HOMES: Record<string, readonly string[]> = {
  zod: ["shared/protocol/"],
  "@nats-io/*": ["shared/bus/"],
  lmdb: ["shared/store/"],
  foundationdb: ["shared/store/foundationdb", "shared/store/drivers/foundationdb"],
  "fdb-tuple": ["shared/records/kv/key-elements.ts", "shared/records/kv/keyspace.ts"],
  msgpackr: ["shared/integrity/", "shared/records/", "shared/bus/", "shared/sdk/"],
  uuidv7: ["shared/sdk/", "services/gateway/", "services/watchdog/", "services/writer/sweeps/"],
  pino: ["shared/runtime/"],
  "prom-client": ["shared/runtime/"],
  "@opentelemetry/*": ["shared/runtime/"],
  "gpt-tokenizer": ["shared/prompts/"],
  "p-limit": ["services/coordinator/", "shared/runtime/"],
  canonicalize: ["shared/integrity/"],
  "@secretlint/*": ["shared/integrity/"],
  "@aws-sdk/client-kms": ["shared/integrity/encryption/"],
  aws4fetch: ["services/watchdog/anchors/"],
  hono: ["services/gateway/"],
  "@hono/*": ["services/gateway/"],
  jose: ["shared/bus/"],
  "openid-client": ["services/cli/"],
  "@modelcontextprotocol/sdk": ["services/mcp/"],
  "@kubernetes/client-node": ["services/runner/"],
  "@langchain/*": ["shared/sdk/"],
  pg: ["services/cli/commands/langgraph/"],
  commander: ["services/cli/"],
  "@clack/prompts": ["services/cli/"],
  "string-width": ["services/cli/"],
  picocolors: ["services/cli/", "deploy/demo/"],
  yaml: ["shared/protocol/generate/"],
};

const folderOf = (path: string): string => path.split("/").slice(0, 2).join("/");
const isRelative = (specifier: string): boolean => specifier.startsWith(".");
const packageOf = (specifier: string): string =>
  specifier
    .split("/")
    .slice(0, specifier.startsWith("@") ? 2 : 1)
    .join("/");

export const layers: Rule = {
  name: "imports follow the table of layers",
  check: (files) =>
    files.filter(isProduction).flatMap((one) => {
      const own = folderOf(one.path);
      const allowed = LAYERS[own];
      if (!allowed) return [`${one.path}: ${own} has no row in LAYERS of test/tidy/layers.ts; add one`];
      return imports(one)
        .filter(isRelative)
        .map((specifier) => folderOf(resolveImport(one, specifier)))
        .filter((target) => target !== own && !allowed.includes(target))
        .map(
          (target) =>
            `${one.path}: must not import ${target}; ${own} may import ${allowed.join(", ") || "nothing"}`,
        );
    }),
  broken: [file("shared/protocol/ids.ts", 'import type { Store } from "../store/store.ts";')],
  kept: [
    file("shared/store/store.ts", 'import { LIMITS } from "../protocol/limits.ts"; import "./open.ts";'),
  ],
};

export const packageHomes: Rule = {
  name: "each package is imported from its home only",
  check: (files) => {
    const known = dependencyNames(files);
    return files.filter(isCode).flatMap((one) =>
      imports(one)
        .filter((specifier) => !isRelative(specifier) && !specifier.startsWith("node:"))
        .map(packageOf)
        .flatMap((name) => violationsOf(one, name, known)),
    );
  },
  broken: [
    file("package.json", '{"dependencies":{"lmdb":"1"}}'),
    file("shared/sdk/client/client.ts", 'const { open } = await import("lmdb");'),
  ],
  kept: [
    file("package.json", '{"dependencies":{"lmdb":"1"}}'),
    file("shared/store/open.ts", 'import { open } from "lmdb"; import "node:fs";'),
  ],
};

function violationsOf(one: File, name: string, known: ReadonlySet<string>): string[] {
  if (!known.has(name)) return [`${one.path}: ${name} is not in package.json; add it there`];
  if (!isProduction(one)) return [];
  const homes = HOMES[name] ?? HOMES[`${name.split("/")[0]}/*`];
  if (!homes) return [`${one.path}: ${name} has no row in HOMES of test/tidy/layers.ts; add one`];
  if (homes.some((home) => one.path.startsWith(home))) return [];
  return [`${one.path}: must not import ${name}; use ${homes.join(" or ")}`];
}

function dependencyNames(files: readonly File[]): ReadonlySet<string> {
  const manifest = JSON.parse(files.find(({ path }) => path === "package.json")?.text ?? "{}");
  const { dependencies, devDependencies, optionalDependencies, peerDependencies } = manifest;
  return new Set(
    Object.keys({ ...dependencies, ...devDependencies, ...optionalDependencies, ...peerDependencies }),
  );
}

export const cycles: Rule = {
  name: "no import cycle",
  check: (files) => {
    const code = new Map(files.filter(isCode).map((one) => [one.path, one]));
    const done = new Set<string>();
    const found: string[] = [];
    const follow = (path: string, trail: readonly string[]): void => {
      const one = code.get(path);
      if (!one || done.has(path)) return;
      if (trail.includes(path)) {
        const loop = [...trail.slice(trail.indexOf(path)), path].join(" → ");
        found.push(`${path}: import cycle ${loop}; move the shared part to a separate file`);
        return;
      }
      for (const specifier of imports(one).filter(isRelative))
        follow(resolveImport(one, specifier), [...trail, path]);
      done.add(path);
    };
    for (const path of code.keys()) follow(path, []);
    return found;
  },
  broken: [
    file("shared/bus/a.ts", 'import "./b.ts";'),
    file("shared/bus/b.ts", 'export * from "./c.ts";'),
    file("shared/bus/c.ts", 'import type { A } from "./a.ts";'),
  ],
  kept: [
    file("shared/bus/a.ts", 'import "./b.ts"; import "./c.ts";'),
    file("shared/bus/b.ts", 'import "./c.ts";'),
    file("shared/bus/c.ts"),
  ],
};
