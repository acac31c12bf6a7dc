// One name for one thing, and few enough files in a folder to read its list at a glance.

import { file, isCode, isProduction, type Rule } from "./source.ts";

const FILES_IN_FOLDER = 15;

/** Folders with more files, each with the reason. */
const CROWDED: Readonly<Record<string, string>> = {
  "test/load/groups": "one file for each group of the benchmark, named as on its command line",
  "shared/protocol": "one file for each kind of message or record, read like an index",
};

export const crowdedFolders: Rule = {
  name: `no folder holds more than ${FILES_IN_FOLDER} source files`,
  check: (files) => {
    const counts = new Map<string, number>();
    for (const { path } of files.filter(isCode)) {
      const folder = path.split("/").slice(0, -1).join("/");
      counts.set(folder, (counts.get(folder) ?? 0) + 1);
    }
    return [...counts]
      .filter(([folder, count]) => count > FILES_IN_FOLDER && !Object.hasOwn(CROWDED, folder))
      .map(
        ([folder, count]) =>
          `${folder}: ${count} files, at most ${FILES_IN_FOLDER}; split it, or give a reason in test/tidy/names.ts`,
      );
  },
  broken: Array.from({ length: FILES_IN_FOLDER + 1 }, (_, i) => file(`shared/bus/part-${i}.ts`)),
  kept: Array.from({ length: FILES_IN_FOLDER }, (_, i) => file(`shared/bus/part-${i}.ts`)),
};

/** The names that every service exports by the rule of services. */
const SHARED_NAMES = new Set(["start"]);

const EXPORTED =
  /^export (?:declare )?(?:abstract )?(?:async )?(?:const|let|function\*?|class|interface|type|enum) (\w+)/gm;

export const duplicateNames: Rule = {
  name: "no two files export the same name",
  check: (files) => {
    const homes = new Map<string, Set<string>>();
    for (const { path, text } of files.filter(isProduction)) {
      for (const [, name] of text.matchAll(EXPORTED)) {
        homes.set(name!, (homes.get(name!) ?? new Set()).add(path));
      }
    }
    return [...homes]
      .filter(([name, paths]) => paths.size > 1 && !SHARED_NAMES.has(name))
      .map(([name, paths]) => {
        const [first, ...others] = paths;
        return `${first}: exports ${name}, as ${others.join(" and ")}; one name means one thing, so rename one of them`;
      });
  },
  broken: [
    file("shared/bus/a.ts", "export const send = 1;"),
    file("shared/store/b.ts", "export async function send() {}"),
  ],
  kept: [file("shared/bus/a.ts", "export const send = 1;"), file("shared/store/b.ts", "const send = 2;")],
};
