import { availableParallelism } from "node:os";
import { defineConfig } from "vitest/config";

// Forks instead of threads: the native store drivers must not be loaded twice into one process.
export default defineConfig({
  root: new URL("..", import.meta.url).pathname,
  test: {
    include: ["test/**/*.test.ts"],
    pool: "forks",
    // Two workers even on two cores, because the tests of whole fleets mostly wait.
    maxWorkers: Math.max(2, availableParallelism() - 1),
    testTimeout: 30_000,
    hookTimeout: 60_000,
  },
});
