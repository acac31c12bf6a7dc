// The package as users install it: its size, its declarations, and its programs under the oldest and the newest Node.

import { execFileSync, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, describe, expect, type TestContext, test } from "vitest";
import { findNatsServer } from "../../../deploy/local/nats-binary.mjs";
import { projectRoot } from "../../harness/project-root.ts";
import { findNode, type Installation, installPackage } from "./installation.ts";

const MB = 1_000_000;
/** A program of a user: everything that it imports must have types. */
const PROGRAM = `import { type AgentResult, connect, FleetError, runAgent } from "fleet";
import { LIMITS, type Checkpoint } from "fleet/protocol";
import { createFleet } from "fleet/testing";

const fleet = await connect({ agentId: "packaged" });
const ended: AgentResult = await runAgent({
  fleet,
  type: "qa",
  task: \`packaged-\${process.versions.node.split(".")[0]}\`,
  begin: { goal: "Run from a package", pending_items: ["a", "b"] },
  async work(run) {
    for (const item of run.items()) await run.done(item);
  },
});
const checkpoint: Checkpoint = (await fleet.getCheckpoint(ended.checkpointId ?? "")) as Checkpoint;
const titles = checkpoint.execution_state.completed_items?.map((item) => item.title);
await using embedded = await createFleet();
const other = await embedded.connect({ agentId: "tester" });
const refused = await fleet.getCheckpoint("no id").catch((error: unknown) => error);
console.log(
  JSON.stringify({ outcome: ended.outcome, titles, code: refused instanceof FleetError && refused.code, limit: LIMITS.message_bytes_max > 0, fence: (await other.takeTask("own")).fence }),
);
await fleet.close();
`;

let installed: Installation;
beforeAll(() => {
  installed = installPackage();
}, 600_000);
afterAll(() => installed && rmSync(dirname(installed.folder), { recursive: true, force: true }));

const skipOffline = (context: TestContext): void =>
  context.skip(installed.unreachable !== undefined, "the registry of npm cannot be reached");

/** Compiles the program of the user. Without skipLibCheck the compiler checks all that it checks with it, and the declarations. */
function compile(module: string, moduleResolution: string): string {
  writeFileSync(join(installed.folder, "program.ts"), PROGRAM);
  const compilerOptions = {
    strict: true,
    skipLibCheck: false,
    target: "es2022",
    module,
    moduleResolution,
    types: ["node"],
  };
  const config = { compilerOptions, files: ["program.ts"] };
  writeFileSync(join(installed.folder, "tsconfig.json"), JSON.stringify(config));
  const compiler = join(projectRoot, "node_modules/typescript/bin/tsc");
  return spawnSync(process.execPath, [compiler], { cwd: installed.folder, encoding: "utf8" }).stdout;
}

test("the package has at most 3 MB, and 40 MB with its dependencies", (context) => {
  expect(installed.unpackedBytes).toBeLessThan(3 * MB);
  skipOffline(context);
  expect(installed.installedBytes).toBeLessThan(40 * MB);
});

test.for([
  ["nodenext", "nodenext"],
  ["esnext", "bundler"],
] as const)(
  "its declarations compile with module %s and moduleResolution %s",
  ([module, resolution], context) => {
    skipOffline(context);
    expect(compile(module, resolution)).toBe("");
  },
);

describe.each([20, 24])("under Node %i", (major) => {
  const node = findNode(major);

  test("a fleet starts, an agent completes its task, and the status is shown", async (context) => {
    skipOffline(context);
    if (node === undefined) return context.skip(`there is no Node ${major} on PATH`);
    const { folder } = installed;
    const nats = findNatsServer({ root: projectRoot });
    const env = {
      PATH: `${dirname(node)}:/usr/bin:/bin`,
      HOME: folder,
      FLEET_HOME: join(folder, `.fleet-${major}`),
      FLEET_NATS_SERVER: "path" in nats ? nats.path : "",
      FLEET_NATS_PORT: "-1",
      FLEET_OPS_PORT: "0",
    };
    const options = { cwd: folder, env, encoding: "utf8" } as const;
    const command = join(folder, "node_modules/.bin/fleet");
    const fleet = spawn(node, [command, "up"], { cwd: folder, env, stdio: ["ignore", "pipe", "pipe"] });
    const ended = once(fleet, "exit");
    try {
      let output = "";
      for (const stream of [fleet.stdout, fleet.stderr])
        stream.on("data", (chunk: Buffer) => {
          output += chunk.toString();
        });
      await expect.poll(() => output, { timeout: 60_000 }).toContain("Fleet is up");
      const status = JSON.parse(execFileSync(node, [command, "status", "--json"], options));
      const { version } = JSON.parse(readFileSync(join(projectRoot, "package.json"), "utf8"));
      expect(status).toMatchObject({ version, store: { engine: "lmdb", ok: true } });
      const program = JSON.parse(execFileSync(node, ["program.js"], options));
      expect(program).toEqual({
        outcome: "completed",
        titles: ["a", "b"],
        code: "INVALID",
        limit: true,
        fence: 1,
      });
      fleet.kill("SIGTERM");
      expect((await ended)[0], output).toBe(0);
    } finally {
      fleet.kill("SIGKILL");
    }
  }, 120_000);
});
