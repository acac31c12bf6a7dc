// Whether a recording has everything: without a cut, the recorded disk must be as the programs have left the folder.

import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { Playback } from "./playback.ts";
import type { Recording } from "./recorder.ts";

/** The files that differ. Those that were also written through memory are left out: `mapped` names them. */
export function missingIn(recording: Recording): { readonly differing: string[]; readonly mapped: string[] } {
  const { disk, mapped } = played(recording);
  const paths = new Map([[disk.root, ""]]);
  const recorded = new Map<string, number>();
  // A folder is made before what is in it, so its own name comes first.
  for (const [key, id] of disk.names) {
    const [folder = "", name = ""] = [key.slice(0, key.indexOf("/")), key.slice(key.indexOf("/") + 1)];
    const path = join(paths.get(Number(folder))!, name);
    recorded.set(path, id);
    if (disk.files.get(id)!.isFolder) paths.set(id, path);
  }
  const found = readdirSync(recording.root, { recursive: true, encoding: "utf8" });
  const isSame = (path: string): boolean => {
    const id = recorded.get(path);
    if (id === undefined) return false;
    if (mapped.has(id) || disk.files.get(id)!.isFolder) return true;
    return disk.contentOf(id).equals(readFileSync(join(recording.root, path)));
  };
  const all = [...new Set([...found, ...recorded.keys()])];
  return {
    differing: all.filter((path) => !found.includes(path) || !isSame(path)),
    mapped: [...recorded].flatMap(([path, id]) => (mapped.has(id) ? [path] : [])),
  };
}

function played(recording: Recording): Playback {
  const playback = new Playback(recording);
  for (const moment of recording.moments) playback.step(moment);
  return playback;
}
