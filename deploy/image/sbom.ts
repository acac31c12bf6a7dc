/**
 * The parts list of the image in CycloneDX's JSON (SBOM): the npm packages that are installed, from the lock file that npm keeps beside them,
 * and the native parts from other images. The same parts give the same bytes, so builds can be compared. `npm sbom` is not used: it
 * leaves out packages that development needs as well, and adds a random number and the time.
 *
 * usage: node deploy/image/sbom.ts NATS_SERVER LIBFDB_C FDB_VERSION > sbom.cdx.json
 */
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";

interface Component {
  readonly "bom-ref": string;
  readonly type: string;
  readonly name: string;
  readonly version: string;
  readonly purl: string;
  readonly licenses?: readonly object[];
  readonly hashes?: readonly { readonly alg: string; readonly content: string }[];
}

export interface PartsList {
  readonly bomFormat: "CycloneDX";
  readonly specVersion: string;
  readonly version: number;
  readonly metadata: { readonly component: Component };
  readonly components: readonly Component[];
  readonly dependencies: readonly { readonly ref: string; readonly dependsOn: readonly string[] }[];
}

/** A package of a lock file, by the path of its folder. */
export interface LockedPackage {
  readonly version?: string;
  readonly license?: string;
  readonly integrity?: string;
  readonly link?: boolean;
  readonly dev?: boolean;
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly optionalDependencies?: Readonly<Record<string, string>>;
  readonly peerDependencies?: Readonly<Record<string, string>>;
}

export type LockedPackages = Readonly<Record<string, LockedPackage>>;

export interface NativeFiles {
  /** The path of the program. */
  readonly natsServer: string;
  /** The path of the client library of FoundationDB. */
  readonly libfdb: string;
  readonly fdbVersion: string;
}

/** `packages`: with or without the project itself. Throws if the library is of another version. */
export function partsList(
  project: { readonly name: string; readonly version: string },
  packages: LockedPackages,
  files: NativeFiles,
): PartsList {
  const own = part("application", project.name, project.version, {
    purl: npmUrl(project.name, project.version),
  });
  const native = nativeParts(files);
  const components = new Map(native.map((one) => [one["bom-ref"], one]));
  const dependencies = new Map<string, Set<string>>(native.map((one) => [one["bom-ref"], new Set()]));
  for (const [path, locked] of Object.entries(packages)) {
    const component = npmPart(path, locked);
    if (component === undefined) continue;
    const ref = component["bom-ref"];
    components.set(ref, component);
    const needs = dependencies.get(ref) ?? new Set();
    for (const need of needsOf(path, packages)) needs.add(need);
    dependencies.set(ref, needs);
  }
  // What is at the top of node_modules is there for the project, or for a package that names it itself.
  const top = Object.entries(packages).filter(([path]) => path.lastIndexOf("node_modules/") === 0);
  dependencies.set(
    own["bom-ref"],
    new Set(
      [...native, ...top.flatMap(([path, locked]) => npmPart(path, locked) ?? [])].map(
        (one) => one["bom-ref"],
      ),
    ),
  );
  return {
    bomFormat: "CycloneDX",
    specVersion: "1.5",
    version: 1,
    metadata: { component: own },
    components: [...components.values()].sort((a, b) => order(a["bom-ref"], b["bom-ref"])),
    dependencies: [...dependencies]
      .sort(([a], [b]) => order(a, b))
      .map(([ref, needs]) => ({ ref, dependsOn: [...needs].sort(order) })),
  };
}

const nameOf = (path: string): string =>
  path.slice(path.lastIndexOf("node_modules/") + "node_modules/".length);

/** undefined: the project, or a part of it. */
function npmPart(path: string, { version, license, integrity, link }: LockedPackage): Component | undefined {
  if (!path.includes("node_modules/") || link === true || version === undefined) return undefined;
  const [alg, hash] = integrity?.split("-") ?? [];
  return part("library", nameOf(path), version, {
    purl: npmUrl(nameOf(path), version),
    ...(license !== undefined && { license }),
    ...(alg === "sha512" && hash !== undefined && { sha512: Buffer.from(hash, "base64").toString("hex") }),
  });
}

/** The packages that Node finds from a folder, for the names in its manifest. */
function needsOf(path: string, packages: LockedPackages): string[] {
  const { dependencies, optionalDependencies, peerDependencies } = packages[path] ?? {};
  return Object.keys({ ...dependencies, ...optionalDependencies, ...peerDependencies }).flatMap((name) => {
    for (let at = path; ; at = at.slice(0, Math.max(0, at.lastIndexOf("node_modules/") - 1))) {
      const found = `${at === "" ? "" : `${at}/`}node_modules/${name}`;
      const component = packages[found] && npmPart(found, packages[found]);
      if (component !== undefined) return [component["bom-ref"]];
      if (at === "") return [];
    }
  });
}

function nativeParts({ natsServer, libfdb, fdbVersion }: NativeFiles): Component[] {
  const library = readFileSync(libfdb);
  if (!library.includes(fdbVersion)) throw new Error(`${libfdb} is not of FoundationDB ${fdbVersion}`);
  const printed = execFileSync(natsServer, ["--version"], { encoding: "utf8" });
  const natsVersion = /\bv?(\d+\.\d+\.\d+\S*)/.exec(printed)?.[1];
  if (natsVersion === undefined) throw new Error(`${natsServer} prints no version: ${printed}`);
  const sha256 = (content: Buffer) => createHash("sha256").update(content).digest("hex");
  const node = process.versions.node;
  return [
    part("application", "nats-server", natsVersion, {
      purl: `pkg:golang/github.com/nats-io/nats-server/v2@v${natsVersion}`,
      license: "Apache-2.0",
      sha256: sha256(readFileSync(natsServer)),
    }),
    part("library", "libfdb_c", fdbVersion, {
      purl: `pkg:github/apple/foundationdb@${fdbVersion}`,
      license: "Apache-2.0",
      sha256: sha256(library),
    }),
    part("platform", "node", node, { purl: `pkg:generic/node@${node}`, license: "MIT" }),
  ];
}

interface PartFacts {
  readonly purl: string;
  readonly license?: string;
  readonly sha256?: string;
  readonly sha512?: string;
}

function part(
  type: string,
  name: string,
  version: string,
  { purl, license, sha256, sha512 }: PartFacts,
): Component {
  const hashes = [
    ...(sha256 === undefined ? [] : [{ alg: "SHA-256", content: sha256 }]),
    ...(sha512 === undefined ? [] : [{ alg: "SHA-512", content: sha512 }]),
  ];
  // A text such as "(MIT OR Apache-2.0)" is an expression.
  const terms = license?.includes(" ") ? { expression: license } : { license: { id: license } };
  return {
    "bom-ref": `${name}@${version}`,
    type,
    name,
    version,
    purl,
    ...(license !== undefined && { licenses: [terms] }),
    ...(hashes.length > 0 && { hashes }),
  };
}

const npmUrl = (name: string, version: string): string => `pkg:npm/${name.replace("@", "%40")}@${version}`;
const order = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);

if (import.meta.main) {
  const [natsServer = "", libfdb = "", fdbVersion = ""] = process.argv.slice(2);
  const read = (path: string) => JSON.parse(readFileSync(path, "utf8"));
  const { packages } = read("node_modules/.package-lock.json") as { packages: LockedPackages };
  const list = partsList(read("package.json"), packages, { natsServer, libfdb, fdbVersion });
  process.stdout.write(`${JSON.stringify(list, null, 1)}\n`);
}
