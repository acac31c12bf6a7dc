// The parts list of the image, from the lock file and real files.

import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import {
  type LockedPackage,
  type LockedPackages,
  type PartsList,
  partsList,
} from "../../../deploy/image/sbom.ts";
import { findNatsServer } from "../../../deploy/local/nats-binary.mjs";
import { projectRoot } from "../../harness/project-root.ts";

const folder = mkdtempSync(join(tmpdir(), "fleet-sbom-"));
const manifest = JSON.parse(readFileSync(join(projectRoot, "package.json"), "utf8"));
const libfdb = join(folder, "libfdb_c.so");
let list: PartsList;
let natsServer: string;

/** What `npm ci --omit=dev` installs on all processors together. */
function production(): LockedPackages {
  const { packages } = JSON.parse(readFileSync(join(projectRoot, "package-lock.json"), "utf8"));
  return Object.fromEntries(
    Object.entries(packages as Record<string, LockedPackage>).filter(([, { dev }]) => dev !== true),
  );
}
const make = (fdbVersion: string) => partsList(manifest, production(), { natsServer, libfdb, fdbVersion });

beforeAll(() => {
  const found = findNatsServer({ root: projectRoot });
  if ("problem" in found) throw new Error(found.problem);
  natsServer = found.path;
  writeFileSync(libfdb, "\x007.3.63\0");
  list = make("7.3.63");
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

test("it has the production packages, and none of the others", () => {
  const image = JSON.parse(readFileSync(join(projectRoot, "deploy/image/package.json"), "utf8"));
  const found = new Map(list.components.map(({ name, version }) => [name, version]));
  const needed = {
    ...manifest.dependencies,
    ...manifest.optionalDependencies,
    ...image.dependencies,
    ...image.optionalDependencies,
  };
  for (const [name, version] of Object.entries(needed)) expect(found.get(name), name).toBe(version);
  for (const name of ["vitest", "typescript", "@biomejs/biome", "fast-check", "pg"])
    expect(found.has(name), name).toBe(false);
  expect(list).toMatchObject({ bomFormat: "CycloneDX", metadata: { component: { name: "fleet" } } });
});

test("every npm package has the hash of the lock file", () => {
  const packages = list.components.filter(({ purl }) => purl?.startsWith("pkg:npm/"));
  expect(packages.length).toBeGreaterThan(80);
  const without = packages.filter(({ hashes }) => hashes?.[0]?.alg !== "SHA-512").map(({ name }) => name);
  // npm records no hash for native code of other processors than those that it knew when the lock file was made.
  expect(without.filter((name) => !name.startsWith("@msgpackr-extract/"))).toEqual([]);
});

test("it has the native parts with their hashes, and the project depends on them", () => {
  const native = list.components.filter(({ name }) => ["nats-server", "libfdb_c", "node"].includes(name));
  expect(native.map(({ name, version }) => [name, version])).toEqual([
    ["libfdb_c", "7.3.63"],
    ["nats-server", expect.stringMatching(/^2\.\d+\.\d+/)],
    ["node", process.versions.node],
  ]);
  expect(native[0]?.hashes).toEqual([{ alg: "SHA-256", content: expect.stringMatching(/^[0-9a-f]{64}$/) }]);
  const own = list.dependencies.find(({ ref }) => ref === list.metadata.component["bom-ref"]);
  expect(own?.dependsOn).toEqual(expect.arrayContaining(native.map((one) => one["bom-ref"])));
  const refs = new Set(list.components.map((one) => one["bom-ref"]));
  expect(refs.size).toBe(list.components.length);
  const unknown = list.dependencies.flatMap(({ dependsOn }) => dependsOn).filter((ref) => !refs.has(ref));
  expect(unknown).toEqual([]);
});

test("the same parts give the same bytes, and another library is refused", () => {
  const again = make("7.3.63");
  expect(JSON.stringify(again)).toBe(JSON.stringify(list));
  expect(() => make("7.1.0")).toThrow(/is not of FoundationDB 7\.1\.0/);
});
