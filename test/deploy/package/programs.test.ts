/** The compiler of the package finds only what is imported, so its settings list every program of a thread or child process. */
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { expect, test } from "vitest";
import { projectRoot } from "../../harness/project-root.ts";

const SETTINGS = "deploy/package/tsconfig.json";
const PROGRAM = /\bprogramUrl\("([^"]+\.ts)"/g;

test("every program that is started by its path is in the package", () => {
  const listed = readFileSync(join(projectRoot, SETTINGS), "utf8");
  const programs = ["services", "shared"].flatMap((folder) =>
    readdirSync(join(projectRoot, folder), { recursive: true, encoding: "utf8" })
      .filter((path) => path.endsWith(".ts"))
      .flatMap((path) => programsOf(join(projectRoot, folder, path))),
  );
  expect(programs.length).toBeGreaterThan(3);
  expect(programs.filter((path) => !listed.includes(`"../../${path}"`))).toEqual([]);
});

function programsOf(file: string): string[] {
  return [...readFileSync(file, "utf8").matchAll(PROGRAM)].map(([, path]) =>
    relative(projectRoot, resolve(dirname(file), path!)),
  );
}
