// The package as users install it: its size, its declarations, and its programs under the oldest and the newest Node.

import { execFileSync, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, describe, expect, type TestContext, test } from "vitest";
import { findNatsServer } from "../../../deploy/local/nats-binary.mjs";
import { projectRoot } from "../../harness/project-root.ts";
import { clear, fill, smallDisk } from "../../harness/small-disk.ts";
import { findNode, type Installation, installPackage, productionBytes } from "./installation.ts";
import { example, Newcomer } from "./newcomer.ts";

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
}, 1_500_000);
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

test("the package has at most 7 MB, and 61 MB with its dependencies", (context) => {
  expect(installed.unpackedBytes).toBeLessThan(7 * MB);
  skipOffline(context);
  expect(installed.installedBytes).toBeLessThan(61 * MB);
});

test("the services of a checkout need less than 120 MB of packages", (context) => {
  skipOffline(context);
  const bytes = productionBytes();
  if (bytes === undefined) return context.skip("the registry of npm cannot be reached");
  expect(bytes).toBeGreaterThan(40 * MB);
  expect(bytes).toBeLessThan(120 * MB);
}, 900_000);

test.for([
  ["nodenext", "nodenext"],
  ["esnext", "bundler"],
] as const)(
  "its declarations compile with module %s and moduleResolution %s",
  // The compiler takes half a minute on a busy machine.
  { timeout: 120_000 },
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

/** An agent that kills itself in its second item on demand, and notes each item that it has finished. */
const CRASHING_AGENT = `import { appendFileSync } from "node:fs";
import { runAgent } from "fleet";

const ended = await runAgent({
  type: "implementation",
  task: "crash",
  begin: { goal: "Survive a crash", pending_items: ["a", "b", "c"] },
  checkpoints: { items: 1 },
  async work(run) {
    for (const item of run.items()) {
      if (item.title === "b" && process.argv[2] === "crash") process.kill(process.pid, "SIGKILL");
      appendFileSync("finished.txt", item.title);
      await run.done(item);
    }
  },
});
console.log(ended.outcome);
`;

/** An agent without a library: it takes a task, saves its work and ends. */
const SHELL_AGENT = `set -e
fence=$(fleet fence take notes --quiet)
fleet checkpoint --task notes --type documentation --phase implementing --pending "write the notes" --fence "$fence"
fleet resume notes
`;

describe("a newcomer's hour, under Node 20", () => {
  const node = findNode(20);
  let newcomer: Newcomer;

  beforeAll(() => {
    if (installed.unreachable !== undefined || node === undefined) return;
    const nats = findNatsServer({ root: projectRoot });
    newcomer = new Newcomer({
      project: installed.folder,
      node,
      natsServer: "path" in nats ? nats.path : "",
    });
  });
  afterAll(() => newcomer?.leave());

  const skipWithoutNode = (context: TestContext): void => {
    skipOffline(context);
    context.skip(node === undefined, "there is no Node 20 on PATH");
  };

  test("an own agent, a crash, a shell agent and a second fleet", async (context) => {
    skipWithoutNode(context);
    const [mine, other] = [newcomer.folder("mine"), newcomer.folder("other")];
    const fleet = await newcomer.up(mine);
    newcomer.compile(mine, "agent", example("README.md", "Use it from code"));
    expect(newcomer.type(mine, "node agent.js")).toMatchObject({
      exit: 0,
      out: expect.stringMatching(/^completed [0-9a-f-]+\n$/),
    });

    newcomer.compile(mine, "crashing", CRASHING_AGENT);
    expect(newcomer.type(mine, "node crashing.js crash").exit).toBe(137);
    expect(newcomer.type(mine, "node crashing.js")).toMatchObject({ exit: 0, out: "completed\n" });
    expect(readFileSync(join(mine, "finished.txt"), "utf8")).toBe("abc");

    writeFileSync(join(mine, "agent.sh"), SHELL_AGENT);
    expect(newcomer.type(mine, "sh agent.sh").out).toContain("write the notes");

    // The fleet of the folder is meant, also while another one runs and this one does not.
    const second = await newcomer.up(other);
    const tasksIn = (folder: string) =>
      newcomer.json(folder, "fleet tasks").tasks.map(({ task_id }: { task_id: string }) => task_id);
    expect(tasksIn(other)).toEqual([]);
    expect(tasksIn(mine)).toEqual(["crash", "dark-mode", "notes"]);
    expect(await fleet.stop()).toBe(0);
    const late = newcomer.type(mine, "fleet checkpoint --task late --type qa --phase testing --timeout 2s");
    expect(late.out + late.err).toMatch(/spool/i);
    expect(tasksIn(other)).toEqual([]);
    const again = await newcomer.up(mine);
    expect(newcomer.type(mine, "fleet spool flush --timeout 20s")).toMatchObject({ exit: 0 });
    expect(newcomer.json(mine, "fleet task show late")).toMatchObject({ task_id: "late" });
    expect([await again.stop(), await second.stop()]).toEqual([0, 0]);
  }, 900_000);

  test("the manual's test of an agent", (context) => {
    skipWithoutNode(context);
    const folder = newcomer.folder("tested");
    newcomer.compile(folder, "agent.test", example("shared/sdk/README.md", "Tests of an agent"));
    const { exit, out } = newcomer.type(folder, "node --test agent.test.js");
    expect({ exit, out }).toMatchObject({ exit: 0, out: expect.stringContaining("# pass 1") });
  }, 180_000);

  test("the projects of `fleet init` run", async (context) => {
    skipWithoutNode(context);
    const own = newcomer.folder("own");
    const fleet = await newcomer.up(own);
    const made = (kind: string) => {
      expect(newcomer.type(own, `fleet init ${kind} ${kind}`)).toMatchObject({ exit: 0, err: "" });
      symlinkSync(join(installed.folder, "node_modules"), join(own, kind, "node_modules"));
      return join(own, kind);
    };
    const compiler = join(installed.folder, "node_modules/.bin/tsc");
    symlinkSync(join(projectRoot, "node_modules/typescript/bin/tsc"), compiler);

    const agent = made("agent");
    const tested = newcomer.type(agent, "npm test");
    expect({ exit: tested.exit, out: tested.out }).toMatchObject({
      exit: 0,
      out: expect.stringContaining("# pass 1"),
    });
    expect(newcomer.type(agent, "npm start").out).toMatch(/read\nwrite\ntest\ncompleted\n$/);
    const again = newcomer.type(own, "fleet init agent agent");
    expect(again).toMatchObject({ exit: 64, out: "" });
    expect(again.err).toContain("README.md, package.json, src/agent.ts");

    const orchestrator = await newcomer.start(made("orchestrator"), "npm start", "waiting for offers");
    await newcomer.start(made("runner"), "npm start", "runner started");
    for (const [task, type] of [
      ["demo", "implementation"],
      ["notes", "documentation"],
    ]) {
      const created = `fleet checkpoint --task ${task} --type ${type} --phase implementing --pending "write the text"`;
      newcomer.type(own, `${created} --timeout 20s && fleet handoff create ${task} --timeout 20s`);
    }
    await expect.poll(orchestrator.output, { timeout: 60_000 }).toContain("> - write the text");
    const state = () => newcomer.json(own, "fleet task show notes").state;
    await expect.poll(state, { timeout: 60_000 }).toBe("completed");
    expect(await fleet.stop()).toBe(0);
  }, 900_000);

  test("a full disk refuses commands and loses none", async (context) => {
    skipWithoutNode(context);
    const disk = smallDisk(256, context);
    const folder = newcomer.folder("disk");
    const home = join(disk, "home");
    const fleet = await newcomer.up(folder, `--home ${home}`);
    const type = (line: string) => newcomer.type(folder, `FLEET_HOME=${home} ${line}`);
    const save = (task: string, timeout = "20s") =>
      type(`fleet checkpoint --task ${task} --type qa --phase testing --timeout ${timeout}`);
    expect(save("before")).toMatchObject({ exit: 0 });
    fill(disk, 0);
    await expect.poll(() => type("fleet status").out, { timeout: 60_000 }).toMatch(/full/);
    // The writer notices the full disk on its own, so the first commands may still be saved. One that had no answer in time, on a busy
    // machine, is spooled. None is half saved.
    const saved: string[] = [];
    let refused = save("refused", "4s");
    const until = Date.now() + 120_000;
    for (let n = 1; refused.exit === 0 && Date.now() < until; n += 1) {
      saved.push(n === 1 ? "refused" : `refused-${n - 1}`);
      refused = save(`refused-${n}`, "4s");
    }
    expect(refused.exit).toBe(69);
    expect(refused.err).toContain("the disk is full");
    clear(disk);
    await expect.poll(() => save("after").exit, { timeout: 60_000 }).toBe(0);
    await expect.poll(() => type("fleet spool flush").exit, { timeout: 60_000 }).toBe(0);
    const tasks = () =>
      newcomer.json(folder, `FLEET_HOME=${home} fleet tasks`).tasks as { task_id: string }[];
    await expect
      .poll(() => tasks().map(({ task_id }) => task_id), { timeout: 60_000 })
      .toEqual(["after", "before", ...saved].sort());
    expect(await fleet.stop()).toBe(0);
  }, 480_000);

  test("without a network and without nats-server, the first fleet says what to do", (context) => {
    skipWithoutNode(context);
    const folder = newcomer.folder("offline");
    const bin = newcomer.folder("bin");
    for (const program of ["sh", "node", "fleet"])
      newcomer.type(bin, `ln -s "$(readlink -f "$(command -v ${program})")" ${program}`);
    const isolated = spawnSync("unshare", ["-n", "true"]).status === 0;
    context.skip(!isolated, "a network cannot be taken away here");
    const env = { FLEET_NATS_SERVER: "", PATH: bin };
    const unshare = execFileSync("/bin/sh", ["-c", "command -v unshare"], { encoding: "utf8" }).trim();
    const started = newcomer.type(folder, `${unshare} -n fleet up`, env);
    expect(started).toMatchObject({ exit: 69, out: "" });
    expect(started.err).toContain("export FLEET_NATS_SERVER=/path/to/nats-server");
  }, 180_000);
});
