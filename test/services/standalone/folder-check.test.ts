/** A folder that cannot hold the fleet's data is refused in one line, and nothing is left in it. */
import { execFileSync, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, onTestFinished, type TestContext, test } from "vitest";
import { requireMaps, requireUsableFolder } from "../../../services/standalone/folder-check.ts";

const SOURCE = fileURLToPath(new URL("file-system-faults.c", import.meta.url));
const CHECK = new URL("../../../services/standalone/folder-check.ts", import.meta.url).href;

function scratch(): string {
  const path = mkdtempSync(join(tmpdir(), "fleet-folder-"));
  onTestFinished(() => rmSync(path, { recursive: true, force: true }));
  return path;
}

/** The environment of a process whose file system lacks something. Skips the test without a C compiler. */
function faultOf(fault: "locks" | "links" | "maps", { skip }: TestContext): NodeJS.ProcessEnv {
  const library = join(scratch(), "faults.so");
  const compiled = spawnSync("cc", ["-shared", "-fPIC", "-o", library, SOURCE, "-ldl"]);
  if (compiled.status !== 0) skip("there is no C compiler for this system");
  return { ...process.env, LD_PRELOAD: library, FAULT: fault };
}

test("a usable folder is created for its user alone, and stays empty", () => {
  const home = join(scratch(), "new", "home");
  expect(requireUsableFolder(home)).toBe(home);
  expect(readdirSync(home)).toEqual([]);
  requireMaps(home, home);
});

test("a file in the place of the folder", () => {
  const path = join(scratch(), "home");
  writeFileSync(path, "");
  expect(() => requireUsableFolder(path)).toThrow(
    expect.objectContaining({ exitCode: 73, details: { path, problem: "EEXIST" } }),
  );
});

test("a read-only disk, with the folder and without it", ({ skip }) => {
  const disk = scratch();
  try {
    execFileSync("mount", ["-t", "tmpfs", "-o", "size=1m", "tmpfs", disk], { stdio: "ignore" });
  } catch {
    return skip("a file system cannot be mounted here");
  }
  onTestFinished(() => void execFileSync("umount", [disk]));
  mkdirSync(join(disk, "present"));
  execFileSync("mount", ["-o", "remount,ro", disk]);
  for (const path of [join(disk, "present"), join(disk, "missing", "home")])
    expect(() => requireUsableFolder(path)).toThrow(
      expect.objectContaining({
        message: "the folder for the fleet's data cannot be written",
        exitCode: 73,
        details: { path, problem: "EROFS" },
      }),
    );
});

for (const [fault, lacks] of [
  ["locks", "locks"],
  ["links", "hard links"],
] as const) {
  test(`a file system without ${lacks}`, (context) => {
    const home = join(scratch(), "home");
    const script = `import { requireUsableFolder } from ${JSON.stringify(CHECK)};
      try { requireUsableFolder(${JSON.stringify(home)}); }
      catch ({ exitCode, details }) { process.stdout.write(JSON.stringify({ exitCode, details })); }`;
    const child = spawnSync(process.execPath, ["--input-type=module", "-e", script], {
      env: faultOf(fault, context),
      encoding: "utf8",
    });
    expect(JSON.parse(child.stdout)).toMatchObject({ exitCode: 73, details: { path: home, lacks } });
    expect(existsSync(home)).toBe(false);
  });
}

test("a file system without memory maps, on which the engine ends the process", (context) => {
  const folder = scratch();
  const env = faultOf("maps", context);
  expect(() => requireMaps(folder, folder, env)).toThrow(
    expect.objectContaining({ exitCode: 73, details: expect.objectContaining({ lacks: "memory maps" }) }),
  );
});
