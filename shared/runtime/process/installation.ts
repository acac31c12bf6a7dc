/**
 * The places of this program's own files. In a checkout the modules are TypeScript. In an installed package they are compiled
 * JavaScript in `dist`, one folder below the manifest.
 */
import { existsSync, readFileSync } from "node:fs";
import { dirname, extname, join } from "node:path";
import { fileURLToPath } from "node:url";

/** The folder of package.json. */
export function packageRoot(): string {
  let folder = dirname(fileURLToPath(import.meta.url));
  while (!existsSync(join(folder, "package.json"))) {
    const parent = dirname(folder);
    if (parent === folder) throw new Error("package.json is missing beside the program");
    folder = parent;
  }
  return folder;
}

/**
 * The call of `fleet` as shell words that work in every folder, also without a link on the PATH. In a checkout it names the pinned Node,
 * which starts in a third of the time of older ones.
 */
export function fleetCall(): string {
  const root = packageRoot();
  const pinned = join(root, "node_modules", ".bin", "node");
  const node = existsSync(join(root, "services")) && existsSync(pinned) ? [pinned] : [];
  return [...node, join(root, "deploy", "local", "fleet.mjs")].map(shellWord).join(" ");
}

/**
 * The call of `fleet` for `fleet hook <vendor> <event>` alone, which runs at every tool call of an agent: a shell starts in a fraction of
 * the time of Node.
 */
export function hookCall(): string {
  if (process.platform === "win32") return fleetCall();
  return `sh ${shellWord(join(packageRoot(), "deploy", "hook", "fleet.sh"))}`;
}

export const shellWord = (text: string): string =>
  /^[A-Za-z0-9_/.@:+-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;

/** The version in package.json. */
export function packageVersion(): string {
  const manifest = readFileSync(join(packageRoot(), "package.json"), "utf8");
  return (JSON.parse(manifest) as { version: string }).version;
}

/**
 * The program of a thread or of a child process. The compiler rewrites the endings of imports but not those of other paths.
 * @param path relative to the calling module, with the ending `.ts`
 * @param caller `import.meta.url` of the calling module
 */
export function programUrl(path: string, caller: string): URL {
  return new URL(path.replace(/\.ts$/, extname(new URL(caller).pathname)), caller);
}
