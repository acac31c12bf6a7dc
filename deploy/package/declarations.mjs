// The declarations of the package: those that its exports lead to, with specifiers that every resolution of modules knows.

import { readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";

// The compiler leaves the ending .ts in declarations, which only recent compilers resolve to a declaration.
const SPECIFIER = /(\bfrom |\bimport\(|\bimport )"(\.{1,2}\/[^"]+)\.ts"/g;

/** Keeps the declarations that `entries` (paths below `dist`) import, directly or not, and removes the others. */
export function keepReachable(dist, entries) {
  const reached = new Set();
  const waiting = entries.map((path) => join(dist, path));
  for (let path = waiting.pop(); path !== undefined; path = waiting.pop()) {
    if (reached.has(path)) continue;
    reached.add(path);
    const text = readFileSync(path, "utf8");
    for (const [, , target] of text.matchAll(SPECIFIER))
      waiting.push(resolve(dirname(path), `${target}.d.ts`));
    writeFileSync(path, text.replace(SPECIFIER, '$1"$2.js"'));
  }
  for (const name of readdirSync(dist, { recursive: true })) {
    const path = join(dist, String(name));
    if (path.endsWith(".d.ts") && !reached.has(path)) rmSync(path);
  }
}
