import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { projectRoot } from "../../harness/project-root.ts";
import { FILES, type Frame, partOf, THREADS } from "./parts.ts";

const frame = (path: string, name = "work"): Frame => ({ path, name });
const native = (name: string): Frame => ({ path: "", name });

describe("the table", () => {
  const folders = ["shared", "services"].flatMap((top) =>
    readdirSync(join(projectRoot, top), { withFileTypes: true })
      .filter((entry) => entry.isDirectory())
      .map(({ name }) => `${top}/${name}`),
  );

  test.each(folders)("has a part for %s", (folder) => {
    expect(partOf([frame(`${folder}/any-file.ts`)])).not.toBe("other");
  });

  test.each(Object.keys(FILES).filter((path) => !path.startsWith("node:")))(
    "names what exists: %s",
    (row) => {
      const [path, name] = row.split("#") as [string, string | undefined];
      expect(existsSync(join(projectRoot, path))).toBe(true);
      if (name !== undefined)
        expect(readFileSync(join(projectRoot, path), "utf8")).toContain(`function ${name}(`);
    },
  );

  test("names the programs of threads that exist", () => {
    for (const share of Object.values(THREADS))
      if ("program" in share) expect(existsSync(join(projectRoot, share.program))).toBe(true);
  });
});

describe("the part of a stack", () => {
  const writer = frame("services/writer/command-handler.ts");

  test("is that of its innermost function that the table names", () => {
    expect(partOf([frame("shared/store/limits.ts"), writer])).toBe("store layer");
    expect(partOf([frame("shared/integrity/canonical.ts"), writer])).toBe("encoding");
    expect(partOf([frame("shared/integrity/canonical.ts", "sha256Hex"), writer])).toBe("hashing");
  });

  test("native code and unnamed code of Node belong to their caller", () => {
    expect(partOf([native("writev"), frame("node:internal/util"), frame("shared/bus/bus.ts")])).toBe(
      "bus connection",
    );
  });

  test("a job claims all that it calls", () => {
    const log = frame("services/watchdog/audit-log/audit-logger.ts");
    expect(partOf([frame("node:internal/crypto/hash"), frame("shared/store/store.ts"), log])).toBe("log");
  });

  test("collection counts beside its caller, and waiting not at all", () => {
    expect(partOf([native("(garbage collector)"), writer])).toBe("garbage collection, in the threads");
    expect(partOf([native("(idle)")])).toBeNull();
  });

  test("code that the table does not name is other", () => {
    expect(partOf([frame("elsewhere/file.ts"), frame("node:internal/timers")])).toBe("other");
    expect(partOf([frame("node:internal/timers")])).toBe("event loop and native code");
  });
});
