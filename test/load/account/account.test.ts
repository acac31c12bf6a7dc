import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { expect, test } from "vitest";
import { projectRoot } from "../../harness/project-root.ts";
import { divide } from "./account.ts";
import type { CpuProfile } from "./profile.ts";

/** A thread with one sample a microsecond: each is of one file, or of a state of V8. */
function profileOf(...samples: readonly string[]): CpuProfile {
  const files = [...new Set(samples)];
  const callFrame = (file: string) =>
    file.startsWith("(")
      ? { functionName: file, url: "" }
      : { functionName: "run", url: pathToFileURL(join(projectRoot, file)).href };
  return {
    nodes: [
      { id: 1, callFrame: callFrame("(root)"), children: files.map((_, i) => i + 2) },
      ...files.map((file, i) => ({ id: i + 2, callFrame: callFrame(file) })),
    ],
    startTime: 0,
    samples: samples.map((file) => files.indexOf(file) + 2),
    timeDeltas: samples.map(() => 1),
  };
}

const PROGRAM = "services/standalone/thread-program.ts";
const COMMIT_PROGRAM = "shared/store/lmdb/worker.ts";
const COLLECTION = "(garbage collector)";

test("divides each thread's time by its samples, and leaves what no row names", () => {
  const used = {
    span: { from: 0, to: 100 },
    threads: new Map([
      ["fleet-services", 800],
      ["lmdb-commit", 100],
      ["V8Worker", 50],
      ["unknown", 7],
    ]),
    fleet: 960,
    natsServer: 200,
    clients: 300,
    idle: 0,
    busy: 2_000,
  };
  const { parts, total } = divide(used, [
    profileOf(PROGRAM, "shared/store/store.ts", "(idle)", "(idle)", COLLECTION, "shared/bus/bus.ts"),
    profileOf(COMMIT_PROGRAM, "shared/store/optimistic/commit.ts", "(idle)", COLLECTION, "node:events"),
  ]);
  expect(Object.fromEntries(parts)).toEqual({
    clients: 300,
    "nats-server": 200,
    "other background jobs": 200,
    "store layer": 200,
    "bus connection": 200,
    "garbage collection, in the threads": 200 + 25,
    "commit threads": 75,
    "garbage collection and compilation, helper threads": 50,
  });
  expect(total).toBe(1_460);
  expect([...parts.values()].reduce((sum, us) => sum + us, 0)).toBe(1_450);
});
