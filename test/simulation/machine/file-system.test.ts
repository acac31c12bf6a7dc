import fs from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { seededRandom } from "../../load/workload.ts";
import { SIMULATED_FOLDER, SimulatedFiles } from "./file-system.ts";

type Files = Pick<SimulatedFiles, "openSync" | "closeSync" | "readFileSync" | "fsyncSync" | "mkdirSync">;
type Act = (files: typeof fs, folder: string) => unknown;

/** The outcome of a call: its result or the code of its error. */
function outcome(act: Act, files: typeof fs, folder: string): unknown {
  try {
    const result = act(files, folder);
    return typeof result === "string" ? result.replace(folder, "") : result;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === undefined) throw error;
    return code;
  }
}

const withFile = (files: typeof fs, path: string, flags: string, act: (fd: number) => unknown): unknown => {
  const fd = files.openSync(path, flags);
  try {
    return act(fd);
  } finally {
    files.closeSync(fd);
  }
};

const ACTS: readonly Act[] = [
  (f, at) => f.mkdirSync(`${at}/a/b/c`, { recursive: true }),
  (f, at) => f.mkdirSync(`${at}/a/b/c`, { recursive: true }),
  (f, at) => f.mkdirSync(`${at}/a`),
  (f, at) => f.mkdirSync(`${at}/absent/b`),
  (f, at) => f.writeFileSync(`${at}/a/one`, "first"),
  (f, at) => f.writeFileSync(`${at}/a/one`, "again", { flag: "wx" }),
  (f, at) => f.writeFileSync(`${at}/a/one`, "2nd"),
  (f, at) => f.readFileSync(`${at}/a/one`, "utf8"),
  (f, at) => withFile(f, `${at}/a/one`, "a", (fd) => f.writeSync(fd, Buffer.from("xxmorexx"), 2, 4)),
  (f, at) => withFile(f, `${at}/a/one`, "r+", (fd) => [f.writeSync(fd, "A"), f.writeSync(fd, "B")]),
  (f, at) => withFile(f, `${at}/a/one`, "r", (fd) => f.readFileSync(fd, "utf8")),
  (f, at) => withFile(f, `${at}/a`, "r", (fd) => f.fsyncSync(fd)),
  (f, at) => withFile(f, `${at}/a/absent`, "r", () => null),
  (f, at) => f.statSync(`${at}/a/one`).size,
  (f, at) => f.statSync(`${at}/a/one`, { bigint: true }).size,
  (f, at) => f.statSync(`${at}/a`).isDirectory(),
  (f, at) => f.statSync(`${at}/absent`, { throwIfNoEntry: false }),
  (f, at) => f.statSync(`${at}/absent`),
  (f, at) => f.statSync(`${at}/a/one/below`),
  (f, at) => f.linkSync(`${at}/a/one`, `${at}/a/two`),
  (f, at) => f.linkSync(`${at}/a/one`, `${at}/a/two`),
  (f, at) => withFile(f, `${at}/a/two`, "a", (fd) => f.writeSync(fd, "!")),
  (f, at) => f.readFileSync(`${at}/a/one`, "utf8"),
  (f, at) => f.renameSync(`${at}/a/one`, `${at}/a/b/three`),
  (f, at) => f.renameSync(`${at}/a/one`, `${at}/a/four`),
  (f, at) => f.readdirSync(`${at}/a`).sort(),
  (f, at) => f.readdirSync(`${at}/a/two`),
  (f, at) => f.readFileSync(`${at}/a`),
  (f, at) => f.existsSync(`${at}/a/b/three`),
  (f, at) => f.accessSync(`${at}/absent`),
  (f, at) => f.unlinkSync(`${at}/a/two`),
  (f, at) => f.rmSync(`${at}/a/two`),
  (f, at) => f.rmSync(`${at}/a/two`, { force: true }),
  (f, at) => f.rmSync(`${at}/a`, { recursive: true }),
  (f, at) => f.readdirSync(at),
];

test("the simulated files answer as those of the system", () => {
  const folder = fs.mkdtempSync(join(tmpdir(), "fleet-files-"));
  try {
    const simulated = new SimulatedFiles({ random: seededRandom(1) });
    const outcomes = (files: typeof fs, at: string) => ACTS.map((act) => outcome(act, files, at));
    expect(outcomes(simulated as unknown as typeof fs, SIMULATED_FOLDER)).toEqual(outcomes(fs, folder));
  } finally {
    fs.rmSync(folder, { recursive: true });
  }
});

describe("after a power cut", () => {
  const PATH = `${SIMULATED_FOLDER}/file`;
  const append = (files: SimulatedFiles, text: string, isSynced: boolean): void => {
    const fd = files.openSync(PATH, "a");
    files.writeSync(fd, text);
    if (isSynced) files.fsyncSync(fd);
    files.closeSync(fd);
  };
  const syncFolder = (files: Files): void => {
    const fd = files.openSync(SIMULATED_FOLDER, "r");
    files.fsyncSync(fd);
    files.closeSync(fd);
  };
  /** What is left with many seeds. */
  const leftAfter = (work: (files: SimulatedFiles) => void): Set<string> =>
    new Set(
      Array.from({ length: 200 }, (_, seed) => {
        const files = new SimulatedFiles({ random: seededRandom(seed) });
        work(files);
        files.cutPower();
        return files.existsSync(PATH) ? String(files.readFileSync(PATH, "utf8")) : "absent";
      }),
    );

  test("a file with a synced content and a synced name is as it was", () => {
    const left = leftAfter((files) => {
      append(files, "one", true);
      syncFolder(files);
    });
    expect([...left]).toEqual(["one"]);
  });

  test("a name that was not synced may be gone, and so may the bytes behind the last sync", () => {
    expect(leftAfter((files) => append(files, "one", true))).toEqual(new Set(["one", "absent"]));
    const left = leftAfter((files) => {
      append(files, "one", true);
      syncFolder(files);
      append(files, "two", false);
    });
    expect(left).toContain("one");
    expect(left).toContain("onetwo");
    for (const text of left) expect(text.startsWith("one")).toBe(true);
  });

  test("what a cut has left stays after the next one, and descriptors are closed", () => {
    const files = new SimulatedFiles({ random: seededRandom(1) });
    const fd = files.openSync(PATH, "a");
    files.writeSync(fd, "one");
    files.cutPower();
    expect(() => files.writeSync(fd, "two")).toThrow("EBADF");
    const left = files.existsSync(PATH) ? files.readFileSync(PATH, "utf8") : "absent";
    files.cutPower();
    expect(files.existsSync(PATH) ? files.readFileSync(PATH, "utf8") : "absent").toBe(left);
  });
});
