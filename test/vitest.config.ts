import { mkdtempSync, rmSync } from "node:fs";
import { availableParallelism, tmpdir } from "node:os";
import { join } from "node:path";
import { defineConfig } from "vitest/config";
import { BaseSequencer, type TestSpecification } from "vitest/node";

const root = new URL("..", import.meta.url).pathname;

// The tests start hundreds of processes, and compiling the same modules again would take a third of their start.
process.env.NODE_COMPILE_CACHE ??= join(root, ".fleet", "compile-cache");

// A fleet of a test takes any free port for its HTTP API, as it does for its others.
process.env.FLEET_GATEWAY_PORT ??= "-1";

// The spools of the tests are none of the user's.
process.env.XDG_STATE_HOME = mkdtempSync(join(tmpdir(), "fleet-state-"));
process.on("exit", () => rmSync(process.env.XDG_STATE_HOME ?? "", { recursive: true, force: true }));

/** Starts the tests that take longest first: the last of them would otherwise run alone at the end. */
class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files);
    const group = ({ moduleId, project }: TestSpecification) =>
      moduleId.includes("/test/fleet/") || moduleId.includes("/test/deploy/package/")
        ? 0
        : project.config.isolate
          ? 1
          : 2;
    return sorted.toSorted((a, b) => group(a) - group(b));
  }
}

/** Tests in one process, one file after the other: they start no process of their own and change nothing of the process. */
const IN_ONE_PROCESS = [
  "test/shared/{bus,integrity,protocol,records,runtime,service-host,store}/**/*.test.ts",
  "test/services/{cli,coordinator,gateway,reader,watchdog,writer}/**/*.test.ts",
  "test/fleet/faults/*/**/*.test.ts",
  "test/load/**/*.test.ts",
];

// Forks instead of threads: the native store drivers must not be loaded twice into one process.
export default defineConfig({
  root,
  test: {
    // Most of the time of a small test is the start of a process and the import of its modules.
    projects: [
      { extends: true, test: { name: "alone", include: ["test/**/*.test.ts"], exclude: IN_ONE_PROCESS } },
      { extends: true, test: { name: "together", include: IN_ONE_PROCESS, isolate: false } },
    ],
    pool: "forks",
    // Four workers even on two cores, because the tests of whole fleets mostly wait.
    maxWorkers: Math.max(4, availableParallelism() - 1),
    sequence: { sequencer: LongestFirst },
    testTimeout: 120_000,
    hookTimeout: 120_000,
    // A poll ends when its condition holds; the default of one second would measure the load of the machine.
    expect: { poll: { timeout: 20_000, interval: 20 } },
  },
});
