import { mkdtempSync, rmSync } from "node:fs";
import { availableParallelism, tmpdir } from "node:os";
import { join } from "node:path";
import { defineConfig } from "vitest/config";
import { BaseSequencer, type TestSpecification } from "vitest/node";

const root = new URL("..", import.meta.url).pathname;

// The tests start hundreds of processes, and compiling the same modules again would take a third of their start.
process.env.NODE_COMPILE_CACHE ??= join(root, ".fleet", "compile-cache");

// The spools of the tests are none of the user's.
process.env.XDG_STATE_HOME = mkdtempSync(join(tmpdir(), "fleet-state-"));
process.on("exit", () => rmSync(process.env.XDG_STATE_HOME ?? "", { recursive: true, force: true }));

/** Runs the tests of whole fleets first: they take longest, and the last of them would otherwise run alone at the end. */
class FleetsFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files);
    const isFleet = ({ moduleId }: TestSpecification) => moduleId.includes("/test/fleet/");
    return [...sorted.filter(isFleet), ...sorted.filter((file) => !isFleet(file))];
  }
}

// Forks instead of threads: the native store drivers must not be loaded twice into one process.
export default defineConfig({
  root,
  test: {
    include: ["test/**/*.test.ts"],
    pool: "forks",
    // Three workers even on two cores, because the tests of whole fleets mostly wait.
    maxWorkers: Math.max(3, availableParallelism() - 1),
    sequence: { sequencer: FleetsFirst },
    testTimeout: 30_000,
    hookTimeout: 60_000,
    // A poll ends when its condition holds; the default of one second would measure the load of the machine.
    expect: { poll: { timeout: 20_000, interval: 20 } },
  },
});
